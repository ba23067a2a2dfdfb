# shellcheck shell=bash
# envmgr_needs_compiler MARK: the test is left, with the file MARK in its home, where there is no C++ compiler, the module's included.
envmgr_needs_compiler() {
  local compiler
  compiler=$(type -P g++) && [ -x "$compiler" ] && return
  : >"$HOME/$1"
  exit 1
}
