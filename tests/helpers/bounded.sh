# shellcheck shell=sh
# bounded MOST SECONDS FILE: runs each line of FILE, `LABEL COMMAND…`, as the first process of a pid namespace, so that nothing outlives it.
#
# Prints `LABEL STATUS OUTPUT`, parted by tabs. A command that starts more than MOST processes, or takes longer than SECONDS, ends the
# namespace with all that it started: `LABEL storm`, or `LABEL hung`.

newest() { sh -c 'echo $$'; } # pids of a namespace are given one after the other

while IFS= read -r line; do
  label=${line%% *}
  began=$(newest)
  rounds=0
  rm -f /run/bounded.*
  (sh -c "${line#* }" >/run/bounded.out 2>/run/bounded.err </dev/null; echo $? >/run/bounded.status) &
  until [ -s /run/bounded.status ]; do
    rounds=$((rounds + 1))
    if [ $(($(newest) - began - 3 * rounds)) -gt "$1" ]; then
      printf '%s\tstorm\t\n' "$label"
      exit 1
    elif [ $rounds -gt $(($2 * 50)) ]; then
      printf '%s\thung\t\n' "$label"
      exit 1
    fi
    sleep 0.02
  done
  printf '%s\t%s\t%s\n' "$label" "$(cat /run/bounded.status)" "$(tail -n 1 /run/bounded.out)"
  [ -z "${BOUNDED_ERR-}" ] || cat /run/bounded.err >&2
done <"$3"
