# The images on this node: what is mounted from a loop device over an install's path, and the copies on the local disk. No file below
# the prefix is touched. A copy is read whole once a day, and when it was written to since: what is known of it lies beside it.
: "${prefix?}" "${images_dir?}"
if [ -d "$images_dir" ] && ! [ -r "$images_dir" ]; then put images.closed yes; fi
images_real=${ENVMGR_REAL:-$prefix}
images_end=$(($(date +%s) + 10))
: >"$0.images"
{
  awk -v real="$images_real" -v prefix="$prefix" '
    / - squashfs \/dev\/loop/ && index($5, real "/store/") == 1 && split(substr($5, length(real) + 2), part, "/") == 3 {
      for (i = 7; $i != "-"; i++);
      print prefix substr($5, length(real) + 1), $(i + 2)
    }' /proc/self/mountinfo | while read -r images_path images_loop; do
    { read -r images_file <"/sys/class/block/${images_loop#/dev/}/loop/backing_file"; } 2>/dev/null || images_file='?'
    case $images_file in "$images_real"/*) images_file=$prefix${images_file#"$images_real"} ;; esac
    printf '%s %s\n' "$images_path" "$images_file"
  done
  for images_info in "$images_dir"/*.info; do
    { read -r images_path images_name images_image images_sha256 _ <"$images_info"; } 2>/dev/null || continue
    images_file=$images_dir/$images_name.sqfs images_is=part
    if [ -e "$images_file" ]; then
      # An install that is an image itself is not mounted: users read the copy.
      [ "$images_image" != "$images_path/image.sqfs" ] || printf '%s %s\n' "$images_path" "$images_file"
      images_now="$(stat -c '%i %s %.9Y %.9Z' "$images_file") $images_sha256"
      images_is=right # or not read
      images_left=$((images_end - $(date +%s)))
      { read -r images_read images_had <"$images_dir/$images_name.read"; } 2>/dev/null || images_had=
      if { [ "$images_now" != "$images_had" ] || [ $(($(date +%s) - images_read)) -ge 86400 ]; } && [ "$images_left" -gt 0 ] &&
        images_sum=$(timeout "$images_left" sh -c 'dd if="$0" bs=1M iflag=noatime 2>/dev/null | sha256sum' "$images_file"); then
        if [ "${images_sum%% *}" != "$images_sha256" ]; then images_is=wrong; else
          { echo "$(date +%s) $images_now" >"$images_dir/$images_name.read"; } 2>/dev/null
        fi
      fi
    fi
    printf '%s %s %s %s\n' "$images_path" "$images_sha256" "$images_file" "$images_is" >>"$0.images"
  done
} | sort | lines images.mounted
lines images.copies <"$0.images"
