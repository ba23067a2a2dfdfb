# Private keys to sign with that others than their owner can read: lines MODE PATH. `signature_keys` is where the site's own key may lie, a line
# each; in `signature_home` and the folders of it any key is looked at.
: "${signature_home?}"
{
  with_limit 10 "$0.keys" find -L "$signature_home" -xdev -maxdepth 4 -type f -size -65k -perm /077
  cat "$0.keys" 2>/dev/null
  printf '%s\n' "${signature_keys-}"
} | LC_ALL=C sort -u | while IFS= read -r signature_file; do
  if [ -f "$signature_file" ] && [ -n "$(find -L "$signature_file" -perm /077 2>/dev/null)" ] && head -c 65536 "$signature_file" 2>/dev/null | LC_ALL=C grep -q -a '^-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----'; then
    printf '%s %s\n' "$(stat -L -c %a "$signature_file")" "$signature_file"
  fi
done | lines signature.open
