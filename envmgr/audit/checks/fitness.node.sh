# glibc, CPU and operating system.
: "${fitness_flags?}"
fitness_libc=$(getconf GNU_LIBC_VERSION 2>/dev/null)
put fitness.glibc "${fitness_libc#glibc }"
put fitness.arch "$(uname -m)"
put fitness.flags "$(sed -n '/^\(flags\|Features\)[[:space:]]*:/{s/[^:]*://p;q;}' /proc/cpuinfo |
  tr -s ' ' '\n' | grep -x -E "$fitness_flags" | LC_ALL=C sort -u | paste -sd ' ' -)"
put fitness.os "$( (. /etc/os-release && printf '%s %s' "${ID-}" "${VERSION_ID-}") 2>/dev/null)"
