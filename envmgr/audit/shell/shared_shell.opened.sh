# opened_folders: "$room/opened", lines `FOLDER|NAME NAME…` for each folder that modules put into MODULEPATH when they are loaded in this order (a compiler
# opens the folder of its MPIs). Three levels, and 24 modules in the given seconds: those whose file names MODULEPATH. Behind module_tool.sh and effect.sh.
: "${prefix?}" "${room?}" "${opened_draw?}" "${opened_seconds?}"
choose() { # MOST: of the lines of stdin, the same on every node that has them
  printf '%s%099d' "$opened_draw" 0 >"$room/opened.draw"
  LC_ALL=C sort -R --random-source="$room/opened.draw" | head -n "$1" | LC_ALL=C sort
}
# The names of all modules in a folder, as they are loaded; or of those whose file has a line with that.
opened_names() { # FOLDER [REGEX]
  with_limit 5 "$room/opened.files" opened_files "$@"
  sed 's/^\.\///; s/\.lua$//' "$room/opened.files" | grep -x -E '[A-Za-z0-9_+.@:,~%-][A-Za-z0-9_+./@:,~%-]*' | LC_ALL=C sort -u
}
opened_files() {
  cd "$1" && find -L . -type f ! -name '.*' ! -path '*/.*/*' ${2:+-exec grep -l -s -E -e "$2" '{}' +} 2>/dev/null
}
# The folders of MODULEPATH, but for the prefix's: `opened_path`, and "$room/opened.path", a line each.
opened_begin() {
  awk -v path="${MODULEPATH-}" -v prefix="$prefix/" -v there="$room/opened." '
    BEGIN {
      printf "" >(there "path"); printf "" >(there "look"); count = split(path, each, ":")
      for (i = 1; i <= count; i++) {
        sub(/\/+$/, "", each[i])
        if (each[i] ~ /^\// && !index(each[i], prefix)) { print each[i] >(there "path"); print each[i] "|" >(there "look"); all = all ":" each[i] }
      }
      print substr(all, 2) >(there "whole")
    }'
  read -r opened_path <"$room/opened.whole"
}
opened_folders() {
  opened_begin
  if [ -e "$room/opened" ]; then return; fi
  : >"$room/opened"
  now && opened_end=$((${now?} + opened_seconds)) opened_left=24
  for _ in 1 2 3; do
    [ -s "$room/opened.look" ] || break
    while IFS='|' read -r opened_folder opened_chain; do
      opened_names "$opened_folder" 'MODULEPATH|^[[:space:]]*module[[:space:]]+use[[:space:]]' | sed "s|^|${opened_chain:+$opened_chain }|"
    done <"$room/opened.look" | grep -v -x -E '(null|use\.own)' | LC_ALL=C sort -u | choose "$opened_left" >"$room/opened.chosen"
    : >"$room/opened.look"
    while read -r opened_chain; do
      now && [ "$now" -lt "$opened_end" ] || break
      opened_left=$((opened_left - 1))
      scratch=$room/opened.scratch effect_cached=${LMOD_CACHED_LOADS-} effect_mark=$room
      with_limit 10 "$room/opened.after" effect "${module_cmd?}" "$opened_path" "${LMOD_RC-}" "$opened_chain" || continue # it cannot be loaded
      tr '\0' '\n' <"$room/opened.scratch" | sed -n 's/^MODULEPATH=//p' | tr : '\n' | sed 's|//*$||' | grep '^/' | grep -v -x -F -f "$room/opened.path" >"$room/opened.new"
      while read -r opened_folder; do
        cut -d'|' -f1 "$room/opened" | grep -q -x -F -e "$opened_folder" || printf '%s|%s\n' "$opened_folder" "$opened_chain" | tee -a "$room/opened" >>"$room/opened.look"
      done <"$room/opened.new"
    done <"$room/opened.chosen"
  done
  end_marked
}
