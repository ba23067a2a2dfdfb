# The environment after `module load`, a line a variable, without what Lmod keeps for itself and what differs between accounts. Status 1, and Lmod's words on
# stderr, where it cannot be loaded. `scratch` is a file for it. `effect_cached` is LMOD_CACHED_LOADS, by which Lmod looks at all modulefiles that no cache
# has; Lmod writes no cache of its own in any case. `effect_mark` is known by what is started: end_marked ends what that has left behind.
effect() { # LMOD MODULEPATH LMOD_RC 'NAME NAME…'
  env -i HOME=/nonexistent USER=nobody PATH=/usr/local/bin:/usr/bin:/bin LANG=C.UTF-8 LMOD_SHORT_TIME=86400 LMOD_TERM_WIDTH=80 ENVMGR_USAGE=no \
    MODULEPATH="$2" LMOD_RC="$3" ${effect_cached:+"LMOD_CACHED_LOADS=$effect_cached"} ${effect_mark:+"ENVMGR_AUDIT=$effect_mark"} /bin/sh -c '
      cd / && text=$("$1" sh load $2) && eval "$text" && env -0' sh "$1" "$4" >"${scratch?}" || return 1
  LC_ALL=C sort -z "$scratch" | tr '\n\000' '\037\n' | grep -v -E \
    '^(MODULEPATH|__MODULES_[A-Z]*|MODULES_[A-Z_]*|ENVMGR_GPU_NOTE|ENVMGR_AUDIT|ENVMGR_USAGE|LMOD_[A-Z0-9_]*|_ModuleTable[A-Za-z0-9_]*|__LMOD_[^=]*|_LMFILES_|HOME|USER|PWD|OLDPWD|SHLVL|_)='
}
end_marked() { grep -l -s -z -x -F -e "ENVMGR_AUDIT=${effect_mark?}" /proc/[0-9]*/environ | while IFS=/ read -r _ _ effect_left _; do kill -KILL "$effect_left"; done 2>/dev/null; }
