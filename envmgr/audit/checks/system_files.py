"""Files of the system, settings of the kernel and links that programs read before they run are the same on like nodes.

The files are compared by their lines, without comments: Lmod's modulespath; PAM with its limits, pam_env and namespaces;
login.defs; systemd's settings for services and users, environment.d, tmpfiles.d; modprobe.d; the settings of all users
for git, pip, uv, conda, npm, R, Perl, the system's Python (sitecustomize, *.pth), readline, fish, Kerberos, NCCL, UCX,
Open MPI, containers; host.conf and gai.conf; locale.conf; the crypto policy. Passwords and tokens are not reported. Of
each file the first 60 lines count. A finding says which lines differ; more than four on the same nodes are one finding.

Files that programs of users read must be readable by users: git stops at a closed /etc/gitconfig.

Also compared are settings of the kernel that jobs meet (as overcommit_memory and max_user_namespaces), as they are now;
what /etc/alternatives names for compilers, interpreters, MPI and libraries; the rule of the time zone; the system's
certificates; modules of the kernel that belong to a loaded InfiniBand or NVIDIA driver; locales. What the kernel derives
from a node's memory is alike if it is enough. Only nodes with the same operating system are compared.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from difflib import SequenceMatcher
from functools import partial

from envmgr.audit.baseline import Compared
from envmgr.audit.compare.between_nodes import by_name, compare, other_lines
from envmgr.audit.model import Check, Evidence, Noted, Outlier, Row, Rows, Values, scripts
from envmgr.audit.table import Steps, short
from envmgr.probe.model import Facts, Fleet
from envmgr.system.shelltext import quote

_KINDS = {
    "/etc/crypto-policies/": "policy",
    "/proc/": "kernel",
    "/sys/": "kernel",
    "/etc/alternatives/": "alternative",
    "/etc/localtime": "zone",
    "/etc/ssl/certs/": "bundle",
    "/etc/pki/tls/certs/": "bundle",
    "driver ": "driver",
    "locale ": "locales",
    "": "file",
}
_IF_ANY = ("kernel", "driver", "locales")  # nodes without one, as of another kernel, are not compared in it
_SINGLE = ("kernel", "alternative", "zone", "bundle")  # of one line
_MOST = 6  # lines that a hint changes
_TOGETHER = 4  # more differences than this on the same nodes are one finding
_CUT = 60  # lines that a node reports of a file


def judge(evidence: Evidence) -> Rows:
    looked = evidence.looked("system_files")
    for system in looked.by_value("system_files.os"):
        fleet = looked.where("system_files.os", system)
        found = {name: _comparable(name, values) for name, values in by_name(fleet, _texts).items()}
        together = {} if evidence.baseline else _together(found, evidence)
        for nodes, names in together.items():
            yield evidence.say("many", nodes, count=len(names), names=", ".join(names))
        for name, values in found.items():
            if any(name in names for names in together.values()):
                yield Noted(Compared(evidence.check, name, ""), values)
            else:
                yield _compared(name, values, fleet, evidence)


def _row(name: str) -> str:
    return next(row for beginning, row in _KINDS.items() if name.startswith(beginning))


def _comparable(name: str, values: Values) -> Values:
    return {value: nodes for value, nodes in values.items() if value or _row(name) not in _IF_ANY}


def _together(found: Mapping[str, Values], evidence: Evidence) -> dict[tuple[str, ...], list[str]]:
    """Return nodes -> what differs there and nowhere else, where that is so much that it has one cause."""
    odd: dict[tuple[str, ...], list[str]] = {}
    for name, values in found.items():
        compared = compare(values, evidence)
        if len(compared.outliers) == 1 and not compared.differ:
            odd.setdefault(tuple(sorted(compared.outliers[0].nodes)), []).append(name)
    return {nodes: names for nodes, names in odd.items() if len(names) > _TOGETHER}


def _compared(name: str, values: Values, fleet: Fleet, evidence: Evidence) -> Row:
    row = _row(name)
    many = row not in _SINGLE
    return evidence.compared(
        row,
        values,
        hint=_mend(row, name, values, fleet, evidence),
        say=partial(_apart, [*values]) if many else None,
        told=_told if many else None,
        name=name,
        base=name.rpartition("/")[2],
    )


def _lines(facts: Facts) -> list[tuple[str, str, str]]:
    """Return name, number and text of each line."""
    found = (re.fullmatch(r"(.+?):([0-9]+):(.*)", line) for line in facts.get("system_files.lines", "").splitlines())
    return [(match[1], match[2], match[3]) for match in found if match]


def _texts(facts: Facts) -> dict[str, str]:
    found: dict[str, list[str]] = {}
    for name, _, text in _lines(facts):
        found.setdefault(name, []).append(text)
    return {name: "\n".join(texts if name[0] == "/" else sorted(texts)) for name, texts in found.items()}


def _told(of: Outlier) -> str:
    return other_lines(of) or "the same lines, in another order"


def _apart(values: list[str], value: str) -> str:
    """Return the lines of a value that not all of `values` have."""
    common = set.intersection(*(set(each.splitlines()) for each in values))
    return short("; ".join(line for line in value.splitlines() if line not in common)) or "nothing of that"


def _mend(row: str, name: str, values: Values, fleet: Fleet, evidence: Evidence) -> Steps:
    """Return the steps that make the others' state on all nodes that differ; empty where there are none."""
    compared = compare(values, evidence)
    if evidence.baseline is not None or compared.differ or len(compared.outliers) != 1:
        return Steps()
    (of,) = compared.outliers
    right = of.right if of.right != "enough" else ""
    if row == "file":
        return Steps(run=_edit(name, of, fleet))
    if row == "zone":
        files = fleet.by_value("system_files.zone").items()
        right = next((file for file, nodes in files if of.others[0] in nodes), "")
    if row == "driver":
        right = " ".join(map(quote, sorted({*of.right.splitlines()} - {*of.value.splitlines()})))
    given = {"name": name, "base": name.rpartition("/")[2], "right": right}
    return evidence.table.fixes.get(row, Steps()).filled(given) if right else Steps()


def _edit(path: str, of: Outlier, fleet: Fleet) -> str:
    """Return the command that changes just the lines of a file that differ; empty where they are too many."""
    have, want = of.value.splitlines(), of.right.splitlines()
    places = {
        tuple(number for name, number, _ in _lines(group.facts) if name == path)
        for group in fleet.groups
        if set(group.nodes) & set(of.nodes)
    }
    if len(places) != 1 or max(len(have), len(want)) >= _CUT:
        return ""
    at, edits, changed = next(iter(places)), list[str](), list[str]()
    for _, start, end, begin, stop in (
        each for each in SequenceMatcher(None, have, want, autojunk=False).get_opcodes() if each[0] != "equal"
    ):
        new = r"\n".join(want[begin:stop])
        changed += want[begin:stop]
        if start < end:
            edits += [at[start] + (rf"c\{new}" if new else "d"), *(f"{number}d" for number in at[start + 1 : end])]
        elif have:
            edits.append(rf"{at[start]}i\{new}" if start < len(have) else rf"{at[-1]}a\{new}")
    if len(edits) > _MOST or len(changed) > _MOST or any(re.search(r"[\\`…]|\*\*\*|NODE", line) for line in changed):
        return ""
    if not have:
        return f"printf '%s\\n' {' '.join(map(quote, want))} >>{quote(path)}"
    return f"sed -i {' '.join(f'-e {quote(edit)}' for edit in edits)} {quote(path)}"


CHECK = Check(judge=judge, probe=scripts(__file__, "node"))
