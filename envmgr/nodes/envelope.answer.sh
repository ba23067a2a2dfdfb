# Runs `envmgr_script` and prints its stdout, `envmgr_limit` bytes and one at most, between two marker lines. The shells around
# the script live on when the group gets a signal to end, until the script has ended: it may have a trap for that. Our own commands are
# found whatever PATH the account has; `command` passes by functions of their names. Descriptors: 3 is the way of the script's
# status, 4 is our stdout. The script finds no variable of ours.
: "${envmgr_nonce?}" "${envmgr_limit?}" "${envmgr_script?}"

exec 4>&1
printf '\n--envmgr:%s:begin--\n' "$envmgr_nonce"
envmgr_status=$(
  trap : TERM
  {
    {
      trap : TERM
      (
        set --
        eval "unset envmgr_status envmgr_nonce envmgr_limit envmgr_script envmgr_seconds
$envmgr_script"
      ) </dev/null 3>&- 4>&-
      printf %s "$?" >&3
    } 4>&- | { PATH=/usr/bin:/bin command head -c "$((envmgr_limit + 1))" 3>&- >&4 || printf ' head' >&3; }
  } 3>&1
)
exec 4>&-
printf '\n--envmgr:%s:end:%s:%s--\n' "$envmgr_nonce" "$envmgr_status" "$envmgr_limit"
