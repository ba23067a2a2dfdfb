# shellcheck shell=sh
# The owner of the prefix.
: "${build_user?}" "${prefix?}"

if [ -n "$build_user" ] && accounts_owner=$(stat -c '%u %U' "$prefix" 2>/dev/null); then
  put accounts.owner "$accounts_owner"
fi
