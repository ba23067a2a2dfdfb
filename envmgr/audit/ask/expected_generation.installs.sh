# shellcheck shell=sh
# $1: the prefix; $2: how many rows are drawn. Reads lines MANIFEST DEEP PATTERN and prints `@MANIFEST` and rows of it: those that
# PATTERN finds, the first file, and, where DEEP is 1, some that are drawn from all. In one process that can be left behind.

cd "$1" || exit 1
while read -r manifest deep pattern; do
  printf '@%s\n' "$manifest"
  grep -m 4000 -E -e "$pattern" "$manifest"
  grep -m 1 -E -e '^\[".*", "file", ' "$manifest"
  if [ "$deep" = 1 ]; then grep -E '^\[".*", "file", ' "$manifest" | shuf -n "$2"; fi
done
