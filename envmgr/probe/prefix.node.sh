# shellcheck shell=sh
# How this node has the prefix, from a file that no mount can hang.
: "${prefix?}"

# The mount that is seen there comes first, then each that `umount` of those before it would show. As the kernel walks: of the mounts on a mount
# the one on the shortest way comes first, and hides the others.
awk -v prefix="${ENVMGR_REAL:-$prefix}" '
  $5 == "/" || index(prefix "/", $5 "/") == 1 { id[++count] = $1; on[count] = $2; at[count] = $5; line[count] = $0; known[$1] = 1 }
  END {
    for (left = count; left > 0; left--) {
      seen = 0
      for (i = 1; i <= count; i++) if (!gone[i] && !seen && (on[i] == id[i] || !(on[i] in known))) seen = i
      for (below = 0; seen && seen != below; ) {
        below = seen
        for (i = 1; i <= count; i++)
          if (!gone[i] && i != below && on[i] == id[below] && (seen == below || length(at[i]) < length(at[seen]))) seen = i
      }
      if (!seen) exit
      print line[seen]
      gone[seen] = 1
    }
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
# POINT TYPE SOURCE of mountinfo, without images of installs, which have a check of their own; of a local file system the folder that is seen, too.
# shellcheck disable=SC2016 # awk's
mount_words='{ for (i = 7; $i != "-"; i++); print $5, $(i + 1), $(i + 2) ($4 == "/" || $(i + 2) ~ /:/ ? "" : "[" $4 "]") }'
awk -v prefix="${ENVMGR_REAL:-$prefix}" "index(\$5, prefix \"/\") == 1 $mount_words" /proc/self/mountinfo |
  grep -v -E '/store/[^/ ]+/[^/ ]+ squashfs /dev/loop[0-9]+$' | LC_ALL=C sort | uniq -c |
  sed -E 's/^ *1 //; s/^ *([0-9]+) (.*)/\2 (\1 times)/' | lines mount.below
