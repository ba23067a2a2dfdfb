# shellcheck shell=sh
# What start-up files have left of the shell's own settings: kept for the checks that tell of them, and put right for the probe.

# shellcheck disable=SC2034 # for the checks
shell_flags=$-
# shellcheck disable=SC2034
shell_ifs=${IFS-unset} # which is as good as the usual one
set +e +u +f +C +a +v +x
# A line that was on stdin, where the probe put one: start-up files must leave it.
shell_line=
if [ -f /proc/self/fd/0 ]; then IFS= read -r shell_line || :; fi
IFS=' 	
'
# Without the folder of the user's own modules, which the pin appends: it is no node's, and its modules hide no entry.
case ${XDG_DATA_HOME-} in /*) found_own=$XDG_DATA_HOME ;; *) found_own=${HOME-}/.local/share ;; esac
found_own=$found_own/envmgr/envs/.envmgr/modules
case :${MODULEPATH-}: in
  *":$found_own:"*)
    MODULEPATH=:$MODULEPATH:
    MODULEPATH=${MODULEPATH%%":$found_own:"*}:${MODULEPATH#*":$found_own:"}
    MODULEPATH=${MODULEPATH#:}
    MODULEPATH=${MODULEPATH%:}
    ;;
esac
# What was said on stderr until now, where that is a file: by start-up files, and the shell about them.
shell_said=
if [ -f /proc/self/fd/2 ] && [ -s /proc/self/fd/2 ]; then
  # shellcheck disable=SC2034
  shell_said=$(plain </proc/self/fd/2 | grep -v -e 'cannot set terminal process group' -e 'no job control in this shell' | head -n 1 | cut -c1-200)
fi
# Milliseconds for which start-up files waited, for a server or a clock: since this process began (22nd field of its stat, hundredths
# of a second), less what it and its children computed, with the time for which it waited for a processor in proportion. What its
# children waited for one is not known: less the share of the last ten seconds in which something on the node did, where the kernel tells.
shell_waits() {
  shell_busy=
  [ ! -r /proc/pressure/cpu ] || read -r _ shell_busy _ </proc/pressure/cpu
  shell_busy=${shell_busy#avg10=}
  shell_busy=${shell_busy%.*}
  read -r shell_now _ </proc/uptime
  read -r shell_run shell_queued _ <"/proc/$$/schedstat"
  # shellcheck disable=SC2086 # fields
  set -- ${1##*) }
  shell_now=${shell_now%.*}${shell_now#*.}
  [ $# -lt 20 ] || [ "$shell_run" -lt 1000 ] ||
    echo $((((shell_now - ${20}) * 10 - (${12} + ${13} + ${14} + ${15}) * 10 * ((shell_run + shell_queued) / 1000) / (shell_run / 1000)) * (100 - ${shell_busy:-0}) / 100))
}
shell_stat=
IFS= read -r shell_stat <"/proc/$$/stat"
# shellcheck disable=SC2034
shell_waited=$(shell_waits "$shell_stat" 2>/dev/null)
