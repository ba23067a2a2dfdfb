# POSIX: one line for the file system with -P; counted from its end, as a source can hold spaces.
: "${prefix?}"

own space.free_kb "$(df -P -k "$prefix" 2>/dev/null | awk 'NR == 2 { print $(NF - 2) }')"
own space.inodes "$(df -P -i "$prefix" 2>/dev/null | awk 'NR == 2 { print $(NF - 4), $(NF - 2) }')"
