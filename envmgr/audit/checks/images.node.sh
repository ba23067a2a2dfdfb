# The images on this node: what is mounted from a loop device over an install's path, and the copies on the local disk. No file below
# the prefix is touched. A copy is read whole once a day, and when it was written to since: what is known of it lies beside it.
: "${prefix?}" "${images_dir?}"

if [ -d "$images_dir" ] && ! [ -r "$images_dir" ]; then put images.closed yes; fi
images_one=$(printf '%s' "${ENVMGR_REAL:-$prefix}" | sed 's/[.[\*^$]/\\&/g')
sed -n "s#^[^ ]* [^ ]* [^ ]* [^ ]* \($images_one/store/[^/ ]*/[^/ ]*\) .* - squashfs \(/dev/loop[0-9]*\) .*#\1 \2#p" /proc/self/mountinfo |
  while read -r images_path images_loop; do
    { read -r images_file <"/sys/class/block/${images_loop#/dev/}/loop/backing_file"; } 2>/dev/null || images_file='?'
    printf '%s %s\n' "$images_path" "$images_file"
  done | { # an install that is an image itself is not mounted: users read the copy
    cat
    for images_info in "$images_dir"/*.info; do
      { read -r images_path images_name images_image _ <"$images_info"; } 2>/dev/null || continue
      [ "$images_image" != "$images_path/image.sqfs" ] || [ ! -e "$images_dir/$images_name.sqfs" ] || echo "$images_path $images_dir/$images_name.sqfs"
    done
  } | sed "s#\(^\| \)$images_one/#\1$prefix/#g" | sort | lines images.mounted
images_end=$(($(date +%s) + 10))
for images_info in "$images_dir"/*.info; do
  [ -e "$images_info" ] || continue
  read -r images_path images_name _ images_sha256 _ <"$images_info"
  images_file=$images_dir/$images_name.sqfs
  images_is=part
  if [ -e "$images_file" ]; then
    images_now="$(stat -c '%i %s %.9Y %.9Z' "$images_file")"
    images_is=right # or not read
    images_left=$((images_end - $(date +%s)))
    if { read -r images_read images_had <"$images_dir/$images_name.read"; } 2>/dev/null &&
      [ "$images_now $images_sha256" = "$images_had" ] && [ $(($(date +%s) - images_read)) -lt 86400 ]; then
      :
    elif [ "$images_left" -gt 0 ] && images_sum=$(timeout "$images_left" sh -c 'dd if="$0" bs=1M iflag=noatime 2>/dev/null | sha256sum' "$images_file"); then
      if [ "${images_sum%% *}" = "$images_sha256" ]; then
        { echo "$(date +%s) $images_now $images_sha256" >"$images_dir/$images_name.read"; } 2>/dev/null || :
      else
        images_is=wrong
      fi
    fi
  fi
  printf '%s %s %s %s\n' "$images_path" "$images_sha256" "$images_file" "$images_is"
done | lines images.copies
