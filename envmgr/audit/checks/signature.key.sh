# shellcheck shell=sh
# Private keys to sign with that others than their owner can read: lines MODE PATH. `signature_key` is where the site says that its key is.

for signature_file in /etc/envmgr/* ${signature_key:+"$signature_key"}; do
  if [ -f "$signature_file" ] && [ -n "$(find -L "$signature_file" -perm /077 2>/dev/null)" ] && head -c 100 "$signature_file" 2>/dev/null | grep -q 'PRIVATE KEY'; then
    printf '%s %s\n' "$(stat -L -c %a "$signature_file")" "$signature_file"
  fi
done | LC_ALL=C sort -u | lines signature.open
