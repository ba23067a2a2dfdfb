# shellcheck shell=sh
# $1: a folder, which is told first. Prints a record for each path below it, sorted as bytes, with NUL for its end: `TYPE MODE PATH`,
# `l PATH TARGET` of a link, `m MODE PATH` and `f SHA256  PATH` of a file. Only regular files are opened.
LC_ALL=C
export LC_ALL
{
  find "$1" -maxdepth 0 -printf '%y %m .\0'
  if [ ! -L "$1" ] && cd "$1"; then
    find . -mindepth 1 ! -type f ! -type l -printf '%y %m %P\0'
    find . -mindepth 1 -type l -printf 'l %P %l\0'
    find . -mindepth 1 -type f -printf 'm %m %P\0'
    find . -mindepth 1 -type f -printf '%P\0' | xargs -0 -r sha256sum -z -- | sed -z 's/^/f /'
  fi
} 2>/dev/null | sort -z
