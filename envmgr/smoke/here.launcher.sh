# shellcheck shell=bash
# envmgr_needs_launcher MARK: the test is left, with the file MARK in its home, where nothing starts MPI programs.
envmgr_needs_launcher() {
  local launcher
  for launcher in mpiexec mpirun srun; do
    launcher=$(type -P "$launcher") && [ -x "$launcher" ] && return
  done
  : >"$HOME/$1"
  exit 1
}
