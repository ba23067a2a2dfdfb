# What start-up files have left of the shell's own settings: kept for the checks that tell of them, and put right for the probe.
shell_flags=$- shell_ifs=${IFS-unset}
set +e +u +f +C +a +v +x
# A line that was on stdin, where the probe put one: start-up files must leave it.
shell_line='' shell_said=''
if [ -f /proc/self/fd/0 ]; then IFS= read -r shell_line || :; fi
IFS=' 	
'
export ENVMGR_USAGE=no LMOD_TERM_WIDTH=80 # no load is counted, and Lmod asks no stty
# Without the folder of the user's own modules, which the pin appends: it is no node's, and its modules hide no entry.
case ${XDG_DATA_HOME-} in /*) found_own=$XDG_DATA_HOME ;; *) found_own=${HOME-}/.local/share ;; esac
found_own=$found_own/envmgr/envs/.envmgr/modules
case :${MODULEPATH-}: in
  *":$found_own:"*)
    MODULEPATH=:$MODULEPATH:
    MODULEPATH=${MODULEPATH%%":$found_own:"*}:${MODULEPATH#*":$found_own:"}
    MODULEPATH=${MODULEPATH#:}
    MODULEPATH=${MODULEPATH%:} ;;
esac
# What was said on stderr until now, where that is a file: by start-up files, and the shell about them.
if [ -f /proc/self/fd/2 ] && [ -s /proc/self/fd/2 ]; then
  shell_said=$(plain </proc/self/fd/2 | grep -v -e 'cannot set terminal process group' -e 'no job control in this shell' | head -n 1 | cut -c1-200)
fi
