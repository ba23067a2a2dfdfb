df -k --output=avail,itotal,iavail "${prefix?}" 2>/dev/null | awk 'NR == 2 { print "@~space.free_kb=" $1 "\n@~space.inodes=" $2, $3 }'
