# shellcheck shell=sh
# How this node has the prefix, from a file that no mount can hang.
: "${prefix?}"

# The mount that is seen there comes first, then each that `umount` of those before it would show: the kernel lists them as they were mounted.
awk -v prefix="${ENVMGR_REAL:-$prefix}" '$5 == "/" || index(prefix "/", $5 "/") == 1' /proc/self/mountinfo | tac >"$0.mount"
awk '
  NR == 1 {
    for (i = 7; $i != "-"; i++);
    print "@mount.root=" $4 "\n@mount.point=" $5 "\n@mount.options=" $6 "\n@mount.type=" $(i + 1) "\n@mount.source=" $(i + 2)
    count = split($(i + 3), option, ",")
    for (i = 1; i <= count; i++) if (option[i] !~ /^(clientaddr|addr|mountaddr|port|mountport|fd|context|seclabel|lowerdir|upperdir|workdir)(=|$)/) super = super "," option[i]
    print "@mount.super=" substr(super, 2)
  }' "$0.mount"
# POINT TYPE SOURCE of mountinfo, without images of installs, which have a check of their own; of a local file system the folder that is seen, too.
# shellcheck disable=SC2016 # awk's
mount_words='{ for (i = 7; $i != "-"; i++); print $5, $(i + 1), $(i + 2) ($4 == "/" || $(i + 2) ~ /:/ ? "" : "[" $4 "]") }'
awk -v prefix="${ENVMGR_REAL:-$prefix}" "index(\$5, prefix \"/\") == 1 $mount_words" /proc/self/mountinfo |
  grep -v -E '/store/[^/ ]+/[^/ ]+ squashfs /dev/loop[0-9]+$' | LC_ALL=C sort | uniq -c |
  sed -E 's/^ *1 //; s/^ *([0-9]+) (.*)/\2 (\1 times)/' | lines mount.below
