# shellcheck shell=sh
# The credential is the node's own; that there is none is compared. 3600 s is the longest life that munged gives.

if command -v munge >/dev/null; then
  with_limit 5 "$0.munge" munge -n -t 3600
  case $? in
    0)
      own munge.credential "$(cat "$0.munge")"
      if [ "$(id -u)" = 0 ] && [ -n "${user?}" ] && id -u "$user" >/dev/null 2>&1; then
        munge_mine() { as "$user" munge -n; }
        with_limit 5 "$0.mine" munge_mine || put munge.user_failed "$(plain <"$0.mine.err" | sed 's/^munge: //; s/^Error: //' | head -n 1 | cut -c1-200)"
      fi
      ;;
    124) put munge.failed "no answer in 5 s" ;;
    *) put munge.failed "$(plain <"$0.munge.err" | sed 's/^munge: //; s/^Error: //' | head -n 1 | cut -c1-200)" ;;
  esac
fi
