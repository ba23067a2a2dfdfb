# shellcheck shell=sh
# Installed by `envmgr node-setup`.
# Images on this node: what is mounted over an install's path, and from which file; which processes are in the way; the copies on the
# local disk, `<install>.<sha256>.sqfs` with `.info` beside them. A copy has that name only once its sha256 was right: before, it is
# `.part`. Where IMAGE is PATH/image.sqfs, the install is an image itself: that file is copied, users read the copy, and nothing is mounted.
# Nothing here reads other files of an install. It acts once for each row of `stage_table`: PATH NAME IMAGE SHA256 BYTES. The
# answer is `host NAME`, then a line for each row, with tabs:
#
# image PATH SHA256 MOUNTED FROM BYTES SIZE AGE WHY
#
# MOUNTED is `local`, `share`, `other` or `none`; FROM what is mounted there; BYTES of SIZE are on the local disk, AGE is seconds since
# it was staged. WHY is empty where all is well, or only time was lacking.
: "${stage_act?}" "${stage_dir?}" "${stage_table?}" "${stage_quota?}" "${stage_seconds?}" "${stage_rate?}" "${stage_step?}" "${stage_from?}"

PATH=/usr/sbin:/usr/bin:/sbin:/bin
LC_ALL=C
export PATH LC_ALL
umask 022
stage_mib=1048576
stage_end=$(($(date +%s) + stage_seconds))

# stage_look PATH: what is mounted just there, of several the last: `stage_source`, `stage_type` (empty for nothing), and the file of a
# loop device, `stage_file`.
stage_look() {
  stage_source='' stage_type='' stage_file=''
  while read -r _ _ _ _ stage_point stage_rest; do
    [ "$stage_point" = "$1" ] || continue
    stage_rest=${stage_rest##* - }
    stage_type=${stage_rest%% *}
    stage_source=${stage_rest#* }
    stage_source=${stage_source%% *}
  done </proc/self/mountinfo
  case $stage_source in
    /dev/loop*) { read -r stage_file <"/sys/class/block/${stage_source#/dev/}/loop/backing_file"; } 2>/dev/null ;;
  esac
}

# stage_users PATH: `PID of USER (NAME)` of up to three processes that have a file below it open or mapped, or work there.
stage_users() {
  stage_pids=$({
    find /proc/[0-9]*/fd /proc/[0-9]*/cwd /proc/[0-9]*/exe /proc/[0-9]*/root -maxdepth 1 -type l \( -lname "$1" -o -lname "$1/*" \) -printf '%p\n'
    grep -lF " $1/" /proc/[0-9]*/maps
  } 2>/dev/null | sed 's#^/proc/\([0-9]*\)/.*#\1#' | sort -un)
  stage_count=0
  for stage_pid in $stage_pids; do
    stage_count=$((stage_count + 1))
    [ "$stage_count" -le 3 ] || continue
    { read -r stage_comm <"/proc/$stage_pid/comm"; } 2>/dev/null || stage_comm='?'
    [ "$stage_count" = 1 ] || printf ', '
    printf '%s of %s (%s)' "$stage_pid" "$(stat -c %U "/proc/$stage_pid" 2>/dev/null || echo '?')" "$stage_comm"
  done
  [ "$stage_count" -le 3 ] || printf ', and %s more' $((stage_count - 3))
}

# stage_said: the last line of what a command said.
stage_said() { grep -v 'dmesg(1) may have more' "$stage_dir/.said" 2>/dev/null | tail -n 1 | cut -c1-200; }

# stage_here PATH: whether this shell stands just there.
stage_here() { [ "$(pwd -P)" = "$1" ] || { echo "it leads to $(pwd -P)" >&2 && false; }; }

# stage_mount FILE PATH: by a loop device that nobody can write, and that goes with the mount. Else `stage_why`.
stage_mount() {
  if ! grep -qw squashfs /proc/filesystems && ! modprobe squashfs 2>/dev/null; then
    stage_why="the kernel has no squashfs"
    return 1
  fi
  if ! stage_loop=$(losetup --read-only --find --show "$1" 2>"$stage_dir/.said"); then
    stage_why="no loop device: $(stage_said)"
    return 1
  fi
  # On the folder that this shell stands in: users who write the store may put a link in its place meanwhile.
  if ! (cd -P "$2" && stage_here "$2" && mount --no-canonicalize -t squashfs -o ro,nodev,nosuid "$stage_loop" .) 2>"$stage_dir/.said"; then
    stage_why="not mounted: $(stage_said)"
    losetup --detach "$stage_loop"
    return 1
  fi
  losetup --detach "$stage_loop" # once nobody has it
}

# stage_plain FILE: whether it is a regular file, and no link: who opens a pipe waits for ever, with the lock. Else `stage_why`.
stage_plain() {
  [ -f "$1" ] && [ "$(readlink -f "$1")" = "$1" ] && return 0
  stage_why="$1 is not there, or a link, or no regular file"
  return 1
}

# stage_change LOOP FILE: the device reads this file of the same bytes from now on. Nothing is mounted again, and open files go on.
# LOOP_CHANGE_FD is 0x4C06. Source: loop(4).
stage_change() {
  for stage_tool in python3 /usr/libexec/platform-python perl none; do
    command -v "$stage_tool" >/dev/null 2>&1 && break
  done
  # shellcheck disable=SC2016 # perl's
  case $stage_tool in
    none)
      stage_why="still read from the share: neither python3 nor perl is here to change over"
      return 1
      ;;
    perl) set -- perl -e 'open(L, "<", $ARGV[0]) && open(F, "<", $ARGV[1]) && ioctl(L, 0x4C06, fileno(F)) or die "$!\n"' "$@" ;;
    *) set -- "$stage_tool" -Ic 'import fcntl, os, sys; fcntl.ioctl(os.open(sys.argv[1], 0), 0x4C06, os.open(sys.argv[2], 0))' "$@" ;;
  esac
  "$@" 2>"$stage_dir/.said" || {
    stage_why="still read from the share: $(stage_said)"
    return 1
  }
}

# stage_size FILE: its bytes, 0 where it is not there.
stage_size() { stat -c %s "$1" 2>/dev/null || echo 0; }

# stage_over: whether the time of this look is over; the next one goes on.
stage_over() { [ "$(date +%s)" -ge "$stage_end" ]; }

# A copy comes to the local disk in slices, so that it goes on where it was cut off, and keeps to a rate.

# stage_by_use: the names, the one first whose copy was read longest ago. A loop device's reads count, to the day (relatime); ours do not.
stage_by_use() {
  for stage_each in "$stage_dir"/*.info; do
    stage_each=${stage_each##*/}
    echo "$(stat -c %X "$stage_dir/${stage_each%.info}.sqfs" 2>/dev/null || echo 0) ${stage_each%.info}"
  done | sort -n | cut -d' ' -f2
}

# stage_room BYTES KEEP: room for so many more, within the quota and on the disk. What was used longest ago goes, without the names KEEP
# and what is in use; and nothing, if that would not make room. Else `stage_why`.
stage_room() {
  while :; do
    stage_kept=0 stage_taken=0 stage_old=''
    for stage_each in $(stage_by_use); do
      stage_bytes=$(($(stage_size "$stage_dir/$stage_each.sqfs") + $(stage_size "$stage_dir/$stage_each.sqfs.part")))
      stage_taken=$((stage_taken + stage_bytes))
      case " $2 $stage_tried " in
        *" $stage_each "*) stage_kept=$((stage_kept + stage_bytes)) ;;
        *) [ "$stage_bytes" = 0 ] || stage_old=${stage_old:-$stage_each} ;; # without a copy, it makes no room
      esac
    done
    stage_free=$(df --output=avail -B1 "$stage_dir" | tail -n 1)
    stage_free=$((stage_free - 64 * stage_mib))
    if [ $((stage_taken + $1)) -gt "$stage_quota" ]; then
      stage_why="the quota of $stage_quota bytes is full"
      [ $((stage_kept + $1)) -le "$stage_quota" ] || return 1
    elif [ "$stage_free" -lt "$1" ]; then
      stage_why="the local disk is full: $stage_dir has $((stage_free + 64 * stage_mib)) bytes free, and needs $(($1 + 64 * stage_mib))"
      [ $((stage_free + stage_taken - stage_kept)) -ge "$1" ] || return 1
    else
      stage_why=
      return 0
    fi
    [ -n "$stage_old" ] || return 1
    stage_tried="$stage_tried $stage_old"
    stage_evict "$stage_old"
  done
}

# stage_evict NAME: the copy of an install that no process uses. What is mounted from the share stays, and is known.
stage_evict() {
  read -r stage_gone _ <"$stage_dir/$1.info" || return 0
  [ -z "$(stage_users "$stage_dir/$1.sqfs")" ] || return 0
  stage_look "$stage_gone"
  if [ "$stage_file" = "$stage_dir/$1.sqfs" ]; then
    if [ -n "$(stage_users "$stage_gone")" ] || ! umount "$stage_gone" 2>/dev/null; then return 0; fi
    stage_type=
  fi
  rm -f "$stage_dir/$1.sqfs" "$stage_dir/$1.sqfs.part" "$stage_dir/$1.read"
  [ -n "$stage_type" ] || stage_forget "$1"
}

# stage_forget NAME: all that is here of it.
stage_forget() {
  rm -f "$stage_dir/$1".*
  [ -e "$stage_dir/.${1%.*}" ] || rm -f "$stage_dir/.${1%.*}"
}

# stage_slice FROM COUNT: so many MiB of an image, from so many MiB on, to stdout.
stage_slice() {
  if [ "$stage_from" = share ]; then
    dd if="$stage_image" iflag=nofollow,nonblock bs="$stage_mib" skip="$1" count="$2" 2>"$stage_dir/.said"
  else
    ssh -o BatchMode=yes -o ConnectTimeout=5 "$stage_from" "dd if=$stage_dir/$stage_name.sqfs bs=$stage_mib skip=$1 count=$2" 2>"$stage_dir/.said"
  fi
}

# stage_copy NAME IMAGE SHA256 BYTES KEEP: as much of it as there is time for. Whole and right: the copy has its name. Else `stage_why`, empty
# where only time was lacking.
stage_copy() {
  stage_name=$1 stage_image=$2
  [ "$stage_from" != share ] || stage_plain "$2" || return 1
  stage_part=$stage_dir/$1.sqfs.part
  stage_have=$(stage_size "$stage_part")
  if [ "$stage_have" != "$4" ]; then # a slice may have been cut off
    [ "$stage_have" -lt "$4" ] || stage_have=0
    stage_have=$((stage_have / stage_step * stage_step))
    truncate --no-create --size="$stage_have" "$stage_part"
  fi
  stage_tried=
  stage_room $(($4 - stage_have)) "$5" || {
    rm -f "$stage_dir/$1".*.slice
    return 1
  }
  while [ -s "$stage_dir/$1.$stage_have.slice" ]; do # that was sent by sbcast
    cat "$stage_dir/$1.$stage_have.slice" >>"$stage_part" || break
    rm -f "$stage_dir/$1.$stage_have.slice"
    stage_have=$(stage_size "$stage_part")
  done
  rm -f "$stage_dir/$1".*.slice
  [ "$stage_from" != slices ] || [ "$stage_have" = "$4" ] || return 1
  stage_each=64
  [ "$stage_rate" = 0 ] || stage_each=$((stage_rate / stage_mib))
  [ "$stage_each" -gt 0 ] || stage_each=1
  while [ "$stage_have" -lt "$4" ]; do
    if stage_over; then return 1; fi
    stage_began=$(date +%s%N)
    stage_slice $((stage_have / stage_mib)) "$stage_each" |
      dd of="$stage_part" bs="$stage_mib" iflag=fullblock oflag=seek_bytes seek="$stage_have" conv=notrunc 2>"$stage_dir/.wrote"
    stage_now=$(stage_size "$stage_part")
    if [ "$stage_now" -le "$stage_have" ]; then
      stage_why="not copied: $(grep -v ' records \| copied,' "$stage_dir/.said" "$stage_dir/.wrote" -h | tail -n 1 | cut -c1-200)"
      return 1
    fi
    if [ "$stage_rate" != 0 ]; then # microseconds that so many bytes should take, less those that they took
      stage_nap=$(((stage_now - stage_have) * 1000000 / stage_rate - ($(date +%s%N) - stage_began) / 1000))
      [ "$stage_nap" -le 0 ] || sleep "$((stage_nap / 1000000)).$(printf %06d $((stage_nap % 1000000)))"
    fi
    stage_have=$stage_now
  done
  sync "$stage_part"
  stage_sum=$(sha256sum <"$stage_part")
  if [ "${stage_sum%% *}" != "$3" ]; then
    rm -f "$stage_part"
    stage_why="damaged: the copy has sha256 ${stage_sum%% *}, not $3"
    case $stage_from in share | slices) ;; *) stage_why="$stage_why: it came from $stage_from" ;; esac
    return 1
  fi
  case $2 in */image.sqfs) chmod 444 "$stage_part" ;; esac # users read it themselves
  mv "$stage_part" "$stage_dir/$1.sqfs"
  case $2 in */image.sqfs) ln -sfn "$1.sqfs" "$stage_dir/.${1%.*}" ;; esac
  echo "$(date +%s) $(stat -c '%i %s %.9Y %.9Z' "$stage_dir/$1.sqfs") $3" >"$stage_dir/$1.read" # the audit knows it, too
}

stage_row() {
  stage_copied=$(stage_size "$stage_dir/$2.sqfs")
  if [ "$stage_act" = mount ] && [ "$stage_copied" != 0 ] && ! stage_known "$2" "$4"; then stage_copied=1; fi # it is read next
  [ "$stage_copied" != 0 ] || stage_copied=$(stage_size "$stage_dir/$2.sqfs.part")
  stage_used=$(stat -c %Y "$stage_dir/$2.info" 2>/dev/null || date +%s)
  printf 'image\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n' "$stage_path" "$4" "$stage_mounted" "${stage_file:-$stage_source}" "$stage_copied" "$5" $(($(date +%s) - stage_used)) "$stage_why"
}

# stage_state PATH NAME IMAGE: from where it is mounted. `stage_older` is yes for an image of that install which is not this one: it was
# made again, or staged before.
stage_state() {
  stage_older='' stage_place=$1
  if [ "$3" = "$1/image.sqfs" ]; then
    stage_place=$stage_dir/$2.sqfs stage_type='' stage_mounted=share stage_source=$3 stage_file=$3
    [ ! -e "$stage_place" ] || stage_mounted=local stage_file=$stage_place
    return 0
  fi
  stage_look "$1"
  case $stage_file in
    "$stage_dir/$2.sqfs") stage_mounted=local ;;
    "$3") stage_mounted=share ;;
    "$stage_dir/${2%.*}".* | "$3 (deleted)" | "${3%/*}/.old-"*"${3##*/}"*) stage_mounted=other stage_older=yes ;;
    *) if [ -n "$stage_type" ]; then stage_mounted=other; else stage_mounted=none; fi ;;
  esac
}

# stage_same DEVICE FILE: whether both begin with one superblock, which says where the parts of a squashfs lie.
stage_same() { cmp -s -n 96 "$1" "$2"; }

# stage_known NAME SHA256: whether the copy was read whole in the last day, and not written to since.
stage_known() {
  { read -r stage_when stage_had <"$stage_dir/$1.read"; } 2>/dev/null || return 1
  [ "$(stat -c '%i %s %.9Y %.9Z' "$stage_dir/$1.sqfs") $2" = "$stage_had" ] && [ $(($(date +%s) - stage_when)) -lt 86400 ]
}

# stage_read NAME SHA256: read the copy whole; no if it is another.
stage_read() {
  stage_sum=$(dd if="$stage_dir/$1.sqfs" bs="$stage_mib" iflag=noatime 2>/dev/null | sha256sum)
  [ "${stage_sum%% *}" = "$2" ] && echo "$(date +%s) $(stat -c '%i %s %.9Y %.9Z' "$stage_dir/$1.sqfs") $2" >"$stage_dir/$1.read"
}

# stage_note PATH NAME SHA256 BYTES: what is staged here, which is known as long as this file is there.
stage_note() {
  { echo "$stage_path $2 $stage_given $3 $4" >"$stage_dir/.note" && mv "$stage_dir/.note" "$stage_dir/$2.info"; } 2>/dev/null && return 0
  rm -f "$stage_dir/.note"
  stage_why="the local disk is full: nothing can be written to $stage_dir"
  return 1
}

# stage_unmount: what is mounted at `stage_place`; nothing is where that is a copy.
stage_unmount() { [ -f "$stage_place" ] || umount "$stage_place"; }

stage_one() {
  stage_why=
  stage_state "$@"
  [ "$stage_act" != look ] || return 0
  if [ "$stage_act" = boot ]; then
    case "$stage_booted " in *" $1 "*) return 0 ;; esac # an older copy of it
    stage_booted="$stage_booted $1"
    if [ -d "${1%/*/*}" ] && ! [ -e "$1" ]; then # `gc` has removed it
      stage_forget "$2"
      return 0
    fi
  elif [ "$stage_mounted" = share ] && [ -e "$3" ]; then
    stage_plain "$3" || return 0
    stage_same "$stage_source" "$3" || stage_mounted=other stage_older=yes
  fi
  if [ "$stage_mounted$stage_older" = other ]; then
    stage_why="${stage_file:-$stage_source} is mounted there, which is not this image"
    return 0
  fi
  [ "$stage_act" = boot ] || stage_note "$1" "$2" "$4" "$5" || return 0
  if [ "$stage_older" = yes ]; then
    stage_pids=$(stage_users "$1")
    if [ -n "$stage_pids" ]; then
      stage_wait="waiting: $stage_pids"
    elif umount "$1" 2>"$stage_dir/.said"; then
      stage_mounted=none
    else
      stage_why="not unmounted: $(stage_said)"
      return 0
    fi
  fi
  if [ "$stage_act" = copy ] && [ -e "$stage_dir/$2.sqfs" ] && ! stage_known "$2" "$4" && ! stage_read "$2" "$4"; then
    stage_pids=$(stage_users "$stage_place")
    if [ "$stage_mounted" = local ] && { [ -n "$stage_pids" ] || ! stage_unmount 2>/dev/null; }; then
      stage_why="damaged: the copy has sha256 ${stage_sum%% *}, not $4; in use: $stage_pids"
      return 0
    fi
    rm -f "$stage_dir/$2.sqfs" "$stage_dir/$2.read"
    stage_state "$@"
  fi
  if [ "$stage_mounted" = none ]; then
    stage_pids=$(stage_users "$1")
    if [ -n "$stage_pids" ]; then
      stage_wait="waiting: $stage_pids"
    elif [ -e "$stage_dir/$2.sqfs" ]; then
      stage_mount "$stage_dir/$2.sqfs" "$1"
    elif [ "$stage_act" = boot ]; then
      stage_why="no whole copy is here"
    elif stage_plain "$3"; then
      stage_mount "$3" "$1"
    fi
    [ -z "$stage_why" ] || return 0
  fi
  if [ "$stage_act" = copy ] && [ ! -e "$stage_dir/$2.sqfs" ]; then
    stage_copy "$2" "$3" "$4" "$5" "$stage_keep" || :
    case $stage_why:$stage_from in damaged:*:share | damaged:*:slices) stage_drop "$1" ;; esac
  fi
  stage_state "$@"
  if [ "$stage_mounted" = share ] && [ -e "$stage_dir/$2.sqfs" ] && stage_same "$stage_source" "$stage_dir/$2.sqfs"; then
    stage_change "$stage_source" "$stage_dir/$2.sqfs" || :
    stage_state "$@"
  fi
  if [ "$stage_mounted" = local ] || [ "$stage_mounted" = share ]; then # nothing needs what was staged of this install before
    for stage_each in "$stage_dir/${2%.*}".*.info; do
      [ "$stage_each" = "$stage_dir/$2.info" ] || [ ! -e "$stage_each" ] || rm -f "${stage_each%.info}".*
    done
  fi
  stage_why=${stage_why:-$stage_wait}
}

# stage_drop PATH: an image on the share that is damaged is read no more, if that can be had.
stage_drop() {
  stage_pids=$(stage_users "$1")
  if [ -n "$stage_pids" ]; then
    stage_why="$stage_why; it is still mounted from the share, and in use: $stage_pids"
  else
    umount "$1" 2>/dev/null || :
  fi
}

stage_away() {
  stage_why=
  stage_state "$@"
  case $stage_mounted$stage_older in
    other)
      stage_why="${stage_file:-$stage_source} is mounted there, which is not this image"
      return 0
      ;;
    none) ;;
    *)
      stage_pids=$(stage_users "$stage_place")
      if [ -n "$stage_pids" ]; then
        stage_why="in use: $stage_pids"
        return 0
      elif ! stage_unmount 2>"$stage_dir/.said"; then
        stage_why="not unmounted: $(stage_said)"
        return 0
      fi
      ;;
  esac
  stage_forget "$2"
}

if [ "$(id -u)" != 0 ]; then
  printf 'not-root\t%s\n' "$(id -un)"
  exit 0
fi
stage_dir=$(readlink -m "$stage_dir")
printf 'host\t%s\n' "$(uname -n)"
if [ "$stage_act" != look ]; then # which changes nothing
  if ! { mkdir -p "$stage_dir" && chmod 711 "$stage_dir" && : >"$stage_dir/.lock"; } 2>/dev/null; then
    printf 'closed\t%s\n' "$stage_dir cannot be written: is the local disk full?"
    exit 0
  fi
  umask 077 # what root copies, nobody else reads
  exec 8>"$stage_dir/.lock"
  if ! flock -w 20 8; then # of another run on this node, which ends with its controller
    echo busy
    exit 0
  fi
fi
stage_keep=
while read -r _ stage_name _; do stage_keep="$stage_keep $stage_name"; done <<STAGE_TABLE
$stage_table
STAGE_TABLE
stage_rows=$stage_table
# What is here and was not asked for.
case $stage_act in
  look | boot)
    for stage_info in $(find "$stage_dir" -maxdepth 1 -name '*.info' -size +0 -printf '%T@ %p\n' 2>/dev/null | sort -rn | cut -d' ' -f2); do
      read -r stage_line <"$stage_info"
      case $stage_table in *"$stage_line"*) ;; *) stage_rows="$stage_rows
$stage_line" ;; esac
    done
    ;;
esac
stage_failed='' stage_booted=''
[ "$stage_from" = share ] || stage_rate=0 # the bound is the share's
while read -r stage_path stage_name stage_image stage_sha256 stage_bytes <&7; do
  [ -n "$stage_path" ] || continue
  stage_wait=
  # Only the note says which image on the share was mounted; the controller knows what should be.
  if [ "$stage_act" = away ]; then read -r _ _ stage_image _ <"$stage_dir/$stage_name.info"; fi 2>/dev/null || stage_image=-
  stage_given=$stage_image
  # The kernel tells names without links. The prefix may be one; what lies in it is written by the build user, and this is root.
  stage_prefix=${stage_path%/store/*/*}
  stage_real=$(readlink -f "$stage_prefix" || echo "$stage_prefix")
  case $stage_image in "$stage_prefix"/*) stage_image=$stage_real${stage_image#"$stage_prefix"} ;; esac
  set -- "$stage_real${stage_path#"$stage_prefix"}" "$stage_name" "$stage_image" "$stage_sha256" "$stage_bytes"
  case $stage_act in away) stage_away "$@" ;; *) stage_one "$@" ;; esac
  [ -z "$stage_why" ] || stage_failed=yes
  stage_whys=$stage_why
  stage_state "$@"
  stage_why=$stage_whys
  stage_row "$@"
done 7<<STAGE_ROWS
$stage_rows
STAGE_ROWS
[ "$stage_act$stage_failed" != bootyes ] # systemd tells of it
