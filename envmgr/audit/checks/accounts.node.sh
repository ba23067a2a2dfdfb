# shellcheck shell=sh
# The numbers of both users, the ordinary user's shell and home, and whether users may log in. A directory service that is gone makes
# `id` wait for long.
: "${build_user?}" "${user?}"

# shellcheck disable=SC2086 # where there is no build user, there is no word of it
for accounts_name in $(printf '%s\n' $build_user $user | LC_ALL=C sort -u); do
  with_limit 5 "$0.id" id "$accounts_name"
  case $? in
    0)
      [ "$accounts_name" != "$user" ] || sed 's/.*groups=//' "$0.id" | tr , '\n' | sed -n 's/^\([0-9]*\)(\(.*\))$/\1 \2/p' | LC_ALL=C sort | lines accounts.gids
      put "accounts.$accounts_name" "$(sed 's/^uid=\([0-9]*\)[^ ]* gid=\([0-9]*\).*/uid \1, gid \2/' "$0.id")"
      # Whose its number is: the service may know it by another name, which is the one to compare.
      with_limit 5 "$0.name" getent passwd "$accounts_name"
      with_limit 5 "$0.number" getent passwd "$(sed 's/^uid=\([0-9]*\).*/\1/' "$0.id")"
      accounts_wins=$(cut -d: -f1 "$0.number")
      [ -z "$accounts_wins" ] || [ "$accounts_wins" = "$(cut -d: -f1 "$0.name")" ] || put "accounts.wins.$accounts_name" "$accounts_wins"
      ;;
    124) put "accounts.$accounts_name" hung ;;
    *) put "accounts.$accounts_name" "" ;;
  esac
done
if [ -n "$user" ]; then
  with_limit 5 "$0.getent" getent passwd "$user"
  accounts_line=$(head -n 1 "$0.getent")
  accounts_shell=${accounts_line##*:}
  if [ -n "$accounts_line" ]; then
    put accounts.shell "${accounts_shell:-/bin/sh}"
    put accounts.home "$(printf '%s\n' "$accounts_line" | cut -d: -f6)"
    [ -x "${accounts_shell:-/bin/sh}" ] || put accounts.no_shell "$accounts_shell"
  fi
fi
# Numbers that several lines of the file have: `NUMBER NAME:LINE…`.
awk -F: '$1 ~ /^[A-Za-z0-9_]/ && $3 ~ /^[0-9]+$/ { number[$3]++; of[$3] = of[$3] " " $1 ":" NR }
  END { for (each in number) if (number[each] > 1) print each of[each] }' /etc/passwd | LC_ALL=C sort | lines accounts.doubled
if with_limit 5 "$0.groups" id -Gn "$user"; then
  put accounts.groups "$(tr ' ' '\n' <"$0.groups" | LC_ALL=C sort | tr '\n' ' ' | sed 's/ $//')"
fi
for accounts_file in /etc/nologin /run/nologin /var/run/nologin; do
  if [ -e "$accounts_file" ]; then
    put accounts.nologin "$accounts_file"
    put accounts.nologin_says "$(head -n 1 "$accounts_file" 2>/dev/null | cut -c1-100)"
    break
  fi
done
