# shellcheck shell=sh
# Listings of places below the prefix, as this node's mount has them, by the build user where root asks. The arguments are NUMBER
# FOLDER of each place. Of a place with a file "$0.want.NUMBER", which has the right listing with 0x01 for a line break in a name,
# the records are told that only one of the two has, `verify_most` at most; of others, the listing's sha256.
: "${build_user?}" "${verify_end?}" "${verify_most?}" "${verify_list?}"

verify_mine() { "$@"; }
if [ "$(id -u)" = 0 ] && [ -n "$build_user" ] && id -u "$build_user" >/dev/null 2>&1; then
  verify_mine() { (as "$build_user" "$@"); }
fi
verify_listing() { verify_mine /bin/sh -c "$verify_list" sh "$1"; }
verify_began=$(date +%s)
while [ $# -gt 0 ] && [ "$(($(date +%s) - verify_began))" -lt "$verify_end" ]; do
  if ! [ -e "$2" ] && ! [ -L "$2" ]; then
    put "verify.gone.$1" yes
  elif [ -e "$0.want.$1" ]; then
    verify_listing "$2" | tr '\n\0' '\001\n' | LC_ALL=C comm -3 - "$0.want.$1" | head -n "$verify_most" | lines "verify.line.$1"
    put "verify.compared.$1" yes
  else
    put "verify.sum.$1" "$(verify_listing "$2" | sum)"
  fi
  shift 2
done
