# Behind a user's start-up files: what this shell runs goes into no history of theirs, and no trap of theirs runs at its end. They may have
# switched the history on in any bash (`set -o history`), may have put lines into it (`history -s`), and may have made HISTFILE readonly.

if [ -n "${BASH_VERSION-}" ]; then
  # shellcheck disable=SC3040 # bash's
  set +o history
  history -c
fi
command unset HISTFILE 2>/dev/null
trap - EXIT
