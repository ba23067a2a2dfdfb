# shellcheck shell=sh
# peers_of FILE: what the names in FILE, one a line, are on this host: lines `NAME ADDRESS,…`, with `-` for none. One getent asks for
# all. What it prints has no word of the name that was asked for: an entry that is called otherwise (a CNAME) is asked for by itself,
# up to sixteen of them.
peers_of() {
  # shellcheck disable=SC2046 # names
  getent hosts $(cat "$1") | LC_ALL=C sort -u >"$1.found"
  awk '
    function add(name) { if (index("," has[name] ",", "," $1 ",") == 0) has[name] = has[name] (has[name] == "" ? "" : ",") $1 }
    NR == FNR { order[++count] = $1; wanted[tolower($1)] = 1; next }
    {
      for (i = 2; i <= NF; i++) {
        name = tolower($i)
        if (!(name in wanted)) sub(/\..*/, "", name)
        if (name in wanted) add(name)
      }
    }
    END { for (i = 1; i <= count; i++) { name = tolower(order[i]); print order[i], has[name] == "" ? "-" : has[name] } }
  ' "$1" "$1.found" >"$1.known"
  peers_asked=0
  while read -r peers_name peers_has; do
    if [ "$peers_has" = - ] && [ "$peers_asked" -lt 16 ]; then
      peers_asked=$((peers_asked + 1))
      peers_has=$(getent hosts "$peers_name" | cut -d' ' -f1 | LC_ALL=C sort -u | tr '\n' ',')
      peers_has=${peers_has%,}
    fi
    printf '%s %s\n' "$peers_name" "${peers_has:--}"
  done <"$1.known"
}
