# shellcheck shell=sh
# Whom sshd lets in, by its own account of its settings (only root can ask for it), and where these stand; what users' ssh reads of
# the other nodes. `ssh_peers` are the names of the asked nodes.
: "${user?}" "${ssh_peers?}"

ssh_daemon=$(command -v sshd || echo /usr/sbin/sshd)
if [ "$(id -u)" = 0 ] && [ -x "$ssh_daemon" ] && [ -n "$user" ]; then
  ssh_from=${SSH_CONNECTION:-127.0.0.1 0}
  if with_limit 5 "$0.sshd" "$ssh_daemon" -T -C "user=$user,host=${ssh_from%% *},addr=${ssh_from%% *}"; then
    grep -i -E '^(allowusers|allowgroups|denyusers|denygroups|permituserenvironment|acceptenv|setenv|usepam|maxsessions|pubkeyauthentication|hostbasedauthentication|gssapiauthentication|kbdinteractiveauthentication|passwordauthentication|authenticationmethods|authorizedkeysfile|authorizedkeyscommand|forcecommand|chrootdirectory|permittty|strictmodes) ' "$0.sshd" |
      LC_ALL=C sort | lines ssh.sshd
    # The lines that set what decides who comes in.
    grep -n -i -E '^[[:space:]]*(AllowUsers|AllowGroups|DenyUsers|DenyGroups)[[:space:]=]' /etc/ssh/sshd_config /etc/ssh/sshd_config.d/*.conf 2>/dev/null |
      sed -E 's/^([^:]+:[0-9]+):[[:space:]]*([A-Za-z]+).*/\2 \1/' | lines ssh.places
    with_limit 5 "$0.groups" id -Gn "$user" && put ssh.groups "$(cat "$0.groups")"
  fi
fi

# Without comments; sorted, as the order does not matter.
ssh_known=
for ssh_file in /etc/ssh/ssh_known_hosts /etc/ssh/ssh_known_hosts2; do
  if [ -r "$ssh_file" ]; then ssh_known="$ssh_known $ssh_file"; fi
done
if [ -n "$ssh_known" ]; then
  # shellcheck disable=SC2086 # files
  grep -h -v -E '^[[:space:]]*(#|$)' $ssh_known | LC_ALL=C sort -u >"$0.known"
  put ssh.known "$(sum <"$0.known")"
  put ssh.known_file "${ssh_known# }"
  # Names that no line is of, where that can be seen: not with hashed names and patterns.
  if ! grep -q -E '^(\||@cert-authority|[^ ]*[*?])' "$0.known"; then
    printf '%s\n' "$ssh_peers" | awk '
      NR == FNR { count = split(tolower($1), name, ","); for (i = 1; i <= count; i++) has[name[i]] = 1; next }
      !(tolower($1) in has) && ++shown <= 64 { print $1 }' "$0.known" - | tr '\n' ' ' >"$0.lacks"
    read -r ssh_lacks <"$0.lacks"
    put ssh.lacks "$ssh_lacks"
  fi
else
  put ssh.known none
fi
for ssh_file in /etc/ssh/ssh_config /etc/ssh/ssh_config.d/*.conf; do
  [ ! -r "$ssh_file" ] || printf '%s %s\n' "$ssh_file" "$(sed -e 's/^[[:space:]]*#.*//' -e 's/[[:space:]]*$//' "$ssh_file" | grep . | sum | cut -c1-12)"
done | lines ssh.config
