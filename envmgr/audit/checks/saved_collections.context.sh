# shellcheck shell=sh
# What Lmod itself says of envmgr's hook, in a shell that has a generation.
: "${prefix?}" "${hook?}" "${hook_files?}"

case :${MODULEPATH-}: in
  *":$prefix/generations/"*)
    said=
    [ -z "${LMOD_CMD-}" ] || said=$(ENVMGR_COLLECTIONS=tell "$LMOD_CMD" bash --version 2>&1 >/dev/null)
    case $said in *"Modules based on Lua"*)
      said=$(printf '%s\n' "$said" | sed -n 's/^envmgr-collections: //p')
      put hook "${said:-not loaded}"
      # Where the hook that Lmod loaded is node-setup's; shell-init has its own in the prefix.
      case ${said:+:${LMOD_PACKAGE_PATH-}:} in
        *":$hook:"*)
          # shellcheck disable=SC2086
          sum=$(cd "$hook" && cat $hook_files 2>/dev/null | sha256sum) && put hook.sum "${sum%% *}"
          ;;
      esac
      if [ -z "$said" ]; then
        put hook.named "${LMOD_PACKAGE_PATH-}"
        [ ! -r "$hook/SitePackage.lua" ] || put hook.there yes
      fi
      ;;
    esac # else Lmod does not run: another check tells that
    ;;
esac
