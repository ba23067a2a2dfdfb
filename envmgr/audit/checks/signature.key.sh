# Private keys to sign with that others than their owner can read: lines MODE PATH. `signature_keys` is where the site's own key may lie, a line
# each; in `signature_home` and the folders of it any key is looked at.
: "${signature_home?}"
{
  with_limit 10 "$0.keys" find -L "$signature_home" -xdev -maxdepth 4 -type f -size -65k -perm /077
  cat "$0.keys" 2>/dev/null
  printf '%s\n' "${signature_keys-}"
} | grep . | LC_ALL=C sort -u | xargs -d '\n' -r sh -c 'exec find -L "$@" -maxdepth 0 -type f -perm /077 -printf "%m %p\n"' sh 2>/dev/null >"$0.open"
cut -d' ' -f2- "$0.open" | LC_ALL=C xargs -d '\n' -r grep -l -s -a '^-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----' >"$0.private"
awk 'FILENAME ~ /private$/ { is_key[$0]; next } substr($0, index($0, " ") + 1) in is_key' "$0.private" "$0.open" | lines signature.open
