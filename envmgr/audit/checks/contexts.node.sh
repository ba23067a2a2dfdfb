# shellcheck shell=sh
# Whether a user of the node can open a pseudo-terminal: /dev/ptmx, which may be a device of its own or a link to that of /dev/pts.
# ptmxmode=000 is the kernel's own, and harms only where there is the link.

if [ ! -r /proc/self/mountinfo ] || ! { [ -e /dev/ptmx ] || [ -L /dev/ptmx ]; }; then
  : # other checks tell that
elif ! awk '$5 == "/dev/pts" { for (i = 7; $i != "-"; i++); if ($(i + 1) == "devpts") there = 1 } END { exit !there }' /proc/self/mountinfo; then
  put terminal "unmounted"
elif [ -e /dev/ptmx ]; then
  terminal_mode=$(stat -L -c %a /dev/ptmx)
  case $terminal_mode in
    *[67]) ;;
    *) if [ -L /dev/ptmx ]; then put terminal "link $terminal_mode"; else put terminal "device $terminal_mode"; fi ;;
  esac
  if [ -r /proc/sys/kernel/pty/nr ]; then
    terminal_most=$(cat /proc/sys/kernel/pty/max) # `read` takes bytes one by one, of which the kernel gives only the first
    [ "$(cat /proc/sys/kernel/pty/nr)" -lt "$terminal_most" ] || put terminal "full $terminal_most"
  fi
fi
