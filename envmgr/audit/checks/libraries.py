"""Shared libraries that an entry's programs and libraries need and the node does not have, by `ldd` on the node.

`audit.ldd` in site.yaml says how much is looked at: `sample` takes up to 24 files of `bin` and `lib` of each sampled entry
(`--modules` names them), `full` every program and library below it, `none` nothing. It runs as the ordinary user, never as
root, with nothing of a shell's environment. What comes with NVIDIA's driver (`libcuda.so.1` and its relatives) is not
missing on a node without driver; a library that the entry has itself, elsewhere in its tree, is not missing either: a
program of it loads that first. What other nodes have is an error; what no node has, a warning.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping

from envmgr.audit.checks._apart import APART
from envmgr.audit.checks._folding import joined, short
from envmgr.audit.checks._libraries import missing_libraries
from envmgr.audit.model import Evidence, Plan, Stage
from envmgr.audit.shell import GATE_SECONDS
from envmgr.finding import Finding
from envmgr.nodes import fold

_LINES = 40  # of an entry's missing libraries that are told
_SPARE = 3  # seconds that are left to the other checks of the stage

# $1: sample or full; then ENTRY ROOT pairs. Prints `entry library file`, and `entry` alone once an entry is done.
_LOOK = r"""
spread() {
  awk '{ line[NR] = $0 } END { n = NR < 12 ? NR : 12; for (i = 0; i < n; i++) print line[int(i * NR / n) + 1] }'
}
choose() {
  if [ "$how" = full ]; then
    find . -type f \( -perm -0100 -o -name "*.so" -o -name "*.so.*" \)
  else
    find bin -maxdepth 1 -type f -perm -0100 2>/dev/null | LC_ALL=C sort | spread
    find lib lib64 -maxdepth 1 -type f \( -name "*.so" -o -name "*.so.*" \) 2>/dev/null | LC_ALL=C sort | spread
  fi
}
how=$1
shift
while [ $# -gt 0 ]; do
  entry=$1
  cd "$2" 2>/dev/null || { shift 2; continue; }
  choose | sed "s|^[^.]|./&|" | tr "\n" "\0" | xargs -0 -r -n 500 ldd -- 2>/dev/null | awk -v one="$(choose | head -n 2)" '
    function told(library, file) { sub(/^\.\//, "", file); if (!((library, file) in seen)) { seen[library, file]; print library, file } }
    BEGIN { file = one }
    /^[^[:space:]].*:$/ { file = $0; sub(/:$/, "", file); next }
    / => not found/ { told($1, file) }
    /: version .* not found/ { match($0, /version .[^ ]+. not found/); split(substr($0, RSTART, RLENGTH), word, " "); gsub(/[^A-Za-z0-9_.]/, "", word[2]); told(word[2], file) }
  ' | LC_ALL=C sort >"$list"
  cut -d" " -f1 "$list" | uniq | while read -r library; do
    [ -z "$(find . -name "$library" 2>/dev/null | head -n 1)" ] || echo "$library"
  done >"$list.own"
  awk -v entry="$entry" 'FNR == NR && FILENAME == ARGV[1] { own[$1]; next } !($1 in own) { print entry, $0 }' "$list.own" "$list"
  echo "$entry"
  shift 2
done
"""
