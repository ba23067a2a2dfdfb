"""Shared libraries that an entry's programs and libraries need and the node does not have, by `ldd` on the node.

`audit.ldd` in site.yaml says how much is looked at: `sample` takes up to 12 files of `bin` and `lib` of each sampled entry
(`--modules` names them), as far as time allows, `full` every program and library below it, `none` nothing. It runs as the ordinary user, never as
root, with nothing of a shell's environment. What comes with NVIDIA's driver (`libcuda.so.1` and its relatives) is not
missing on a node without driver; a library that the entry has itself, elsewhere in its tree, is not missing either: a
program of it loads that first. What other nodes have is an error; what no node has, a warning.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping

from envmgr.audit.folding import short
from envmgr.audit.missing import missing_libraries
from envmgr.audit.model import Evidence
from envmgr.finding import Finding
from envmgr.nodes import fold
from envmgr.probe.apart import APART
from envmgr.probe.model import ProbePlan, ProbeStage
from envmgr.probe.shell import GATE_SECONDS

_LINES = 40  # of an entry's missing libraries that are told

# $1: sample or full; $2: seconds it may take; then ENTRY ROOT pairs. It looks at the clock itself: nobody can end all of its
# processes without ending the probe. /bin/sh is there so that ldd says which file it speaks of also for a single one.
_LOOK = r"""
spread() {
  awk '{ line[NR] = $0 } END { n = NR < 6 ? NR : 6; for (i = 0; i < n; i++) print line[int(i * NR / n) + 1] }'
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
end=$(($(date +%s) + $2))
shift 2
while [ $# -gt 0 ] && [ "$(date +%s)" -lt "$end" ]; do
  if cd "$2" 2>/dev/null; then
    missing=$(choose | tr '\n' '\0' | xargs -0 -r -n 50 /bin/sh -c '
      [ "$(date +%s)" -lt "$0" ] || exit 255
      exec ldd /bin/sh "$@"' "$end" 2>&1 | awk '
      /^[^[:space:]].*:$/ { file = substr($0, 1, length($0) - 1); sub(/^\.\//, "", file); next }
      / => not found/ { print $1, file }
      match($0, /version .[A-Za-z0-9_.]+. not found/) {
        version = substr($0, RSTART + 9, RLENGTH - 20)
        print version, file
      }' | LC_ALL=C sort -u)
    within=
    others=$(printf '%s\n' "$missing" | cut -d' ' -f1 | uniq | grep -v -E '^(lib(cuda|nvcuvid|nvidia-)|$)')
    if [ -n "$others" ]; then # one walk for all of them, and none for what only the driver has
      within=$(find . -name '*.so*' | sed 's|.*/||' | grep -F -x -e "$others" | LC_ALL=C sort -u | tr '\n' ' ')
    fi
    printf '%s\n' "$missing" | awk -v key="@libraries.missing.$1" -v within=" $within" -v most=@MOST@ '
      NF && !index(within, " " $1 " ") && told++ < most { print key "|" $0 }'
    [ "$(date +%s)" -ge "$end" ] || echo "@libraries.looked.$1=yes"
  fi
  shift 2
done
[ "$(date +%s)" -lt "$end" ] || echo "@libraries.end=no end"
"""

_PREFIX = r"""
libraries_driver=no
if [ -e /sys/module/nvidia/version ] || [ -e /proc/driver/nvidia/version ]; then libraries_driver=yes; fi
put libraries.driver "$libraries_driver"
if libraries_uid=$(id -u "$user" 2>/dev/null) && [ "$libraries_uid" != 0 ] && command -v ldd >/dev/null; then
  apart @SECONDS@ "$0.ldd" as "$user" /bin/sh -c @LOOK@ sh @WORDS@
  [ $? != 124 ] || put libraries.end "no end"
  sed -n '/^@libraries\./p' "$0.ldd"
fi
"""


def probe(plan: ProbePlan) -> Mapping[ProbeStage, str]:
    how = plan.site.audit.ldd
    entries = [entry for entry in plan.samples if entry in plan.roots]
    if how == "none" or not entries:
        return {}
    words = shlex.join(
        [how, str(_seconds(plan) - 1), *(word for entry in entries for word in (entry, plan.roots[entry]))]
    )
    look = shlex.quote(_LOOK.replace("@MOST@", str(_LINES)))
    text = _PREFIX.replace("@SECONDS@", str(_seconds(plan))).replace("@WORDS@", words).replace("@LOOK@", look)
    return {"prefix": APART + text}


def _seconds(plan: ProbePlan) -> int:
    """Half of what all that reads the prefix may take: other checks have their turn after this one."""
    return max(2, (int(plan.site.transport.node_timeout * 0.8) - GATE_SECONDS) // 2)


def judge(evidence: Evidence) -> Iterator[Finding]:
    fleet = evidence.fleet.sound
    of_all = evidence.site.audit.ldd == "full"  # a sample is what fits into the time
    for nodes in fleet.by_value("libraries.end").values() if of_all else ():
        yield Finding(
            "libraries", "note", "ldd", f"not done in {_seconds(evidence.plan)} s", "every chosen file looked at",
            "a longer --node-timeout, fewer --modules, or `audit.ldd: sample`", fold(nodes),
        )  # fmt: skip
    for entry in evidence.plan.samples:
        looked = fleet.only(lambda facts, key=f"libraries.looked.{entry}": key in facts)  # type: ignore[misc]
        lacking: dict[str, list[str]] = {}
        needed_by: dict[str, str] = {}
        for group in looked.groups:
            for library, files in missing_libraries(entry, group.facts).items():
                lacking.setdefault(library, []).extend(group.nodes)
                needed_by.setdefault(library, files.split(" ", 1)[0])
        together: dict[tuple[str, ...], list[str]] = {}
        for library, without in lacking.items():
            together.setdefault(tuple(without), []).append(library)
        for lacking_nodes, libraries in together.items():
            others = [node for node in looked.nodes if node not in lacking_nodes]
            yield Finding(
                "libraries", "error" if others else "warning", entry, short(f"no {', '.join(libraries)}"),
                f"what {needed_by[libraries[0]]} needs{f', as on {fold(others)}' if others else ''}",
                f"`dnf provides '*/{libraries[0]}'` or `apt-file search {libraries[0]}` names the package to install", fold(lacking_nodes),
            )  # fmt: skip


__all__ = ["judge", "probe"]
