# Listings of places (NUMBER FOLDER each) below the prefix, as this node's mount has them, by the build user where root asks. Of a place with a file
# "$0.want.NUMBER", which has the right listing with 0x01 for a line break in a name, print the records that only one of the two has, all of each path,
# of `verify_most` paths at most, and `+ N` for N more; of other places, the listing's sha256.
: "${build_user?}" "${verify_end?}" "${verify_most?}" "${verify_list?}"
verify_mine() { (as "$build_user" "$@"); }
if [ "${probe_uid?}" != 0 ] || ! id -u "$build_user" >/dev/null 2>&1; then verify_mine() { "$@"; }; fi
verify_listing() { verify_mine /bin/sh -c "$verify_list" sh "$1" || printf '!! .\0'; }
verify_cut='
  {
    record = $0; sub(/^\t/, "", record)
    kind = path = record; sub(/ .*/, "", kind); sub(/^[^ ]* /, "", path)
    if (kind == "l") sub(/ .*/, "", path); else if (kind !~ /^!/) sub(/^[^ ]* +/, "", path)
    if (!(path in place)) place[path] = ++paths
    if (place[path] <= most) print
  }
  END { if (paths > most) print "+ " paths - most }'
now && verify_began=${now?}
while [ $# -gt 0 ] && now && [ $((now - verify_began)) -lt "$verify_end" ]; do
  if ! verify_said=$(verify_mine /bin/sh -c 'LC_ALL=C ls -d "$1" 2>&1 >/dev/null' sh "$2"); then
    case $verify_said in
      *": No such file or directory") put "verify.gone.$1" yes ;;
      *) put "verify.closed.$1" "${verify_said##*: }" ;;
    esac
  elif [ -e "$0.want.$1" ]; then
    verify_listing "$2" | tr '\n\0' '\001\n' | LC_ALL=C comm -3 - "$0.want.$1" 2>/dev/null | LC_ALL=C awk -v most="$verify_most" "$verify_cut" | lines "verify.line.$1"
  else
    put "verify.sum.$1" "$(verify_listing "$2" | sum)"
  fi
  shift 2
done
