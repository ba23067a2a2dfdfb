# shellcheck shell=sh
# What Lmod itself says of envmgr's hook, in a shell that has a generation.
: "${prefix?}" "${hook?}"

case :${MODULEPATH-}: in
  *":$prefix/generations/"*)
    if [ -n "${LMOD_CMD-}" ]; then
      said=$(ENVMGR_COLLECTIONS=tell "$LMOD_CMD" bash --version 2>&1 >/dev/null | sed -n 's/^envmgr-collections: //p')
      put hook "${said:-not loaded}"
      if [ -z "$said" ]; then
        put hook.named "${LMOD_PACKAGE_PATH-}"
        [ ! -r "$hook/SitePackage.lua" ] || put hook.there yes
      fi
    fi
    ;;
esac
