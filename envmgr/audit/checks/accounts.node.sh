# shellcheck shell=sh
# The numbers of both users. A directory service that is gone makes `id` wait for long.
: "${build_user?}" "${user?}"

# shellcheck disable=SC2086 # where there is no build user, there is no word of it
for accounts_name in $(printf '%s\n' $build_user $user | LC_ALL=C sort -u); do
  with_limit 5 "$0.id" id "$accounts_name"
  case $? in
    0) put "accounts.$accounts_name" "$(sed 's/^uid=\([0-9]*\)[^ ]* gid=\([0-9]*\).*/uid \1, gid \2/' "$0.id")" ;;
    124) put "accounts.$accounts_name" hung ;;
    *) put "accounts.$accounts_name" "" ;;
  esac
done
