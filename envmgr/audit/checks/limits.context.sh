# shellcheck shell=sh
# The shell's own limits, as the kernel has them: NAME=VALUE, spaces in names are underlines. The probe itself limits the size of files.

sed -n -E 's/^Max (cpu time|data size|stack size|processes|open files|locked memory|address space) +([^ ]+) .*/\1=\2/;t told;d;:told;s/ /_/;p' /proc/self/limits 2>/dev/null |
  while IFS='=' read -r limits_name limits_value; do put "limits.$limits_name" "$limits_value"; done
put limits.umask "$(umask)"
