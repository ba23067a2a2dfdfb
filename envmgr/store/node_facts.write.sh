# shellcheck shell=sh
# $1: the folder; $2: the umask; stdin: the new file. All that touches the prefix, in one process that can be left behind.

umask "$2"
mkdir -p "$1" || exit 1
find "$1" -name ".nodes.json.*.tmp" -mmin +60 -exec rm -f {} + 2>/dev/null
new="$1/.nodes.json.$(uname -n).$$.tmp"
{ cat >"$new" && sync "$new" && mv -f "$new" "$1/nodes.json"; } || {
  rm -f "$new"
  exit 1
}
