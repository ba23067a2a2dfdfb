# shellcheck shell=sh
# `pip` at a loaded module: it stands first in PATH, and keeps users from installing into what all share. What changes nothing, or
# goes to another place, is done by the module's own pip. In front are set `subject`, `lines` (the way out) and `folder` (of that pip).
: "${subject?}" "${lines?}" "${folder?}"

refuse() {
  printf 'error: %s\n\n%s\n' "$1" "$lines" >&2
  exit 1
}

command='' elsewhere=''
for word; do
  case $word in
  install | uninstall | cache | check | completion | config | debug | download | freeze | hash | help | index | inspect | list | lock | search | show | wheel)
    command=${command:-$word} ;;
  --python | --python=*)
    [ -n "$command" ] || elsewhere=yes ;; # another Python's
  -h | --help | --dry-run | -t | -t?* | --target | --target=* | --prefix | --prefix=* | --root | --root=*)
    elsewhere=yes ;;
  esac
done
case $command in
install | uninstall)
  [ -n "$elsewhere" ] || refuse "pip cannot $command packages in $subject: all users share it, and it never changes" ;;
esac
[ -n "$folder" ] && [ -x "$folder/pip" ] || refuse "$subject has no pip"
# What the module sets for `python -m pip` is not for this one.
[ -z "${ENVMGR_DEFAULT_PIP_REQUIRE_VIRTUALENV-}" ] || unset PIP_REQUIRE_VIRTUALENV
exec "$folder/pip" "$@"
