# The environment after each entry is loaded; behind effect.sh, which writes to `scratch`.
: "${generation?}" "${samples?}" "${room?}"

listed=
case :${MODULEPATH-}: in *":$generation/modules:"*) listed=yes ;; esac
if [ -n "${LMOD_CMD-}" ] && [ -n "$listed" ]; then
  scratch=$room/scratch
  effect_cached=yes effect_mark=
  said=$room/said env=$room/env
  for entry in $samples; do
    if effect "$LMOD_CMD" "$MODULEPATH" "${LMOD_RC-}" "$entry" >"$env" 2>"$said"; then
      put "loading.sha256.$entry" "$(sum <"$env")"
      head -n 100 "$env" | cut -c1-2000 | lines "loading.env.$entry"
    else
      plain <"$said" | grep . | head -n 5 | lines "loading.failed.$entry"
    fi
  done
fi
