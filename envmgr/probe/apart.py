"""A command of a probe that may hang for good (a sick driver, a directory service that is gone), with a limit of its own."""

from __future__ import annotations

# apart SECONDS FILE COMMAND…: its stdout in FILE, its stderr in FILE.err; its status, or 124 when it was left behind. What
# hangs in the kernel cannot be killed, and `timeout` and `wait` hang with it. FILE is made from "$0", the probe's own file.
APART = r"""
apart() {
  apart_left=$(($1 * 50))
  apart_file=$2
  shift 2
  rm -f "$apart_file.rc"
  (
    ("$@") >"$apart_file" 2>"$apart_file.err"
    echo $? >"$apart_file.rc~"
    mv "$apart_file.rc~" "$apart_file.rc"
  ) </dev/null >/dev/null 2>&1 &
  apart_child=$!
  while [ ! -e "$apart_file.rc" ]; do
    if [ "$apart_left" -le 0 ]; then
      kill "$apart_child" 2>/dev/null
      return 124
    fi
    sleep 0.02
    apart_left=$((apart_left - 1))
  done
  read -r apart_status <"$apart_file.rc"
  return "$apart_status"
}
"""
