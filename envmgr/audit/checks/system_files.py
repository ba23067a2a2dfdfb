"""Files of the system, settings of the kernel and links that programs read before they run are the same on like nodes.

The files are compared by their lines, without comments: Lmod's modulespath; PAM with its limits, pam_env and namespaces;
login.defs; systemd's settings for services and users, environment.d, tmpfiles.d; modprobe.d; the settings of all users
for git, pip, uv, conda, npm, R, Perl, the system's Python (sitecustomize, *.pth), readline, fish, Kerberos, NCCL, UCX,
Open MPI, containers; host.conf and gai.conf; locale.conf; the crypto policy; openssl.cnf by its sections. Passwords and
tokens are not reported. Of each file the first 60 lines count. A file with several names is reported once. A finding says
which lines differ; more than four on the same nodes are one finding. A command changes lines by their text, where they
are few and that is safe; PAM is for people.

What users can read on most nodes, they must be able to read on all, also by its ACL and the folders on its way. A file
that is closed on all of them may have a secret. Only openssl.cnf and the like, and /etc/gitconfig, without which each git
of a user stops, are reported wherever they are closed.

Also compared are settings of the kernel that jobs meet (as overcommit_memory and max_user_namespaces), as they are now;
what /etc/alternatives names for compilers, interpreters, MPI and libraries; the rule of the time zone; the system's
certificates; modules of the kernel that a loaded InfiniBand or NVIDIA driver does not load itself; locales. What the kernel derives
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
from envmgr.audit.openings import open_steps
from envmgr.audit.table import Steps, short
from envmgr.probe.model import Facts, Fleet
from envmgr.system.modes import is_systems
from envmgr.system.shelltext import quote, words

_KINDS = {
    "/etc/crypto-policies/": "policy",
    "/etc/pam.d/": "pam",
    "/etc/ssl/openssl.cnf": "sections",
    "/etc/pki/tls/openssl.cnf": "sections",
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
_NEEDED = ("/etc/gitconfig",)  # without it each git of a user stops
_MOST = 6  # lines that a hint changes
_SED = "sed -i --follow-symlinks"
_TOGETHER = 4  # more differences than this on the same nodes are one finding
_CUT = 60  # lines that a node reports of a file


def judge(evidence: Evidence) -> Rows:
    looked = evidence.looked("system_files")
    for system in looked.by_value("system_files.os"):
        fleet = looked.where("system_files.os", system)
        yield from _closed(fleet, evidence)
        of_names = by_name(fleet, _texts)
        twice = {
            (line.partition(" ")[0], frozenset(nodes)) for line, nodes in fleet.by_line("system_files.same").items()
        }
        found = {
            name: _comparable(name, values)
            for name, values in of_names.items()
            if (name, frozenset(node for value, nodes in values.items() if value for node in nodes)) not in twice
            and "/zz-envmgr" not in name  # another check's
        }
        together = {} if evidence.baseline else _together(found, evidence)
        for nodes, names in together.items():
            yield evidence.say("many", nodes, count=len(names), names=", ".join(names))
        for name, values in found.items():
            if any(name in names for names in together.values()):
                yield Noted(Compared(evidence.check, name, ""), values)
            else:
                yield _compared(name, values, fleet, evidence)


def _closed(fleet: Fleet, evidence: Evidence) -> Rows:
    """Yield what users cannot read. But for the system's own files, one that is closed on all like nodes may have a secret."""
    for path, nodes in fleet.by_line("system_files.closed").items():
        hint = open_steps(evidence.site, [path], whom="users")
        if is_systems(path) or path in _NEEDED:
            yield evidence.say("closed_to_all", nodes, path=path, hint=hint)
        else:
            others = tuple(node for node in fleet.nodes if node not in nodes)
            values = {value: of for value, of in ((path, nodes), ("", others)) if of}
            yield evidence.compared("closed", values, kept=False, path=path, hint=hint)


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
        update="update-ca-trust" if name.startswith("/etc/pki/") else "update-ca-certificates",
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
    if row == "file" and (edit := _edit(name, of)):
        return Steps(run=edit, look="then `systemctl daemon-reload`" if name.startswith("/etc/systemd/") else "")
    if row == "zone":
        files = fleet.by_value("system_files.zone").items()
        right = next((file for file, nodes in files if of.others[0] in nodes), "")
        right = right if right.startswith("/usr/share/zoneinfo/") else ""  # else it is a copy
    if row == "driver":
        right = " ".join(map(quote, sorted({*of.right.splitlines()} - {*of.value.splitlines()})))
    given = {"name": name, "base": name.rpartition("/")[2], "right": right}
    return evidence.table.fixes.get(row, Steps()).filled(given) if right else Steps()


def _edit(path: str, of: Outlier) -> str:
    """Return the command that changes just the lines of a file that differ, by their text; empty where that is not safe.

    Typed again, or for another name of the file, it changes nothing.
    """
    have, want, file = of.value.splitlines(), of.right.splitlines(), quote(path)
    edits, adds, used = list[str](), list[str](), list[str]()
    for what, start, end, begin, stop in SequenceMatcher(None, have, want, autojunk=False).get_opcodes():
        old, new = have[start:end], want[begin:stop]
        beside = have[min(start, len(have) - 1)] if have else ""
        if what == "equal":
            continue
        used += [*old, *(line.replace("\\", "`") for line in new), beside]
        if any(have.count(line) > 1 or line in want for line in old) or have.count(beside) > 1:
            return ""
        edits += [_at(line) + "d" for line in old[1:]]
        if old:
            edits.insert(0, _at(old[0]) + ("c\\" + r"\n".join(new) if new else "d"))
        elif new[0] in have:
            return ""
        else:
            put = _at(beside) + ("i\\" if start < len(have) else "a\\") + r"\n".join(new)
            add = f"{_SED} -e {quote(put)} {file}" if have else f"printf '%s\\n' {words(*new)} >>{file}"
            adds.append(f"{{ grep -qsxF -e {quote(new[0])} {file} || {add}; }}")
    unsafe = any(re.search(r"[`…]|\*\*\*|NODE", line) for line in used)
    if unsafe or max(len(edits), len(used) // 2) > _MOST or max(len(have), len(want)) >= _CUT:
        return ""
    return " && ".join([f"{_SED} {' '.join(f'-e {quote(edit)}' for edit in edits)} {file}"] * bool(edits) + adds)


def _at(line: str) -> str:
    """Return the address of sed for a line with this text."""
    text = line.removesuffix(r"\r").rstrip()
    return "/^" + re.sub(r"[][\\.*^$/]", r"\\\g<0>", text) + "[[:space:]]*$/"


CHECK = Check(judge=judge, probe=scripts(__file__, "node"))
