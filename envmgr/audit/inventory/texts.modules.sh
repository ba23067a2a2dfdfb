# Modulefiles that other tools made: in the folders of this user's MODULEPATH and in those that modules open, but for the prefix's, the content of each file, what
# the user cannot read, and the paths of software that they name and that are not there. Behind opened.sh, named_paths.sh. What a server does not tell in time is closed.
: "${prefix?}" "${room?}" "${modules_most?}" "${modules_seconds?}"
modules_modfile() { # FOLDER
  cd "$1" || return
  find -L . \( -type d ! \( -readable -executable \) -o -type f ! -readable \) -printf "modfile\t$1/%P\tclosed\n" 2>/dev/null | head -n 50
  find -L . -type f -readable -printf '%P\0' 2>/dev/null | LC_ALL=C sort -z | head -z -n "$modules_most" | xargs -0 -r -n 200 sha256sum -- >"$room/modules.sums"
  if [ "$(wc -l <"$room/modules.sums")" -gt 300 ]; then # a line for each folder in it
    rm -rf "$room/modules.of" && mkdir "$room/modules.of" || return
    awk -v there="$room/modules.of/" '
      { path = substr($0, 67); slash = index(path, "/"); of = slash ? substr(path, 1, slash - 1) : path }
      of != last { if (last != "") close(there last); last = of }
      { print >(there of) }' "$room/modules.sums"
    (cd "$room/modules.of" && find . -type f -printf '%P\0' | LC_ALL=C sort -z | xargs -0 -r -n 200 sha256sum --) >"$room/modules.sums"
  fi
  awk -v folder="$1" '{ printf "modfile\t%s/%s\t%s\n", folder, substr($0, 67), substr($0, 1, 12) }' "$room/modules.sums"
}
modules_modpath() { # FOLDER: what they name, but for the system's own
  named_there=$room/modules.there
  : >"$named_there"
  (cd "$1" && find -L . -type f -printf '%P\n' 2>/dev/null | LC_ALL=C sort | head -n 2000 | tr '\n' '\0' |
    xargs -0 -r grep -o -s -H -E '["{[:space:]]/[A-Za-z0-9_./+-]+' | sed 's/:["{[:space:]]/ /' | LC_ALL=C sort -u | head -n 4000) |
    named_paths >"$room/modules.absent"
  # Folders that a module opens are no software, and those of the system are everywhere.
  awk -v folder="$1" -v there="$named_there" '
    function is_software(path) { return path ~ /^\/[^\/]+\/[^\/]/ && path !~ /^\/(usr|etc|var|tmp|run|dev|proc|sys|home|root|s?bin|lib|lib64|scratch)(\/|$)/ }
    { closed = $NF == "closed"; path = closed ? $(NF - 1) : $NF; file = substr($0, 1, index($0, " /") - 1) }
    FILENAME == there { if (is_software(path) && path !~ /[mM]odul/) has[file] = 1; next }
    !told[path]++ { printf "modpath\t%s\t%s: %s/%s names it%s\n", path, closed ? "closed" : "not there", folder, file, closed || has[file] || !is_software(path) ? "" : ", and no software that is there" }
  ' "$named_there" "$room/modules.absent" | head -n 100
}
modules_look() {
  [ -z "${module_cmd?}" ] || effect_mark=$room opened_folders
  { printf '%s\n' "${MODULEPATH-}" | tr : '\n' && cut -d'|' -f1 "$room/opened" 2>/dev/null; } | sed 's|//*$||' | grep '^/' | grep -v -F -e "$prefix/" | sort -u >"$room/modules.folders"
  for modules_kind in modfile modpath; do
    modules_looked=yes && sed 's/.*/modfile	&\/	looked at/' "$room/modules.folders"
    while IFS= read -r modules_folder; do
      [ -d "$modules_folder" ] || continue
      with_limit "$modules_seconds" "$room/modules" "modules_$modules_kind" "$modules_folder"
      if [ "$?" = 124 ]; then modules_looked=; else cat "$room/modules"; fi
    done <"$room/modules.folders"
    [ -z "$modules_looked" ] || printf 'looked\t%s\n' "$modules_kind"
  done
}
modules_look | inventory_tell modfile modpath
