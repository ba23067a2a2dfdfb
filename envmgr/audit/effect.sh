# shellcheck shell=sh
# effect LMOD MODULEPATH LMOD_RC 'NAME NAME…': the environment after `module load` of these, a line a variable, without what Lmod keeps for
# itself and what differs between accounts. Status 1, and Lmod's words on stderr, where it cannot be loaded. `scratch` is a file
# for it.

effect() {
  # shellcheck disable=SC2016 # the inner shell's
  env -i HOME=/nonexistent USER=nobody PATH=/usr/local/bin:/usr/bin:/bin LANG=C.UTF-8 \
    MODULEPATH="$2" LMOD_RC="$3" LMOD_CACHED_LOADS=yes /bin/sh -c '
      cd / && text=$("$1" sh load $2) && eval "$text" && env -0' sh "$1" "$4" >"${scratch?}" || return 1
  LC_ALL=C sort -z "$scratch" | tr '\n\000' '\037\n' | grep -v -E \
    '^(MODULEPATH|__MODULES_[A-Z]*|MODULES_[A-Z_]*|ENVMGR_GPU_NOTE|LMOD_[A-Z0-9_]*|_ModuleTable[A-Za-z0-9_]*|__LMOD_[^=]*|LOADEDMODULES|_LMFILES_|HOME|USER|PWD|OLDPWD|SHLVL|_)='
}
