# The program behind `module`: Lmod's, or that of Environment Modules. It answers on stderr, and what is for eval on stdout.
module_cmd=${LMOD_CMD:-${MODULES_CMD-}}
# shellcheck disable=SC2069 # its stdout is for eval
module_ask() {
  if [ -n "${LMOD_CMD-}" ]; then
    LMOD_SHORT_TIME=86400 "$LMOD_CMD" bash --no_redirect "$@" 2>&1 >/dev/null # it writes no cache
  else
    "$MODULES_CMD" bash "$@" 2>&1 >/dev/null
  fi | plain
}
# `FOLDER:`, and the modules in it, a line each.
module_visible() { module_ask -t avail; }
