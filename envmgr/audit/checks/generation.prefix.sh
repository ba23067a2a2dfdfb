# shellcheck shell=sh
# The record that this node sees.
: "${prefix?}"

put generation.record "$(sum <"$prefix/current/generation.json" 2>/dev/null)"
