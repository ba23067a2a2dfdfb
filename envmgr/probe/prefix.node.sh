# shellcheck shell=sh
# How this node has the prefix, from a file that no mount can hang.
: "${prefix?}"

# The mount that is seen there. As the kernel walks: of the mounts on a mount the one on the shortest way comes first, and hides the others.
awk -v prefix="${ENVMGR_REAL:-$prefix}" '
  $5 == "/" || index(prefix "/", $5 "/") == 1 { id[++count] = $1; on[count] = $2; at[count] = $5; line[count] = $0; known[$1] = 1 }
  END {
    for (i = count; i > 0; i--) if (on[i] == id[i] || !(on[i] in known)) seen = i
    for (below = 0; seen && seen != below; ) {
      below = seen
      for (i = 1; i <= count; i++) if (i != below && on[i] == id[below] && (seen == below || length(at[i]) < length(at[seen]))) seen = i
    }
    print line[seen]
  }
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
