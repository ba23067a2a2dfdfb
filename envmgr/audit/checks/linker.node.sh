# shellcheck shell=sh
# What the dynamic linker does for every program of the node.

if [ -s /etc/ld.so.preload ]; then
  sed 's/#.*//' /etc/ld.so.preload | tr -s ' \t:' '\n' | grep . | lines linker.preload
  sed 's/#.*//' /etc/ld.so.preload | tr -s ' \t:' '\n' | grep / | while read -r linker_file; do
    [ -r "$linker_file" ] || printf '%s\n' "$linker_file"
  done | lines linker.missing
fi
grep -H -s -v -E '^[[:space:]]*(#|$)' /etc/ld.so.conf /etc/ld.so.conf.d/*.conf |
  sed 's/^\([^:]*\):[[:space:]]*\(.*\)/\2 (\1)/' | LC_ALL=C sort -u | lines linker.folders
# Settings that are as a package wrote them: `FILE PACKAGE`.
set -- /etc/ld.so.conf /etc/ld.so.conf.d/*.conf
{ md5sum "$@"; sha256sum "$@"; } >"$0.sums" 2>/dev/null
{
  awk '/^Package: / { name = $2 } /^ \/etc\/ld\.so\.conf/ { print $2, $1, name }' /var/lib/dpkg/status
  rpm -q -f --qf '[%{FILEDIGESTS} %{FILENAMES} %{=NAME}\n]' "$@"
} 2>/dev/null | awk 'NR == FNR { as_is[$1, $2]; next } ($1, $2) in as_is { print $2, $3 }' "$0.sums" - | LC_ALL=C sort -u | lines linker.packaged
# What the linker's cache has of folders apart from the system's own, in which programs find libraries without it: a line a folder, with
# names. And what lies in configured ones and is not in the cache, by its name or by that of its version.
linker_others() { grep -v -E '^/(usr/)?lib(64|32|x32)?(/[^/ ]*-linux-gnu[^/ ]*)?(/glibc-hwcaps/[^ ]*)?/*( |$)'; }
linker_look() { # a folder may be on a server that hangs
  PATH=$PATH:/usr/sbin:/sbin LC_ALL=C ldconfig -p | sed -n 's/^[[:space:]]*\([^ ]*\) (\([^ )]*\).*=> \(\/.*\)\/[^/]*$/\3 \1 \2/p' >"$0.all"
  linker_others <"$0.all" >"$0.others"
  cut -d' ' -f1,2 "$0.others" | LC_ALL=C sort -u >"$0.known"
  sed -n 's/^\(\/[^[:space:]:,=]*\).*/\1/p' /etc/ld.so.conf /etc/ld.so.conf.d/*.conf 2>/dev/null | linker_others |
    while read -r linker_folder; do
      linker_real=$(cd -P "$linker_folder" 2>/dev/null && pwd) || continue
      [ "$linker_real" = "${linker_folder%/}" ] || continue # one that is another's is in the cache by that one's name
      LC_ALL=C grep -l -s -F -e "$(printf '\177ELF')" "$linker_real"/lib*.so* | sed 's/\/\([^/]*\)$/ \1/'
    done | LC_ALL=C sort -u >"$0.there"
}
if PATH=$PATH:/usr/sbin:/sbin command -v ldconfig >/dev/null && with_limit 5 "$0.linker" linker_look; then
  put linker.cache looked
  awk '
    $1 != last { printf "%s%s", (NR > 1 ? "\n" : ""), $1; last = $1; count = 0 }
    ++count <= 1000 { printf " %s", $2 }
    END { if (NR) print "" }' "$0.known" | lines linker.cached
  awk '
    FILENAME ~ /\.known$/ { of[$1] = of[$1] " " $2; next }
    {
      found = 0
      count = split(of[$1], names, " ")
      for (i = 1; i <= count; i++) {
        if (index(names[i] ".", $2 ".") == 1 || (names[i] ~ /\.so\./ && index($2 ".", names[i] ".") == 1)) found = 1
      }
      if (!found && told++ < 200) print $1, $2
    }' "$0.known" "$0.there" | lines linker.uncached
  # Of the cache's libraries of one name and kind, programs get the first.
  awk '
    FILENAME == ARGV[1] { other[$0]; next }
    { kind = $2 " " $3 }
    !(kind in first) { first[kind] = $0 in other ? $1 " " $2 : ""; next }
    first[kind] != "" && !($0 in other) { print first[kind] }' "$0.others" "$0.all" | LC_ALL=C sort -u |
    while read -r linker_folder linker_file; do
      linker_file=$linker_folder/$linker_file
      linker_package=$(rpm -q -f --qf '%{NAME} ' "$linker_file" 2>/dev/null) || linker_package=$(dpkg -S "$linker_file" 2>/dev/null | cut -d: -f1)
      printf '%s %s %s\n' "$linker_folder" "${linker_file##*/}" "${linker_package%% *}"
    done | lines linker.shadows
  find /etc/ld.so.conf /etc/ld.so.conf.d -newer /etc/ld.so.cache 2>/dev/null | LC_ALL=C sort | head -n 1 | lines linker.newer
  [ -e /etc/ld.so.cache ] || put linker.newer missing
fi
