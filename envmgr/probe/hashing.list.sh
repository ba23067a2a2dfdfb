# $1: a folder or a file, which is printed first. Prints a record for each path below it, sorted as bytes, with NUL for its end:
# `TYPE MODE PATH`, `l PATH TARGET` of a link, `m MODE PATH` and `f SHA256  PATH` of a file. Only regular files are opened. `! PATH` is a
# file or folder that cannot be read, which is not the same as one that is not there; it comes first. `!! .`: a program was killed, and the records are not all.
export LC_ALL=C
hash='sha256sum -z -- "$@" || { [ $? = 1 ] || printf "!! .\0"; for path; do cat <"$path" >/dev/null || printf "! %s\0" "$path"; done; }'
told() { find "$@" || [ $? = 1 ] || printf '!! .\0'; }
{
  if [ -f "$1" ] && [ ! -L "$1" ]; then
    find "$1" -maxdepth 0 -printf 'm %m .\0'
    if sum=$(sha256sum <"$1"); then printf 'f %s  .\0' "${sum%% *}"; elif [ $? = 1 ]; then printf '! .\0'; else printf '!! .\0'; fi
  else
    find "$1" -maxdepth 0 -printf '%y %m .\0' || printf '!! .\0'
    if [ ! -L "$1" ] && cd "$1"; then
      told . -type d ! \( -readable -executable \) -printf '! %P\0' | sed -z 's/^! $/! ./'
      find . -mindepth 1 ! -type f ! -type l -printf '%y %m %P\0' || { [ $? = 1 ] || printf '!! .\0'; printf '! .\0'; }
      told . -mindepth 1 -type l -printf 'l %P %l\0'
      told . -mindepth 1 -type f -printf 'm %m %P\0'
      find . -mindepth 1 -type f -printf '%P\0' | { xargs -0 -r /bin/sh -c "$hash" sh || [ $? = 123 ] || printf '!! .\0'; } | sed -z 's/^\([0-9a-f]\{64\} \)/f \1/'
    elif [ -d "$1" ] && [ ! -L "$1" ]; then
      printf '! .\0'
    fi
  fi
} 2>/dev/null | sort -zu || printf '!! .\0'
