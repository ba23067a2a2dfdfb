# How a probe begins: its host and user, a folder of its own, the accounts. A directory service that hangs is left behind, too.
: "${user?}"
host_name=$(uname -n) probe_uid=$(id -u)
own host "$host_name"
own slurm_node "${SLURMD_NODENAME:-}"
own began "$(date +%s.%N)"
unfit() { put probe "$1"; exit 0; }
# Without one of these each look would be wrong in its own way.
for odd in awk cat chmod cut date env find getent grep head id mkdir mkfifo mktemp readlink rm sed sha256sum sort stat tail tr uname wc xargs; do
  command -v "$odd" >/dev/null || unfit "/usr/bin/$odd is not there, or cannot be executed"
done
for odd in 'awk BEGIN{}' 'find --version' 'sed --version' 'sort --version'; do said=$($odd 2>&1 >/dev/null) || unfit "${odd%% *} does not run: $said"; done
trap 'trap "" HUP INT TERM PIPE; [ -z "$tmp" ] || rm -rf "$tmp"' EXIT
trap 'trap "" HUP INT TERM PIPE; exit 1' HUP INT TERM PIPE
for base in /tmp /dev/shm /run; do
  tmp=$(mktemp -d "$base/envmgr-audit.XXXXXX" 2>/dev/null) || continue
  if echo yes 2>/dev/null >"$tmp/try"; then break; fi
  rm -rf "$tmp"
  tmp=
done
[ -n "$tmp" ] || unfit "cannot write to /tmp, /dev/shm or /run"
# Without these nothing works, and what fails only names itself.
odd=$(find -L /dev/null /dev/zero /dev/urandom -maxdepth 0 ! \( -type c -perm 666 \) -printf '%p has type %y and mode %m, and is no device (c) with 666\n' 2>&1)
[ -z "$odd" ] || unfit "$odd"
chmod 755 "$tmp"
mkfifo "$tmp/ended" && exec 3<>"$tmp/ended" # of `join`
echo ": a line that start-up files leave" >"$tmp/line" # harmless to a shell that reads it
find "${tmp%/*}" -maxdepth 1 -name 'envmgr-audit.*' -user "$probe_uid" -mmin +1440 -exec rm -rf {} + 2>/dev/null
who=$tmp/who.out
read -r secret </proc/sys/kernel/random/uuid
start who getent passwd "$user" root
join 3 who
# The words of /etc/environment, the last one first: `as` puts each before the others.
sed -n 's/^\(export  *\)\{0,1\}\([A-Za-z_][A-Za-z0-9_]*=\)"\{0,1\}\([^"[:space:]]*\)"\{0,1\}$/\2\3/p' /etc/environment 2>/dev/null | tac >"$tmp/environment"
[ "${link?}" = current ] || echo ENVMGR_USE=candidate >>"$tmp/environment"
mkdir -m 700 "$tmp/room" # for what the login stage writes
# A size of the history (HISTFILESIZE) in start-up files cuts at once what HISTFILE names, and ~/.history where that is not set.
export HISTFILE="$tmp/room/history"
# $1: what an interactive bash runs, behind `-c`: it reads no history then, and keeps none of its commands.
echo 'exec /bin/bash -ic '"'. \"\$0\"'"' "$1"' >"$tmp/interactive"
if [ "$probe_uid" = 0 ] && account_of "$user"; then chown "${account_uid?}" "$tmp/room" 2>/dev/null; fi
