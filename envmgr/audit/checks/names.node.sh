# shellcheck shell=sh
# What the node's own name is to itself, by which line of /etc/hosts, and whom it asks for names. A resolver that is gone makes
# getent wait. What the names of the other nodes are here (`names_peers` has what they are on the host that audits).
: "${names_peers?}"

with_limit 5 "$0.names" getent ahosts "$(uname -n)"
names_status=$?
names_all=$(cut -d' ' -f1 "$0.names" | LC_ALL=C sort -u)
names_loop=$(printf '%s\n' "$names_all" | grep -E '^(127\.|::1$)')
names_bad=$names_loop
case $names_status in
  0)
    names_here=$(hostname -I 2>/dev/null | tr ' ' '\n')
    if [ -z "$names_loop" ] && [ -n "$names_here" ] && ! printf '%s\n' "$names_all" | grep -q -i -E '^fe80:' \
      && ! printf '%s\n' "$names_all" | grep -q -x -F "$names_here"; then
      names_bad=$names_all
      put names.foreign "$(printf '%s\n' "$names_bad" | tr '\n' ' ' | sed 's/ $//')"
    fi
    put names.own "$(printf '%s\n' "$names_loop" | tr '\n' ' ' | sed 's/ $//')"
    ;;
  124) put names.hung yes ;;
  *) put names.own nothing ;;
esac
if [ "$names_status" = 0 ] && [ -n "$names_bad" ]; then
  # bad LINE [shared]: those of /etc/hosts that give the node's name such an address, `shared` with other names; other: those that give it another
  awk -v name="$(uname -n)" -v bad="$names_bad" '
    function label(name) { sub(/[.].*/, "", name); return tolower(name) }
    BEGIN { count = split(bad, list, "\n"); for (i = 1; i <= count; i++) is_bad[list[i]] = 1 }
    {
      sub(/#.*/, "")
      named = 0
      others = ""
      for (i = 2; i <= NF; i++) {
        if (tolower($i) == tolower(name)) named = 1
        if (label($i) != label(name)) others = " shared"
      }
    }
    named && $1 in is_bad { print "bad " NR others }
    named && !($1 in is_bad) { print "other " NR }' /etc/hosts >"$0.hosts" 2>/dev/null
  names_line=$(sed -n 's/^bad //p' "$0.hosts" | head -n 1)
  [ -z "$names_line" ] || put names.line "/etc/hosts:${names_line% shared}"
  case $names_line in *shared) put names.shared yes ;; esac
  if grep -q '^other ' "$0.hosts"; then put names.other yes; fi
  if grep -q manage_etc_hosts /etc/hosts 2>/dev/null; then put names.writer cloud-init; fi
fi
if [ -r /sys/class/net/lo/flags ] && read -r names_flags </sys/class/net/lo/flags && [ $((names_flags & 1)) = 0 ]; then
  put names.loopback down
fi
grep -s -E '^[[:space:]]*(nameserver|search|domain|options)[[:space:]]' /etc/resolv.conf | tr -s ' \t' ' ' | sed 's/ $//' | lines names.resolver
grep -s -E '^[a-z_]+:' /etc/nsswitch.conf | tr -s ' \t' ' ' | LC_ALL=C sort | lines names.switch
if [ -n "$names_peers" ] && [ "$names_status" != 124 ]; then
  # Without its own name, which is looked at above.
  printf '%s\n' "$names_peers" | awk -v own="$(uname -n)" '
    BEGIN { own = tolower(own); sub(/\..*/, "", own) }
    { short = tolower($1); sub(/\..*/, "", short); if (short != own) print }' >"$0.there"
  cut -d' ' -f1 "$0.there" >"$0.peers"
  if [ ! -s "$0.peers" ]; then
    : # no other node is asked
  elif with_limit 10 "$0.here" peers_of "$0.peers"; then
    awk -v hosts=/etc/hosts '
      function label(name) { sub(/[.].*/, "", name); return tolower(name) }
      BEGIN {
        while ((getline line <hosts) > 0) {
          number++
          sub(/#.*/, "", line)
          fields = split(line, field)
          shared = ""
          for (i = 3; i <= fields; i++) if (label(field[i]) != label(field[2])) shared = " shared"
          for (i = 2; i <= fields; i++) if (!((tolower(field[i]), field[1]) in place)) place[tolower(field[i]), field[1]] = hosts ":" number shared
        }
      }
      NR == FNR { there[$1] = $2; next }
      there[$1] != $2 {
        line = ""
        for (i = split($2, address, ","); i > 0; i--)
          if (index("," there[$1] ",", "," address[i] ",") == 0 && (tolower($1), address[i]) in place) line = place[tolower($1), address[i]]
        print $1, $2, line
      }' "$0.there" "$0.here" | lines names.peers
  else
    put names.peers_hung yes
  fi
fi
