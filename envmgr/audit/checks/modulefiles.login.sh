# shellcheck shell=sh
# What lies in the folders of MODULEPATH that are not the prefix's, by content. A folder whose server hangs is left behind.
: "${prefix?}" "${room?}" "${modulefiles_seconds?}" "${modulefiles_most?}"

printf '%s\n' "${MODULEPATH-}" | tr : '\n' | sed 's|//*$||' | grep '^/' | grep -v -F -e "$prefix/" | sort -u |
  while read -r modulefiles_folder; do
    [ -d "$modulefiles_folder" ] || continue
    modulefiles_number=$((${modulefiles_number:-0} + 1))
    # shellcheck disable=SC2016 # the inner shell's
    with_limit "$modulefiles_seconds" "$room/modulefiles" /bin/sh -c '
      cd "$1" && find -L . -type f -printf "%p %s\n" 2>/dev/null | LC_ALL=C sort >"$3"
      sed "s/ [0-9]*$//" "$3" | head -n "$2" | tr "\n" "\0" | xargs -0 -r -n 100 sha256sum
    ' sh "$modulefiles_folder" "$modulefiles_most" "$room/modulefiles.all"
    if [ $? = 124 ]; then
      printf '%s\n' "$modulefiles_folder" | lines modulefiles.unread
    else
      printf '%s %s\n' "$(cat "$room/modulefiles" "$room/modulefiles.all" | sum)" "$modulefiles_folder" | lines "modulefiles.sum.$modulefiles_number"
      cut -c1-16,65- "$room/modulefiles" | head -n 300 | lines "modulefiles.files.$modulefiles_number"
      # shellcheck disable=SC2016 # the inner shell's
      if with_limit "$modulefiles_seconds" "$room/absent" /bin/sh -c '
        cd "$1" && find -L . -type f 2>/dev/null | LC_ALL=C sort | head -n 300 | tr "\n" "\0" |
          xargs -0 -r grep -o -s -H -E "[\"{[:space:]]/[A-Za-z0-9_./+-]+" | sed "s/:[\"{[:space:]]/ /" | sort -u | head -n 600 |
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
    fi
  done
