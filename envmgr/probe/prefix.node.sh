# shellcheck shell=sh
# How this node has the prefix, from a file that no mount can hang.
: "${prefix?}"

awk -v prefix="${ENVMGR_REAL:-$prefix}" '
  $5 == "/" || index(prefix "/", $5 "/") == 1 {
    if (length($5) >= length(best)) { best = $5; line = $0 }
  }
  END { print line }
' /proc/self/mountinfo >"$0.mount"
read -r line <"$0.mount"
set -f
# shellcheck disable=SC2086 # the fields of the line
set -- $line
put mount.root "$4"
put mount.point "$5"
put mount.options "$(printf '%s' "$6" | tr , '\n' | grep -v -E '^(no|rel|strict)atime$' | LC_ALL=C sort | paste -sd, -)"
while [ "$1" != - ]; do shift; done
put mount.type "$2"
put mount.source "$3"
put mount.super "$(printf '%s' "$4" | tr , '\n' | grep -v -E '^(clientaddr|addr|mountaddr|port|mountport|fd|context|seclabel|lowerdir|upperdir|workdir)(=|$)' | LC_ALL=C sort | paste -sd, -)"
set +f
awk -v prefix="${ENVMGR_REAL:-$prefix}" '
  index($5, prefix "/") == 1 { for (i = 7; $i != "-"; i++); print $5, $(i + 1), $(i + 2) }
' /proc/self/mountinfo | LC_ALL=C sort -u | lines mount.below
