# The environment after each entry is loaded; behind effect.sh, which writes to `scratch`.
: "${generation?}" "${samples?}" "${room?}"
scratch=$room/scratch effect_cached=yes effect_mark=
case ${LMOD_CMD:+:${MODULEPATH-}:} in *":$generation/modules:"*) ;; *) samples= ;; esac
for entry in $samples; do
  if effect "$LMOD_CMD" "$MODULEPATH" "${LMOD_RC-}" "$entry" >"$room/env" 2>"$room/said"; then
    head -n 500 "$room/env" | cut -c1-8000 | lines "loading.env.$entry"
  else
    plain <"$room/said" | grep . | head -n 5 | lines "loading.failed.$entry"
  fi
done
