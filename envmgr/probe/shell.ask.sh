# The gate first; what may touch the prefix only once it has answered. start_rest and tell_all are made for the plan.
: "${tmp?}" "${limit?}" "${gate_seconds?}" "${jobs?}"
start gate /bin/sh "$tmp/gate.sh"
join "$gate_seconds" gate
if [ -s "$tmp/gate.rc" ]; then tell "" gate; else put gate hung; fi
ENVMGR_REAL=$(sed -n "s/^@real=//p" "$tmp/gate.out") start node /bin/sh "$tmp/node.sh"
if grep -q "^@gate=ok" "$tmp/gate.out"; then start_rest; else jobs=; fi
# shellcheck disable=SC2086 # names of jobs
join "$limit" node $jobs
tell '' node
[ -z "$jobs" ] || tell_all
