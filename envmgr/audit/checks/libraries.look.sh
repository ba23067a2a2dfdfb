# $1: sample or full; $2: seconds it may take; $3: lines of an entry's missing libraries that are printed; then ENTRY ROOT pairs.
# It looks at the clock itself: the probe cannot end all of its processes without
# ending itself. The loader that ldd(1) names for /bin/sh is asked as ldd asks it, in one process a file in place of six.
choose() {
  if [ "$how" = full ]; then
    find . -type f \( -perm -0100 -o -name "*.so" -o -name "*.so.*" \)
  else # six of bin, and six of lib and lib64
    find bin lib lib64 -maxdepth 1 -type f \( -path 'bin/*' -perm -0100 -o ! -path 'bin/*' \( -name "*.so" -o -name "*.so.*" \) \) 2>/dev/null | LC_ALL=C sort | awk '
      { of = /^bin/ ? "bin" : "lib"; line[of, ++count[of]] = $0 }
      END { for (of in count) { n = count[of] < 6 ? count[of] : 6; for (i = 0; i < n; i++) print line[of, int(i * count[of] / n) + 1] } }'
  fi
}
now() { read -r now _ </proc/uptime && now=${now%.*}; }
if [ -e /sys/module/nvidia/version ] || [ -e /proc/driver/nvidia/version ]; then echo "@libraries.driver=yes"; fi
now && how=$1 end=$((now + $2)) most=$3
loader=$(ldd /bin/sh | sed -n 's/^[[:space:]]*\(\/[^[:space:]]*\) (.*/\1/p')
shift 3
while [ -n "$loader" ] && [ $# -gt 0 ] && now && [ "$now" -lt "$end" ]; do
  if cd "$2" 2>/dev/null; then
    missing=$(choose | xargs -d '\n' -r -n 50 /bin/sh -c '
      read -r now _ </proc/uptime
      [ "${now%.*}" -lt "$0" ] || exit 255
      loader=$1
      shift
      for file; do
        echo "$file:"
        LD_TRACE_LOADED_OBJECTS=1 "$loader" "$file"
      done' "$end" "$loader" 2>&1 | awk '
      /^[^[:space:]].*:$/ { file = substr($0, 1, length($0) - 1); sub(/^\.\//, "", file); next }
      / => not found/ { print $1, file }
      match($0, /version .[A-Za-z0-9_.]+. not found/) { print substr($0, RSTART + 9, RLENGTH - 20), file }' | LC_ALL=C sort -u)
    if [ -n "$missing" ]; then
      # One walk for all of them, and none for what only the driver has.
      within='' others=$(printf '%s\n' "$missing" | cut -d' ' -f1 | uniq | grep -v -E '^lib(cuda|nvcuvid|nvidia-)')
      [ -z "$others" ] || within=$(find . -name '*.so*' | sed 's|.*/||' | grep -F -x -e "$others" | LC_ALL=C sort -u | tr '\n' ' ')
      printf '%s\n' "$missing" | awk -v key="@libraries.missing.$1" -v within=" $within" -v most="$most" '
        !index(within, " " $1 " ") && told++ < most { print key "|" $0 }'
    fi
    if now && [ "$now" -lt "$end" ]; then echo "@libraries.looked.$1=yes"; fi
  fi
  shift 2
done
