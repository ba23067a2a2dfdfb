# shellcheck shell=sh
# $1: the prefix; $2: how many rows are drawn. Reads lines ENTRY MANIFEST and prints `@ENTRY` and rows of files that are drawn from the
# manifest. In one process that can be left behind.

cd "$1" || exit 1
while read -r entry manifest; do
  printf '@%s\n' "$entry"
  grep -E '^\[".*", "file", ' "$manifest" | shuf -n "$2"
done
