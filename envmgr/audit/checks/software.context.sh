# shellcheck shell=sh
# What the first program of an entry is in this shell once the entry is loaded, and whether it starts. The check of contexts may
# have loaded it. csh has its own `module`: this is the sh that it was replaced by. A job of `sbatch --wrap` has none.
: "${software_entry?}" "${software_program?}" "${software_limit?}" "${software_most?}" "${software_start?}"

case :${LOADEDMODULES-}: in
  *":$software_entry:"*) ;;
  *)
    case ${ENVMGR_ALIAS:+/}$(command -v module 2>/dev/null) in
      /* | '') [ -z "${LMOD_CMD-}" ] || eval "$("$LMOD_CMD" sh load "$software_entry" 2>/dev/null)" ;;
      *) module load "$software_entry" >/dev/null 2>&1 ;;
    esac
    whole_path path_loaded
    ;;
esac
case :${LOADEDMODULES-}: in
  *":$software_entry:"*)
    software_name=${software_program##*/}
    put program "$(command -v "$software_name")"
    /bin/sh -c "$software_start" sh "$software_limit" "$software_most" "$software_name" --version </dev/null >/dev/null 2>&1
    put started $?
    # shellcheck disable=SC3028,SC3054 # bash's: what it does before the next prompt
    case ${BASH_VERSION:+${shell_flags?}} in
      *i*)
        if [ -n "${PROMPT_COMMAND-}" ]; then
          eval 'for software_prompt in "${PROMPT_COMMAND[@]}"; do eval "$software_prompt"; done' >/dev/null 2>&1
          put prompted "$(command -v "$software_name")"
        fi ;;
    esac
    ;;
  *) put program_unloaded yes ;;
esac
