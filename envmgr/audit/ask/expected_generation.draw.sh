# shellcheck shell=sh
# $1: the prefix; $2: how many rows are drawn. Reads lines ENTRY MANIFEST and prints `@ENTRY` and rows of files that are drawn from the
# manifest: of files below 10 MB, with names that sha256sum does not escape. In one process that can be left behind.

cd "$1" || exit 1
while read -r entry manifest; do
  printf '@%s\n' "$entry"
  LC_ALL=C grep -E '^\["[] !#-[^-~]*", "file", "[0-7]+", [1-9][0-9]{0,6}, "[0-9a-f]{64}"\],?$' "$manifest" | shuf -n "$2"
done
