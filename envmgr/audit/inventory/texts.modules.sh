# Modulefiles that other tools made: in the folders of this user's MODULEPATH and in those that modules open, but for the prefix's, the content of each file, what
# the user cannot read, and the paths of software that they name and that are not there. Behind opened.sh, named_paths.sh. What a server does not tell in time is closed.
: "${prefix?}" "${room?}" "${modules_most?}" "${modules_seconds?}"
modules_files() { # MOST FOLDER ...: the first files of each folder
  modules_first=$1 && shift
  find -L "$@" -type f -readable -printf '%H\t%P\n' 2>/dev/null | LC_ALL=C sort -u | awk -F '\t' -v most="$modules_first" '++count[$1] <= most { print $1 "/" $2 }'
}
modules_modfile() { # FOLDER ...
  find -L "$@" \( -type d ! \( -readable -executable \) -o -type f ! -readable \) -printf 'modfile\t%p\tclosed\n' 2>/dev/null | head -n 200
  mkdir -p "$room/modules.of"
  modules_files "$modules_most" "$@" | xargs -d '\n' -r -n 200 sha256sum -- | awk -v there="$room/modules.of/" '
    FILENAME ~ /folders$/ { folders[$0]; next }
    {
      row[++rows] = $0; path = substr($0, 67); of[rows] = ""
      for (each in folders) if (index(path, each "/") == 1 && length(each) > length(of[rows])) of[rows] = each
      count[of[rows]]++
    }
    END {
      for (i = 1; i <= rows; i++) {
        path = substr(row[i], 67)
        if (count[of[i]] <= 300) { printf "modfile\t%s\t%s\n", path, substr(row[i], 1, 12); continue }
        key = substr(path, length(of[i]) + 2); sub(/\/.*/, "", key); key = of[i] "/" key # a line for each folder in it
        if (key != last) { if (last != "") close(there numbers); print key >(there "names"); numbers++; last = key }
        print row[i] >(there numbers)
      }
    }' "$room/modules.folders" -
  [ ! -e "$room/modules.of/names" ] || (cd "$room/modules.of" && find . -name '[0-9]*' -printf '%P\0' | xargs -0 sha256sum -- | awk '
    FILENAME == "names" { name[FNR] = $0; next }
    { printf "modfile\t%s\t%s\n", name[$2], substr($1, 1, 12) }' names -)
}
modules_modpath() { # FOLDER ...: what they name, but for the system's own
  named_there=$room/modules.there && : >"$named_there"
  modules_files 2000 "$@" | xargs -d '\n' -r grep -o -s -H -E '["{[:space:]]/[A-Za-z0-9_./+-]+' | sed 's/:["{[:space:]]/ /' | LC_ALL=C sort -u | head -n 8000 |
    named_paths >"$room/modules.absent"
  # Folders that a module opens are no software, and those of the system are everywhere.
  awk -v there="$named_there" '
    function is_software(path) { return path ~ /^\/[^\/]+\/[^\/]/ && path !~ /^\/(usr|etc|var|tmp|run|dev|proc|sys|home|root|s?bin|lib|lib64|scratch)(\/|$)/ }
    { closed = $NF == "closed"; path = closed ? $(NF - 1) : $NF; file = substr($0, 1, index($0, " /") - 1) }
    FILENAME == there { if (is_software(path) && path !~ /[mM]odul/) has[file] = 1; next }
    !told[path]++ && ++lines <= 300 { printf "modpath\t%s\t%s: %s names it%s\n", path, closed ? "closed" : "not there", file, closed || has[file] || !is_software(path) ? "" : ", and no software that is there" }
  ' "$named_there" "$room/modules.absent"
}
modules_look() {
  opened_begin
  [ -z "${module_cmd?}" ] || effect_mark=$room opened_folders
  awk -F '|' -v prefix="$prefix/" '!index($1, prefix) { print $1 }' "$room/opened.path" "$room/opened" 2>/dev/null | sort -u >"$room/modules.folders"
  set --
  while IFS= read -r modules_folder; do
    printf 'modfile\t%s/\tlooked at\n' "$modules_folder"
    [ ! -d "$modules_folder" ] || set -- "$@" "$modules_folder"
  done <"$room/modules.folders"
  for modules_kind in modfile modpath; do
    if [ $# = 0 ] || with_limit "$modules_seconds" "$room/modules" "modules_$modules_kind" "$@" || [ $? != 124 ]; then printf 'looked\t%s\n' "$modules_kind"; fi
    [ $# = 0 ] || cat "$room/modules"
  done
}
modules_look | inventory_tell modfile modpath
