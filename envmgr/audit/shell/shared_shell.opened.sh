# shellcheck shell=sh
# opened_folders: "$room/opened", lines `FOLDER|NAME NAME…` for each folder that modules put into MODULEPATH when they are loaded in this
# order (a hierarchy: a compiler opens the folder of its MPIs), and "$room/openers", lines `NAME NAME…|FOLDER:FOLDER…` for each that
# was asked; "$room/opened.cut" is there where not all were. Three levels, and 24 modules in the given seconds: those whose file names MODULEPATH.
# Behind module_tool.sh and effect.sh.
# choose MOST: of the lines of stdin, those that `draw` gives, the same on every node that has them.
: "${prefix?}" "${room?}" "${opened_draw?}" "${opened_seconds?}"

choose() {
  LC_ALL=C awk -v draw="$opened_draw" '
    BEGIN { for (n = 1; n < 256; n++) ord[sprintf("%c", n)] = n }
    {
      sum = draw % 65521
      for (n = 1; n <= length($0); n++) sum = (sum * 31 + ord[substr($0, n, 1)]) % 2147483647
      printf "%010d %s\n", (sum * 48271) % 2147483647, $0
    }
  ' | LC_ALL=C sort | head -n "$1" | cut -d' ' -f2- | LC_ALL=C sort
}

# opened_names FOLDER: the names of all modules in it, as they are loaded.
opened_names() {
  # shellcheck disable=SC2016 # the inner shell's
  with_limit 5 "$room/opened.files" /bin/sh -c 'cd "$1" && find -L . -type f ! -name ".*" ! -path "*/.*/*" -printf "%P\n" 2>/dev/null' sh "$1"
  sed 's/\.lua$//' "$room/opened.files" | grep -x -E '[A-Za-z0-9_+.@:,~%-][A-Za-z0-9_+./@:,~%-]*' | LC_ALL=C sort -u
}

opened_folders() {
  if [ -e "$room/opened" ]; then return; fi
  : >"$room/opened"
  : >"$room/openers"
  opened_end=$(($(date +%s) + opened_seconds))
  opened_path=$(printf '%s\n' "${MODULEPATH-}" | tr : '\n' | sed 's|//*$||' | grep '^/' | grep -v -F -e "$prefix/" | tr '\n' ':')
  printf '%s' "$opened_path" | tr : '\n' | sed 's/$/|/' >"$room/opened.look"
  for _ in 1 2 3; do
    : >"$room/opened.asked"
    while IFS='|' read -r opened_folder opened_chain; do
      # shellcheck disable=SC2016 # the inner shell's
      with_limit 5 "$room/opened.found" /bin/sh -c '
        cd "$1" && find -L . -type f ! -name ".*" -printf "%P\0" 2>/dev/null |
          xargs -0 -r grep -l -s -E "MODULEPATH|^[[:space:]]*module[[:space:]]+use[[:space:]]"' sh "$opened_folder"
      sed 's/\.lua$//' "$room/opened.found" | grep -x -E '[A-Za-z0-9_+.@:,~%-][A-Za-z0-9_+./@:,~%-]*' | sed "s|^|${opened_chain:+$opened_chain }|" >>"$room/opened.asked"
    done <"$room/opened.look"
    grep -v -x -E '(null|use\.own)' "$room/opened.asked" | LC_ALL=C sort -u >"$room/opened.all"
    choose "$((24 - $(wc -l <"$room/openers")))" <"$room/opened.all" >"$room/opened.chosen"
    cmp -s "$room/opened.all" "$room/opened.chosen" || : >"$room/opened.cut"
    : >"$room/opened.look"
    while read -r opened_chain; do
      [ "$(date +%s)" -lt "$opened_end" ] || {
        : >"$room/opened.cut"
        break
      }
      # shellcheck disable=SC2034 # of effect.sh
      scratch=$room/opened.scratch effect_cached=${LMOD_CACHED_LOADS-} effect_mark=$room
      with_limit 10 "$room/opened.after" effect "${module_cmd?}" "${opened_path%:}" "${LMOD_RC-}" "$opened_chain" || {
        printf '%s|!\n' "$opened_chain" >>"$room/openers" # it cannot be loaded
        continue
      }
      tr '\0' '\n' <"$room/opened.scratch" | sed -n 's/^MODULEPATH=//p' | tr : '\n' | sed 's|//*$||' | grep '^/' >"$room/opened.now"
      printf '%s' "$opened_path" | tr : '\n' | grep -v -x -F -f - "$room/opened.now" >"$room/opened.new"
      printf '%s|%s\n' "$opened_chain" "$(tr '\n' ':' <"$room/opened.new")" >>"$room/openers"
      while read -r opened_folder; do
        cut -d'|' -f1 "$room/opened" | grep -q -x -F -e "$opened_folder" || printf '%s|%s\n' "$opened_folder" "$opened_chain" | tee -a "$room/opened" >>"$room/opened.look"
      done <"$room/opened.new"
    done <"$room/opened.chosen"
  done
  end_marked
}
