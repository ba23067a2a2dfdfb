# shellcheck shell=sh
# named_paths: of lines `WHAT PATH` on stdin, those of which the path is not there, and `WHAT FOLDER closed` of those that lie in a folder,
# or are one, that the caller cannot enter or read.

named_paths() {
  while read -r named_by named_path; do
    named_at=$named_path
    while ! [ -e "$named_at" ] && [ -n "$named_at" ]; do named_at=${named_at%/*}; done
    if [ "$named_at" != "$named_path" ]; then
      if [ -d "${named_at:-/}" ] && ! [ -x "${named_at:-/}" ]; then printf '%s %s closed\n' "$named_by" "$named_at"; else printf '%s %s\n' "$named_by" "$named_path"; fi
    elif [ -d "$named_path" ] && ! { [ -r "$named_path" ] && [ -x "$named_path" ]; }; then
      printf '%s %s closed\n' "$named_by" "$named_path"
    fi
  done | LC_ALL=C sort -u
}
