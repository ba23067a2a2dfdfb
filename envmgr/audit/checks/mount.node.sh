# Other network file systems, and those of programs (FUSE), that do not answer: lines `POINT TYPE SOURCE`. Each is asked by a process of its
# own, which is left behind. statfs goes to the server: what stat tells may come from a cache. Of mounts below one that hangs nothing can be said.
: "${prefix?}"

awk -v prefix="${ENVMGR_REAL:-$prefix}" '
  {
    for (i = 7; $i != "-"; i++);
    type = $(i + 1)
  }
  type ~ /^(nfs4?|cifs|smb3|fuse|fuseblk|fuse\..*|lustre|beegfs|gpfs|ceph|9p|afs|glusterfs|pvfs2|panfs|wekafs|virtiofs)$/ &&
    type !~ /^fuse\.(portal|gvfsd-fuse|lxcfs)$/ && $5 != prefix && index($5, prefix "/") != 1 { print $5, type, $(i + 2) }
' /proc/self/mountinfo | LC_ALL=C sort -u | head -n 64 >"$0.mounts"
mount_count=0
while read -r mount_point mount_rest; do
  mount_count=$((mount_count + 1))
  (
    stat -f "$(printf %b "$mount_point")"
    : >"$0.mount$mount_count"
  ) </dev/null >/dev/null 2>&1 &
done <"$0.mounts"
mount_left=250
while [ "$mount_count" -gt 0 ] && [ "$mount_left" -gt 0 ]; do
  if [ -e "$0.mount$mount_count" ]; then
    mount_count=$((mount_count - 1))
  else
    sleep 0.02
    mount_left=$((mount_left - 1))
  fi
done
if [ "$mount_count" -gt 0 ]; then
  mount_number=0
  mount_above=
  while read -r mount_point mount_rest; do
    mount_number=$((mount_number + 1))
    if [ -e "$0.mount$mount_number" ]; then continue; fi
    case "$mount_point/" in ${mount_above:-//}*) continue ;; esac
    mount_above=$mount_point/
    printf '%s %s\n' "$mount_point" "$mount_rest"
  done <"$0.mounts" | lines mount.hung
fi
