# shellcheck shell=sh
# What lies in the folders of MODULEPATH that are not the prefix's, by content, and which paths these files name that are not there.
# Behind folder_content.sh. A folder whose server hangs is left behind.
: "${prefix?}" "${room?}" "${content_seconds?}"

printf '%s\n' "${MODULEPATH-}" | tr : '\n' | sed 's|//*$||' | grep '^/' | grep -v -F -e "$prefix/" | sort -u |
  while read -r modulefiles_folder; do
    [ -d "$modulefiles_folder" ] || continue
    modulefiles_number=$((${modulefiles_number:-0} + 1))
    folder_content modulefiles "$modulefiles_number" "$modulefiles_folder" || continue
    # shellcheck disable=SC2016 # the inner shell's
    if with_limit "$((2 * content_seconds))" "$room/absent" /bin/sh -c '
        cd "$1" && find -L . -type f 2>/dev/null | LC_ALL=C sort | head -n 2000 | tr "\n" "\0" |
          xargs -0 -r grep -o -s -H -E "[\"{[:space:]]/[A-Za-z0-9_./+-]+" | sed "s/:[\"{[:space:]]/ /" | sort -u | head -n 4000 |
          while read -r file path; do
            if ! [ -e "$path" ]; then
              printf "%s %s\n" "${file#./}" "$path"
            elif [ -d "$path" ] && ! { [ -r "$path" ] && [ -x "$path" ]; }; then
              printf "%s %s closed\n" "${file#./}" "$path"
            fi
          done
      ' sh "$modulefiles_folder"; then
      put "modulefiles.named.$modulefiles_number" yes
      head -n 100 "$room/absent" | lines "modulefiles.absent.$modulefiles_number"
    fi
  done
