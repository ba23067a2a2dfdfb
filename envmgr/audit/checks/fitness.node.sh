# glibc, CPU and operating system.
: "${fitness_flags?}"
fitness_libc=$(getconf GNU_LIBC_VERSION 2>/dev/null)
put fitness.glibc "${fitness_libc#glibc }"
put fitness.arch "$(uname -m)"
put fitness.flags "$(awk -v wanted="^($fitness_flags)\$" '/^(flags|Features)[ \t]*:/ { sub(/[^:]*:/, ""); for (i = 1; i <= NF; i++) if ($i ~ wanted) printf "%s ", $i; exit }' /proc/cpuinfo)"
put fitness.os "$( (. /etc/os-release && printf '%s %s' "${ID-}" "${VERSION_ID-}") 2>/dev/null)"
