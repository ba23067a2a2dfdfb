# What Lmod itself says of envmgr's hook, in a shell that has a generation.
: "${prefix?}" "${hook?}"
case :${MODULEPATH-}: in
  *":$prefix/generations/"*)
    # By the entry that the check of contexts has loaded, or in a version that Lmod tells.
    if [ -z "${hook_said+set}" ] && [ -n "${LMOD_CMD-}" ]; then
      said=$(ENVMGR_COLLECTIONS=tell "$LMOD_CMD" bash --version 2>&1 >/dev/null)
      case $said in *"Modules based on Lua"*) hook_said=$(printf '%s\n' "$said" | sed -n 's/^envmgr-collections: //p') ;; esac
    fi
    # Unset: Lmod does not run, which another check tells.
    [ -z "${hook_said+set}" ] || put hook "${hook_said:-not loaded}"
    if [ -z "${hook_said-unknown}" ]; then
      put hook.named "${LMOD_PACKAGE_PATH-}"
      [ ! -r "$hook/SitePackage.lua" ] || put hook.there yes
    fi ;;
esac

# What a login shell restores, where there is anything to restore: the user's default collection, or the site's modules.
if [ -n "${BASH_VERSION-}" ] && [ -n "${LMOD_CMD-}" ]; then
  collections_found=${LMOD_SYSTEM_DEFAULT_MODULES:+LMOD_SYSTEM_DEFAULT_MODULES=$LMOD_SYSTEM_DEFAULT_MODULES}
  for collections_file in "$HOME/.lmod.d/default${LMOD_SYSTEM_NAME:+.$LMOD_SYSTEM_NAME}" "$HOME/.config/lmod/default${LMOD_SYSTEM_NAME:+.$LMOD_SYSTEM_NAME}"; do
    [ ! -f "$collections_file" ] || collections_found=$collections_file
  done
  # shellcheck disable=SC3044 # it is bash
  if [ -n "$collections_found" ] && shopt -q login_shell &&
    ! collections_said=$(LMOD_SHORT_TIME=86400 "$LMOD_CMD" bash --no_redirect --initial_load restore 2>&1 >/dev/null); then
    put collection "$collections_found"
    printf '%s\n' "$collections_said" | plain | grep . | head -n 3 | lines collection.said
  fi
fi
