# Lines `ENTRY REASON` of entries whose own program says that this node lacks something: ENTRY PROGRAM pairs.
: "${runtimes_limit?}" "${room?}"
while [ $# -gt 0 ]; do
  timeout -k 1 "$runtimes_limit" "$2" </dev/null >"$room/lacks" 2>&1
  runtimes_status=$?
  if [ "$runtimes_status" -ne 0 ]; then
    echo "$1 $(plain <"$room/lacks" | grep . | head -n 1 | cut -c1-200 | sed "s|^envmgr: $1: ||" | grep . || echo "its check ends with status $runtimes_status")"
  fi
  shift 2
done | lines runtimes.lacks
