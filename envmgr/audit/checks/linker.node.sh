# shellcheck shell=sh
# What the dynamic linker does for every program of the node.

if [ -s /etc/ld.so.preload ]; then
  sed 's/#.*//' /etc/ld.so.preload | tr -s ' \t:' '\n' | grep . | lines linker.preload
  sed 's/#.*//' /etc/ld.so.preload | tr -s ' \t:' '\n' | grep / | while read -r linker_file; do
    [ -r "$linker_file" ] || printf '%s\n' "$linker_file"
  done | lines linker.missing
fi
grep -H -s -v -E '^[[:space:]]*(#|$|include[[:space:]])' /etc/ld.so.conf /etc/ld.so.conf.d/*.conf |
  sed 's/^\([^:]*\):[[:space:]]*\(.*\)/\2 (\1)/' | LC_ALL=C sort -u | lines linker.folders
