# Which of `use_paths`, generations and installs, the processes of this node use. Nothing below the prefix is touched. Of each process: its
# environment, command line and maps, where it works, what it runs and has open. A shell keeps what it exports only in its own memory, so
# that is searched too. Reading of a process may hang with it: some of one user at a time are looked at, and those that do not end are left
# behind. So are all others of a user, but root, whose processes took half of the time.
#
# use.named  PATH COUNT PID UID NAME   one of the paths, by how many processes, and one of them
# use.staged PATH                      an install over which an image is mounted
# use.since  AGE PID UID NAME          a shell whose memory cannot be read, and its age in seconds
# use.late   AGE COUNT PID UID NAME    how many of a user's processes were not looked at to their end, and the oldest of them
# use.closed PID UID NAME              a process that cannot be looked at; not process 1, which is no one's shell
: "${prefix?}" "${use_seconds?}" "${use_once?}" "${use_paths?}"

LC_ALL=C
export LC_ALL
use_quoted() { printf '%s' "$1" | sed 's/[][\.*^$+?(){}|]/\\&/g'; }
use_places=$(use_quoted "$prefix")
[ -z "${ENVMGR_REAL-}" ] || use_places="$use_places|$(use_quoted "$ENVMGR_REAL")"
use_found="(generations/[0-9]{4,}|store/[A-Za-z0-9._+-]+/[A-Za-z0-9._+-]+-[0-9a-f]{8})"

for use_path in $use_paths; do
  echo "$prefix/$use_path $use_path"
  echo "${ENVMGR_REAL:-$prefix}/$use_path $use_path"
done >"$0.paths"

# use_known: of lines `/proc/PID/WHAT:PLACE/PATH`, those with one of the paths, once each, as `PATH PID`: a process may name any number of
# others. An install may be built or exchanged: its name in place of its staging folder's.
use_known() {
  awk -v paths="$0.paths" 'BEGIN { while ((getline <paths) > 0) known[$1] = $2 }
    { split($0, part, "/"); sub(/^[^:]*:/, ""); sub(/\/\.staging-/, "/") }
    ($0 in known) && !((part[3], $0) in seen) { seen[part[3], $0]; print known[$0], part[3] }'
}

# use_look PID…: lines as of `use_known`.
use_look() {
  use_files=
  use_links=
  for use_pid in "$@"; do
    use_files="$use_files /proc/$use_pid/environ /proc/$use_pid/cmdline /proc/$use_pid/maps"
    use_links="$use_links /proc/$use_pid/cwd /proc/$use_pid/exe /proc/$use_pid/root /proc/$use_pid/fd"
  done
  # shellcheck disable=SC2086 # names of files
  grep -aoHE "($use_places)/$use_found" $use_files | use_known
  # shellcheck disable=SC2086
  find $use_links -maxdepth 1 -type l -printf '%p:%l\n' >"$0.links.$use_number"
  sed -n -E "s#^(/proc/[0-9]+/)(fd/)?([^/:]*):(($use_places)/$use_found).*#\1\3:\4#p" "$0.links.$use_number" | use_known
  sed -n -E 's#^/proc/([0-9]+)/exe:(.*/)?((ba|rba|da|a|z|c|tc|k|mk|pdk|fi|ya|)sh|busybox|ksh93|zsh[0-9.-]*)( \(deleted\))?$#\1#p' "$0.links.$use_number" |
    while read -r use_pid; do use_memory "$use_pid"; done
  rm -f "$0.links.$use_number"
}

# use_memory PID: of all its private memory that can be written. No file holds any of it. What cannot be read whole is reported as
# `/proc/PID/since:`.
use_memory() {
  sed -n 's/^\([0-9a-f]*\)-\([0-9a-f]*\) rw.p .*/\1 \2/p' "/proc/$1/maps" >"$0.maps.$use_number" 2>/dev/null || return 0
  {
    use_pages=0
    while read -r use_start use_end; do
      use_count=$(((0x$use_end - 0x$use_start) / 4096))
      use_pages=$((use_pages + use_count))
      if [ "$use_pages" -gt 16384 ] ||
        ! dd if="/proc/$1/mem" bs=4096 skip=$((0x$use_start / 4096)) count="$use_count" 2>/dev/null; then
        if [ -e "/proc/$1/maps" ]; then echo "/proc/$1/since:" >&3; fi
        break
      fi
    done <"$0.maps.$use_number" | grep -aoE "($use_places)/$use_found" | sed "s#^#/proc/$1/memory:#" | use_known
  } 3>&1
  rm -f "$0.maps.$use_number"
}

# use_some PID…, of one user: a process that hangs must not hide others.
use_some() {
  use_number=$((use_number + 1))
  use_file=$0.use.$use_number
  if with_limit "$use_once" "$use_file" use_look "$@" || [ $? != 124 ]; then
    cat "$use_file"
    sed -n -E '/: (No such file or directory|No such process)$/d; s#.*/proc/([0-9]+)/?[^0-9].*#/proc/\1/closed:#p' "$use_file.err" | sort -u
    rm -f "$use_file" "$use_file.err"
  elif [ $# = 1 ]; then
    echo "/proc/$1/late:"
  else
    for use_each in "$@"; do
      if [ "$(date +%s)" -lt "$use_until" ]; then use_some "$use_each"; else echo "/proc/$use_each/late:"; fi
    done
  fi
}

# Kernel threads (a flag of field 9) and what has ended use nothing. Field 2, in brackets, may hold anything. Source: proc_pid_stat(5).
use_alive() {
  for use_pid in "$@"; do
    { read -r use_line <"/proc/$use_pid/stat"; } 2>/dev/null || continue
    set -f
    # shellcheck disable=SC2086 # the fields behind the bracket
    set -- ${use_line##*) }
    set +f
    case $1 in Z | X) continue ;; esac
    [ $(($7 & 0x200000)) = 0 ] || continue
    echo "$use_pid"
  done
}

# use_who KIND: `PID UID NAME`, and with KIND `since` the age before it; only of those that still run.
use_who() {
  while read -r use_pid; do
    { while read -r use_key use_uid _ && [ "$use_key" != Uid: ]; do :; done <"/proc/$use_pid/status"; } 2>/dev/null
    { read -r use_line <"/proc/$use_pid/stat"; } 2>/dev/null || continue
    { read -r use_name <"/proc/$use_pid/comm"; } 2>/dev/null || use_name='?'
    use_age=
    if [ "$1" = since ]; then
      set -f
      # shellcheck disable=SC2086
      set -- since ${use_line##*) }
      set +f
      read -r use_up _ </proc/uptime
      use_age="$((${use_up%.*} - ${21} / use_ticks)) "
    fi
    printf '%s%s %s %s\n' "$use_age" "$use_pid" "${use_uid:-0}" "$use_name"
  done
}

use_ticks=$(getconf CLK_TCK)
put use.uid "$(id -u)"
sed -n -E "s#^([^ ]+ ){4}($use_places)/(store/[^/ ]+/[^/ ]+) .* - squashfs .*#\3#p" /proc/self/mountinfo | sort -u | lines use.staged
# New shells here may be given the last generation that root's own check found signed.
if [ -r /var/lib/envmgr/flip ]; then
  { read -r _ && read -r use_kept _ && read -r _ && read -r use_of; } </var/lib/envmgr/flip
  case $use_kept in '' | 0 | *[!0-9]*) ;; *) if [ "${use_of-}" = "$prefix" ]; then put use.kept "$use_kept"; fi ;; esac
fi
use_number=0
use_began=$(date +%s)
: >"$0.uses"
: >"$0.seen"
# A process that has ended by the time that it is looked at may have left children, and one that becomes another program meanwhile cannot
# be read: those that are new, and those, are looked at once and again.
for use_round in 1 2 3 4 5; do
  set -- /proc/[0-9]*
  for use_pid in "$@"; do echo "${use_pid#/proc/}"; done | sort >"$0.pids"
  # shellcheck disable=SC2046 # numbers
  use_alive $(comm -23 "$0.pids" "$0.seen") | sed 's#.*#/proc/&/status#' | xargs grep -sH '^Uid:' |
    sed -n -E 's#^/proc/([0-9]+)/status:Uid:[[:space:]]+([0-9]+).*#\2 \1#p' | sort -n >"$0.alive"
  [ "$use_round" != 1 ] || put use.count "$(grep -c . "$0.alive")"
  mv "$0.pids" "$0.seen"
  while read -r use_uid _ <"$0.alive"; do
    use_now=$(date +%s)
    if [ "$((use_now - use_began))" -gt "$use_seconds" ]; then
      put use.left "$(grep -c . "$0.alive")"
      break 2
    fi
    use_spent=0
    eval "use_spent=\${use_spent_$use_uid:-0}"
    use_until=$((use_now + use_seconds / 2 - use_spent))
    [ "$use_uid" != 0 ] || use_until=$((use_began + use_seconds))
    if [ "$use_until" -le "$use_now" ]; then
      sed -n "s#^$use_uid \(.*\)#/proc/\1/late:#p" "$0.alive" >>"$0.uses"
      sed "/^$use_uid /d" "$0.alive" >"$0.rest"
    else
      # shellcheck disable=SC2046
      set -- $(sed -n "1,64s/^$use_uid //p" "$0.alive")
      use_some "$@" >>"$0.uses"
      eval "use_spent_$use_uid=$((use_spent + $(date +%s) - use_now))"
      sed "1,$#d" "$0.alive" >"$0.rest"
    fi
    mv "$0.rest" "$0.alive"
  done
  sed -n -E 's#^/proc/([0-9]+)/(since|closed):$#\1#p' "$0.uses" | sort -u >"$0.again"
  if [ "$use_round" = 5 ] || [ "$(grep -c . "$0.again")" -gt 20 ]; then break; fi
  comm -23 "$0.seen" "$0.again" >"$0.rest"
  mv "$0.rest" "$0.seen"
  grep -v -E '^/proc/[0-9]+/(since|closed):$' "$0.uses" >"$0.rest"
  mv "$0.rest" "$0.uses"
done
sed -n '\#^/proc/1/#d;s#^/proc/\([0-9]*\)/closed:$#\1#p' "$0.uses" | sort -un >"$0.pids"
put use.closed.count "$(grep -c . "$0.pids")"
head -n 20 "$0.pids" | use_who closed | lines use.closed
sed -n 's#^/proc/\([0-9]*\)/since:$#\1#p' "$0.uses" | sort -un | use_who since | sort -rn >"$0.since"
put use.since.count "$(grep -c . "$0.since")"
head -n 20 "$0.since" | lines use.since
sed -n '\#^/proc/1/#d;s#^/proc/\([0-9]*\)/late:$#\1#p' "$0.uses" | sort -un | use_who since | sort -k1,1nr -k2,2n |
  awk '!count[$3]++ { oldest[$3] = $0 } END { for (uid in count) { sub(/ /, " " count[uid] " ", oldest[uid]); print oldest[uid] } }' |
  sort -rn | lines use.late
# Of all that name a path, the first that still runs is reported.
grep -v ':$' "$0.uses" | sort -u |
  awk '{ count[$1]++; pids[$1] = pids[$1] (count[$1] <= 3 ? " " $2 : "") } END { for (path in count) print path, count[path] pids[path] }' |
  sort >"$0.named"
cut -d' ' -f3- "$0.named" | tr ' ' '\n' | sort -un | use_who named >"$0.who"
awk -v who="$0.who" 'BEGIN { while ((getline line <who) > 0) { pid = line; sub(/ .*/, "", pid); of[pid] = line } }
  { one = $3 " ? ?"; for (i = NF; i >= 3; i--) if ($i in of) one = of[$i]; print $1, $2, one }' "$0.named" | lines use.named
