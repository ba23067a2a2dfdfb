# shellcheck shell=sh
# Where programs put what they need for a while, and the user's home: what of it this account cannot have.
: "${user?}"

if [ -n "${TMPDIR-}" ] && ! [ -w "$TMPDIR" ]; then
  put places.TMPDIR "$TMPDIR"
elif ! [ -w /tmp ]; then
  put places.tmp /tmp
fi
if [ -d /dev/shm ] && ! [ -w /dev/shm ]; then put places.shm /dev/shm; fi
case ${HOME-} in
  /nonexistent | / | '') ;; # an account that is none of a person
  *)
    if ! [ -d "$HOME" ]; then
      put places.home "is not there"
    elif ! [ -w "$HOME" ]; then
      put places.home "cannot be written"
    else
      for places_folder in "$HOME/.lmod.d" "$HOME/.config/lmod" "$HOME/.cache" "$HOME/.cache/lmod"; do
        if [ -d "$places_folder" ] && ! { [ -w "$places_folder" ] && [ -x "$places_folder" ]; }; then
          printf '%s %s\n' "$(stat -c %U "$places_folder")" "$places_folder"
        fi
      done | lines places.folders
    fi
    ;;
esac
