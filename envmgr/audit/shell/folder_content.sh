# shellcheck shell=sh
# folder_content CHECK NUMBER FOLDER: what lies in a folder of modulefiles, by content. Facts, each with `.NUMBER`: `CHECK.sum`, the sum over
# all names, sizes and contents, with the folder; `CHECK.files`, a line for each file, or, of more than 300, for each of its folders;
# `CHECK.closed`, what the user cannot read; `CHECK.absent`, `FILE PATH` of what modulefiles name, as named_paths.sh tells it, and
# `CHECK.named` where that was looked at to the end; `CHECK.dead`, `FILE PATH` of files that name no path of software that is there. What a server does not tell in time: `CHECK.unread`, the folders that do not list their
# files, `CHECK.names_only`, those whose files take too long to read, and `CHECK.not_named`, those whose paths do.
: "${room?}"
folder_names() { # FOLDER: which paths its files name
  (cd "$1" && find -L . -type f -printf '%P\n' 2>/dev/null | LC_ALL=C sort | head -n 2000 | tr '\n' '\0' |
    xargs -0 -r grep -o -s -H -E '["{[:space:]]/[A-Za-z0-9_./+-]+' | sed 's/:["{[:space:]]/ /' | LC_ALL=C sort -u | head -n 4000) | named_paths
}

folder_content() {
  # shellcheck disable=SC2016 # the inner shell's
  with_limit "${content_seconds?}" "$room/content.all" /bin/sh -c '
    cd "$1" && find -L . -type f -printf "%p %s\n" 2>/dev/null | LC_ALL=C sort
    find -L . \( -type d ! \( -readable -executable \) -o -type f ! -readable \) -printf "%P\n" 2>/dev/null | LC_ALL=C sort | head -n 50 >"$2"
  ' sh "$3" "$room/content.closed"
  if [ $? = 124 ]; then
    printf '%s\n' "$3" | lines "$1.unread"
    return 124
  fi
  lines "$1.closed.$2" <"$room/content.closed"
  # shellcheck disable=SC2016
  with_limit "$((2 * content_seconds))" "$room/content" /bin/sh -c '
    cd "$1" && sed "s/ [0-9]*$//" "$3" | head -n "$2" | tr "\n" "\0" | xargs -0 -r -n 100 sha256sum
  ' sh "$3" "${content_most?}" "$room/content.all"
  if [ $? = 124 ]; then
    printf '%s\n' "$3" | lines "$1.names_only"
    return
  fi
  put "$1.sum.$2" "$(cat "$room/content" "$room/content.all" | sum) $3"
  if [ "$(wc -l <"$room/content")" -gt 300 ]; then
    rm -rf "$room/content.of"
    mkdir "$room/content.of"
    # The lines of a folder follow each other.
    awk -v there="$room/content.of/" '
      { path = substr($0, 69); slash = index(path, "/"); of = slash ? substr(path, 1, slash - 1) : path }
      of != last { if (last != "") close(there last); last = of }
      { print >(there of) }
    ' "$room/content"
    (cd "$room/content.of" && find . -type f -printf '%P\0' | LC_ALL=C sort -z | head -z -n 1000 | xargs -0 -r -n 100 sha256sum -- | sed 's|$|/…|') >"$room/content.sums"
    sed 's|^\([0-9a-f]*  \)|\1./|' "$room/content.sums" | cut -c1-16,65- | lines "$1.files.$2"
  else
    cut -c1-16,65- "$room/content" | lines "$1.files.$2"
  fi
  : >"$room/content.there"
  # shellcheck disable=SC2034 # of named_paths.sh
  named_there=$room/content.there
  if with_limit "$((2 * content_seconds))" "$room/content.absent" folder_names "$3"; then
    put "$1.named.$2" yes
    # Folders that a module opens are no software, and those of the system are everywhere.
    awk '
      { path = $NF == "closed" ? $(NF - 1) : $NF; file = substr($0, 1, index($0, " /") - 1) }
      path ~ /^\/(usr|etc|var|tmp|run|dev|proc|sys|home|root|s?bin|lib|lib64|scratch)(\/|$)/ || path !~ /^\/[^\/]+\/[^\/]/ { next }
      FILENAME == ARGV[1] || $NF == "closed" { if (path !~ /[mM]odul/) there[file] = 1; next }
      !(file in there) && !(file in told) { told[file] = 1; print }
    ' "$room/content.there" "$room/content.absent" | head -n 100 | lines "$1.dead.$2"
    head -n 100 "$room/content.absent" | lines "$1.absent.$2"
  else
    printf '%s\n' "$3" | lines "$1.not_named"
  fi
}
