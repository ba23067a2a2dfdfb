# Modules of other tools, a sample, with those of folders that modules open, as `COMPILER MODULE`: each loaded by itself in a clean environment,
# and what it brings. Behind opened.sh and named_paths.sh.
: "${prefix?}" "${room?}" "${site_modules_most?}" "${site_modules_seconds?}" "${site_modules_named?}"
# `- PATH` for what the variables name and is not there, `! PATH` for folders that the user cannot enter; and the programs of the first four
# folders of PATH, a line each.
site_modules_has() { # AFTER FOLDERS
  cut -d= -f2- "$1" | tr ':' '\n' | grep -x -E '/[A-Za-z0-9_.+-]+/[A-Za-z0-9_./+-]+' | LC_ALL=C sort -u | head -n 200 | sed 's/^/- /' |
    named_paths | sed 's/^- \(.*\) closed$/! \1/'
  head -n 4 "$2" | xargs -d '\n' -r -I '{}' find -L '{}' -maxdepth 1 -type f -executable 2>/dev/null | LC_ALL=C sort | head -n 2000
}
# What the module brings that is loaded in "$room/after", and whether it works. It touches the software, whose server may hang.
site_modules_look() {
  sed -n 's/^PATH=//p' "$room/after" | tr : '\n' | grep '^/' | grep -v -x -E '(/usr(/local)?)?/s?bin' >"$room/folders"
  # The first program of the folder that it puts first, with what it sets: whether it starts, whatever it says.
  site_modules_program=
  while [ -z "$site_modules_program" ] && read -r site_modules_folder; do
    site_modules_program=$(find -L "$site_modules_folder" -maxdepth 1 -type f -executable 2>/dev/null | LC_ALL=C sort | head -n 1)
  done <"$room/folders"
  site_modules_file=$([ -n "$site_modules_program" ] || xargs -d '\n' -r -I '{}' find -L '{}' -maxdepth 1 -type f <"$room/folders" 2>/dev/null | head -n 1)
  if [ -n "$site_modules_file" ]; then put "site_modules.starts.$site_modules_name" "126 $site_modules_file it cannot be executed"
  elif [ -z "$site_modules_program" ] && [ -s "$room/folders" ]; then put "site_modules.empty.$site_modules_name" yes; fi
  if [ -n "$site_modules_program" ] && now && [ "${now?}" -lt "$site_modules_end" ]; then
    with_limit 5 "$room/start" /bin/sh -c '
      cd "$1" && tr "\n" "\000" <"$2" |
        xargs -0 /bin/sh -c '\''env -i HOME="$PWD" USER=nobody ENVMGR_AUDIT="$PWD" "$@" "$0" --version >/dev/null; echo $?'\'' "$3"
    ' sh "$room" "$room/after" "$site_modules_program"
    site_modules_status=$(tail -n 1 "$room/start")
    end_marked # what it has started by itself
    put "site_modules.starts.$site_modules_name" "${site_modules_status:-124} $site_modules_program $(grep . "$room/start.err" | plain | head -n 1 | cut -c1-200)"
  fi
  if with_limit 5 "$room/has" site_modules_has "$room/after" "$room/folders"; then
    site_modules_count=$(wc -l <"$room/has")
    if [ "$site_modules_count" -le 60 ]; then lines "site_modules.has.$site_modules_name" <"$room/has"; else
      { grep '^[-!]' "$room/has" | head -n 20; echo "= $site_modules_count $(sum <"$room/has")"; } | lines "site_modules.has.$site_modules_name"
    fi
    put "site_modules.looked.$site_modules_name" yes
  fi
}
site_modules_list() { export MODULEPATH="${opened_path?}" && module_visible; }
if [ -n "${module_cmd?}" ]; then
  scratch=$room/scratch effect_cached=${LMOD_CACHED_LOADS-} effect_mark=$room
  now && site_modules_end=$((now + 10)) # for starting programs: some need seconds to tell their version
  opened_folders
  with_limit 10 "$room/site" site_modules_list
  [ $? != 124 ] || put site_modules.unlisted yes
  # Without those that come with Lmod and Environment Modules, which users do not load.
  sed 's/([A-Z:a-z]*)$//' "$room/site" | grep -v -e '^/.*:$' -e '/$' | grep -x -E '[A-Za-z0-9_+.@:,~%-][A-Za-z0-9_+./@:,~%-]*' |
    grep -v -E '(^|/)(lmod|settarg)(/|$)|^(dot|module-git|module-info|modules|null|use\.own)$' | LC_ALL=C sort -u >"$room/names"
  while IFS='|' read -r site_modules_folder site_modules_chain; do
    opened_names "$site_modules_folder" | head -n 2000 | sed "s|^|$site_modules_chain |"
  done <"$room/opened" >"$room/opened.modules"
  {
    [ -n "$site_modules_named" ] || cat "$room/names" "$room/opened.modules" | choose "$site_modules_most"
    for site_modules_name in $site_modules_named; do
      grep -x -F -e "$site_modules_name" "$room/names" || awk -v name="$site_modules_name" '$NF == name' "$room/opened.modules" | grep . ||
        echo "$site_modules_name"
    done
  } | LC_ALL=C sort -u >"$room/chosen"
  now && site_modules_hung=0 site_modules_until=$((now + site_modules_seconds))
  while read -r site_modules_name; do
    if now && [ "$now" -ge "$site_modules_until" ] || [ "$site_modules_hung" = 2 ]; then # what hangs now may hang for each
      put site_modules.cut yes
      break
    fi
    if with_limit 10 "$room/after" effect "$module_cmd" "$opened_path" "${LMOD_RC-}" "$site_modules_name"; then
      put "site_modules.loads.$site_modules_name" yes
      cut -c1-1000 "$room/after" | head -n 60 | lines "site_modules.sets.$site_modules_name"
      with_limit 20 "$room/look" site_modules_look
      [ $? != 124 ] || { put "site_modules.hung.$site_modules_name" yes && site_modules_hung=$((site_modules_hung + 1)); }
      cat "$room/look"
    elif [ $? = 124 ]; then
      end_marked
      put "site_modules.failed.$site_modules_name" "no end in 10 s"
      site_modules_hung=$((site_modules_hung + 1))
    else
      # In this very shell, with what its start-up files have set.
      # shellcheck disable=SC2086 # names
      if with_limit 10 "$room/again" env MODULEPATH="$opened_path" LMOD_RC="${LMOD_RC-}" "$module_cmd" sh load $site_modules_name &&
        ! grep -q -x 'false' "$room/again"; then
        put "site_modules.here.$site_modules_name" loads
      fi
      { plain <"$room/after.err" | grep . || echo "no words"; } | head -n 6 | lines "site_modules.failed.$site_modules_name"
    fi
  done <"$room/chosen"
  end_marked
fi
