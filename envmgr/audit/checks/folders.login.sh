# shellcheck shell=sh
# On which mounts the folders of MODULEPATH lie that are not the prefix's, and the first parts of paths that their files name: lines
# `MOUNT-POINT FOLDER`, with `-` for what is not there; and the node's network mounts, `MOUNT-POINT TYPE SOURCE OPTIONS`. mountinfo
# is read, which nothing hangs; what a path really is may hang.
: "${prefix?}" "${room?}"

printf '%s\n' "${MODULEPATH-}" | tr : '\n' | sed 's|//*$||' | grep '^/' | grep -v -F -e "$prefix/" | sort -u >"$room/folders.modules"
# shellcheck disable=SC2016 # the inner shell's
with_limit 3 "$room/folders.named" /bin/sh -c '
  while read -r folder; do
    find -L "$folder" -type f 2>/dev/null | head -n 500 | tr "\n" "\000" |
      xargs -0 -r grep -o -h -s -E "[\"{[:space:]]/[A-Za-z0-9_.+-]+/[A-Za-z0-9_.+-]+" | cut -c2-
  done <"$1" | sort -u | grep -v -E "^/(usr|bin|sbin|lib|lib64|etc|dev|proc|sys|run|tmp)/" | head -n 60
' sh "$room/folders.modules"
# shellcheck disable=SC2016 # the inner shell's
with_limit 3 "$room/folders.real" /bin/sh -c '
  LC_ALL=C sort -u "$1" "$2" | while read -r folder; do
    if real=$(readlink -e "$folder"); then printf "%s\t%s\n" "$folder" "$real"; else printf "%s\t-\n" "$folder"; fi
  done
' sh "$room/folders.modules" "$room/folders.named"
# Those of MODULEPATH that are not there, but for what is the account's own, and for folders that Lmod's, Environment Modules' and the
# distributions' start-up files put there, which may be empty and gone.
awk -F '\t' '$2 == "-" { print $1 }' "$room/folders.real" | grep -x -F -f "$room/folders.modules" |
  grep -v -x -E "(/etc/lmod/modules|/usr/share/lmod/.*|/usr/(share/)?[mM]odule(s|files)(/.*)?|/etc/(environment-modules/modules|modulefiles)|${LMOD_PKG:-/none}/.*|${MODULESHOME:-/none}/.*|${MODULEPATH_ROOT:-/none}/(Linux|Core)|${HOME:-/none}/.*)" |
  lines folders.gone
awk -F '\t' '
  NR == FNR {
    split($0, field, " ")
    point[++count] = field[5]
    next
  }
  $2 == "-" { print "- " $1; next }
  {
    best = "/"
    for (i = 1; i <= count; i++)
      if (index($2 "/", point[i] "/") == 1 && length(point[i]) > length(best)) best = point[i]
    print best " " $1
  }
' /proc/self/mountinfo "$room/folders.real" >"$room/folders.at"
lines folders.at <"$room/folders.at"
# Of several on one point the last is seen: `over` a network mount, where it is not one itself.
awk -v prefix="$prefix/" '
  {
    for (i = 7; $i != "-"; i++);
    type = $(i + 1)
    if (index($5 "/", prefix) == 1 || $5 == "/") next # the root of a node without disk is its own
    network = type ~ /^(nfs4?|cifs|smb3|fuse|fuseblk|fuse\..*|lustre|beegfs|gpfs|ceph|9p|afs|glusterfs|pvfs2|panfs|wekafs|virtiofs|cvmfs2?)$/
    if (network) shared[$5] = 1
    number = split($6, option, ",")
    options = ""
    for (n = 1; n <= number; n++) if (option[n] ~ /^(ro|rw|noexec|nosuid)$/) options = options (options == "" ? "" : ",") option[n]
    seen[$5] = ($5 in shared && !network ? "over " : "") type " " $(i + 2) " " options
  }
  END { for (point in shared) print point " " seen[point] }
' /proc/self/mountinfo | LC_ALL=C sort -u | lines folders.mounts
# Folders from whose mount no program starts, whatever kind that is: `MOUNT-POINT FOLDER`.
awk '
  NR == FNR { if ($6 ~ /(^|,)noexec(,|$)/) noexec[$5] = 1; else delete noexec[$5]; next }
  $1 in noexec { print }
' /proc/self/mountinfo "$room/folders.at" | LC_ALL=C sort -u | lines folders.noexec
# What lies over a local folder: a bind mount, or a file system without a disk: `MOUNT-POINT TYPE SOURCE`. A subvolume is no bind mount.
awk -v prefix="$prefix/" '
  NR == FNR { used[$1] = 1; next }
  ($5 in used) && $5 != "/" && index($5 "/", prefix) != 1 {
    for (i = 7; $i != "-"; i++);
    type = $(i + 1)
    bound = $4 != "/" && type != "btrfs" && $(i + 2) !~ /:/
    over[$5] = bound || type ~ /^(tmpfs|ramfs|overlay)$/ ? type " " $(i + 2) (bound ? "[" $4 "]" : "") : ""
  }
  END { for (point in over) if (over[point] != "") print point " " over[point] }
' "$room/folders.at" /proc/self/mountinfo | LC_ALL=C sort | lines folders.over
