# $1: the folder; $2: the file's name; $3: the umask; stdin: the new file. All that touches the prefix, in one process that can be left
# behind.

umask "$3"
mkdir -p "$1" || exit 1
find "$1" -name ".$2.*.tmp" -mmin +60 -exec rm -f {} + 2>/dev/null
new="$1/.$2.$(uname -n).$$.tmp"
{ cat >"$new" && sync "$new" && mv -f "$new" "$1/$2"; } || {
  rm -f "$new"
  exit 1
}
