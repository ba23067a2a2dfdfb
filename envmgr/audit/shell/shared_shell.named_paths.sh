# named_paths: of lines `WHAT PATH` on stdin, those of which the path is not there, and `WHAT FOLDER closed` of those that lie in a folder, or are one, that the
# caller cannot enter or read. What lies below another one in the list is left out. With `named_there`, a file, that gets a line for each other path.
named_paths() {
  while IFS= read -r named_line; do
    named_by=${named_line% *} named_path=${named_line##* } named_at=${named_line##* }
    case $named_path in /*) ;; *) continue ;; esac
    while ! [ -e "$named_at" ] && [ -n "$named_at" ]; do named_at=${named_at%/*}; done
    if [ "$named_at" != "$named_path" ]; then
      if [ -d "${named_at:-/}" ] && ! [ -x "${named_at:-/}" ]; then printf '%s %s closed\n' "$named_by" "$named_at"; else printf '%s %s\n' "$named_by" "$named_path"; fi
    elif [ -d "$named_path" ] && ! { [ -r "$named_path" ] && [ -x "$named_path" ]; }; then
      printf '%s %s closed\n' "$named_by" "$named_path"
    elif [ -n "${named_there-}" ]; then
      printf '%s\n' "$named_line" >>"$named_there"
    fi
  done | sed 's|/\.\{0,1\}\( closed\)\{0,1\}$|\1|' | LC_ALL=C sort -u |
    awk '{
      is = $NF == "closed"; at = is ? $(NF - 1) : $NF
      of = substr($0, 1, index($0, " " at) - 1)
      if (of == by && is == closed && index(at "/", path "/") == 1) next
      by = of; path = at; closed = is
      print
    }'
}
