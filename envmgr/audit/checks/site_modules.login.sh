# shellcheck shell=sh
# Modules of others, a sample: each loaded by itself in a clean environment, and what programs that it brings lack. Behind effect.sh.
: "${prefix?}" "${room?}" "${site_modules_most?}" "${site_modules_draw?}"

if [ -n "${LMOD_CMD-}" ]; then
  # shellcheck disable=SC2034 # effect.sh writes there
  scratch=$room/scratch
  site_modules_path=$(printf '%s\n' "${MODULEPATH-}" | tr : '\n' | grep '^/' | grep -v -F -e "$prefix/" | tr '\n' ':')
  yes "$site_modules_draw" | head -c 65536 >"$room/draw"
  # Without Lmod's own two, which users do not load.
  with_limit 10 "$room/site" env LMOD_RC="${LMOD_RC-}" MODULEPATH="${site_modules_path%:}" "$LMOD_CMD" bash --no_redirect --terse avail
  sed 's/([A-Z:a-z]*)$//' "$room/site.err" | grep -x -E '[A-Za-z0-9_+.-][A-Za-z0-9_+./-]*[A-Za-z0-9_+.-]' |
    grep -v -E '(^|/)(lmod|settarg)(/|$)' | LC_ALL=C sort -u >"$room/names"
  shuf -n "$site_modules_most" --random-source="$room/draw" "$room/names" | LC_ALL=C sort |
    while read -r site_modules_name; do
      if with_limit 10 "$room/after" effect "$LMOD_CMD" "${site_modules_path%:}" "${LMOD_RC-}" "$site_modules_name"; then
        put "site_modules.loads.$site_modules_name" yes
        sed -n 's/^PATH=//p' "$room/after" | tr : '\n' | grep '^/' | grep -v -x -E '(/usr(/local)?)?/s?bin' >"$room/folders"
        # Its own of what entries bring, too: whichever is loaded last comes first.
        for site_modules_program in python python3 pip conda mpirun mpiexec nvcc; do
          while read -r site_modules_folder; do
            [ ! -x "$site_modules_folder/$site_modules_program" ] || printf '%s/%s\n' "$site_modules_folder" "$site_modules_program"
          done <"$room/folders"
        done | head -n 3 | lines "site_modules.brings.$site_modules_name"
        site_modules_libraries=$(sed -n 's/^LD_LIBRARY_PATH=//p' "$room/after")
        head -n 4 "$room/folders" |
          while read -r site_modules_folder; do
            find -L "$site_modules_folder" -maxdepth 1 -type f -perm -100 2>/dev/null | LC_ALL=C sort | head -n 4
          done | while read -r site_modules_program; do
            with_limit 5 "$room/ldd" env LD_LIBRARY_PATH="$site_modules_libraries" ldd "$site_modules_program" || continue
            sed -n "s|^[[:space:]]*\([^ ]*\) => not found.*|\1 $site_modules_program|p" "$room/ldd"
          done | lines "site_modules.lacks.$site_modules_name"
      else
        if [ "$?" = 124 ]; then
          put "site_modules.failed.$site_modules_name" "no end in 10 s"
          break
        fi
        # In this very shell, with what its start-up files have set.
        if with_limit 10 "$room/again" env MODULEPATH="${site_modules_path%:}" LMOD_RC="${LMOD_RC-}" "$LMOD_CMD" sh load "$site_modules_name" &&
          ! grep -q -x 'false' "$room/again"; then
          put "site_modules.here.$site_modules_name" loads
        fi
        { grep -h . "$room/after.err" || echo "no words"; } | head -n 6 | lines "site_modules.failed.$site_modules_name"
      fi
    done
fi
