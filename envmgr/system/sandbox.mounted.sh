# Images that only a command sees, in a mount namespace that is there already. $1: how many; then IMAGE PATH for each; then the command.
# Each is served by a process that the kernel kills when this one, which becomes the command, has ended.

PATH=$PATH:/usr/sbin:/usr/bin:/sbin:/bin
for fuse in squashfuse_ll squashfuse none; do
  command -v "$fuse" >/dev/null && break
done
if [ "$fuse" = none ]; then
  echo "error[squashfuse-missing]: an ordinary user mounts images by squashfuse, which is not on this host" >&2
  echo "hint: install the package squashfuse" >&2
  exit 3
fi
count=$1
shift
while [ "$count" -gt 0 ]; do
  setsid setpriv --pdeathsig KILL "$fuse" -f -o ro "$1" "$2" </dev/null >/dev/null &
  until grep -q " $2 .* - fuse.squashfuse" /proc/self/mountinfo; do
    if ! kill -0 $! 2>/dev/null; then
      echo "error[image-not-mounted]: $fuse did not mount $1 over $2" >&2
      exit 3
    fi
    sleep 0.05
  done
  shift 2
  count=$((count - 1))
done
exec setpriv --inh-caps=-all --ambient-caps=-all -- "$@"
