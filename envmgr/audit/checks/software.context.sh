# shellcheck disable=SC2046,SC2317,SC2329,SC3028,SC3044,SC3054 # bash's; each word may be a function's name, which the prompt's command calls
# What the first program of an entry is in this shell once the entry is loaded, and whether it starts. The check of contexts may
# have loaded it. csh has its own `module`: this is the sh that it was replaced by. A job of `sbatch --wrap` has none.
: "${room?}" "${software_entry?}" "${software_program?}" "${software_limit?}"
# software_says TEXT: whether this of bash's, with its functions and theirs, may change PATH, an alias or a function.
software_says() {
  software_text=$1
  for _ in 1 2 3; do
    software_text="$1 $(declare -f -- $(printf '%s' "$software_text" | tr -c 'A-Za-z0-9_\n-' ' ') 2>/dev/null)"
  done
  printf '%s\n' "$software_text" | grep -q -E 'PATH|(^|[^[:alnum:]_-])(alias|unalias|hash|eval|source|module|ml|unset|\.)([[:space:]]|$)'
}
case :${LOADEDMODULES-}: in
  *":$software_entry:"*) ;;
  *)
    case ${ENVMGR_ALIAS:+/}$(command -v module 2>/dev/null) in
      /* | '') [ -z "${LMOD_CMD-}" ] || eval "$(LMOD_SHORT_TIME=86400 "$LMOD_CMD" sh load "$software_entry" 2>/dev/null)" ;;
      *) module load "$software_entry" >/dev/null 2>&1 ;;
    esac
    whole_path path_loaded ;;
esac
case :${LOADEDMODULES-}: in
  *":$software_entry:"*)
    software_name=${software_program##*/}
    put program "$(command -v "$software_name")"
    HOME=$room timeout -k 1 "$software_limit" "$software_name" --version </dev/null >/dev/null 2>&1
    put started $?
    case ${BASH_VERSION:+${shell_flags?}} in
      *i*)
        # It is run where its text, or that of a function which it calls, says something that can change what a name is: others only write.
        [ -z "${PROMPT_COMMAND-}" ] || ! eval 'software_says "${PROMPT_COMMAND[*]}"' || put prompted "$(
          history() { :; }
          fc() { :; }
          eval 'for software_prompt in "${PROMPT_COMMAND[@]}"; do eval "$software_prompt"; done' >/dev/null 2>&1
          command -v "$software_name"
        )" ;;
    esac ;;
esac
