# A job that builds one item. -I: nothing of the user's own Python settings. The program is looked for first: else sh says only
# `not found`.
: "${python?}" "${request?}"

[ -x "$python" ] || {
  echo "$(uname -n) has no $python: envmgr must lie where nodes see it, under the same path" >&2
  exit 127
}
exec "$python" -I -u -m envmgr _build-item "$request"
