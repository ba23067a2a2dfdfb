"""Modulefiles of others: the folders besides the prefix's in the users' MODULEPATH have the same content on every node.

In the ordinary user's login shell, the files of each such folder are hashed, 1,000 at most and for five seconds; that a file has another
content on a node than on the others (an edited copy, a folder that was copied and not shared) is told with its path. Which names are
listed is compared by the check of resolution. A path that a modulefile names, and that other nodes have, is there. Folders are compared
between nodes that have them in MODULEPATH.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from envmgr.audit.baseline import Compared
from envmgr.audit.comparing import as_on, chosen, compare, drift
from envmgr.audit.folding import short
from envmgr.audit.model import AuditPlan, Evidence
from envmgr.finding import Finding
from envmgr.nodes import fold
from envmgr.probe.model import Facts, Fleet, Group, ProbeStage
from envmgr.system.shelltext import assign, script_text

NEEDS_MODULES = True
_MOST, _SECONDS = 1000, 5
_HINT = "a copy that was edited, or a folder that is not shared? put the right file there"


def probe(plan: AuditPlan) -> Mapping[ProbeStage, str]:  # noqa: ARG001 - the same for every plan
    return {"login": assign(modulefiles_most=_MOST, modulefiles_seconds=_SECONDS) + script_text(__file__, "login.sh")}


def judge(evidence: Evidence) -> Iterator[Finding]:
    fleet = evidence.shells
    for folders, nodes in fleet.by_value("modulefiles.unread").items():
        yield Finding(
            "modulefiles", "warning", ", ".join(folders.splitlines()), f"not looked at: no end in {_SECONDS} s", "an answer",
            "does the file server of that folder answer? a load of any module waits for it, too", fold(nodes),
        )  # fmt: skip
    for folder, groups in sorted(_by_folder(fleet).items()):
        values: dict[str, tuple[str, ...]] = {}
        for group, sha256, number in groups:
            value = _content(sha256, group.facts.get(f"modulefiles.files.{number}", ""))
            values[value] = (*values.get(value, ()), *group.nodes)
        yield from _absent(folder, groups, evidence)
        compared = chosen(Compared("modulefiles", folder, "content"), values, evidence)
        for of in compared.outliers:
            if changed := _changed(_files(of.value), _files(of.right)):
                yield Finding(
                    "modulefiles", "warning", folder, f"other content: {changed}", f"the same content, {as_on(of.others)}",
                    _HINT, fold(of.nodes),
                )  # fmt: skip
        if compared.differ:
            first, second, *_ = compared.differ
            if changed := _changed(_files(first), _files(second)):
                yield Finding(
                    "modulefiles", "warning", folder, f"different content: {changed}",
                    "the same everywhere; `--reference NODE` says which node is right", _HINT,
                    between=fold(node for nodes in compared.differ.values() for node in nodes),
                )  # fmt: skip


_Having = Sequence[tuple[Group, str, str]]
"""Groups of nodes that have a folder: the sum over its files, and its number in their answer."""


def _by_folder(fleet: Fleet) -> dict[str, list[tuple[Group, str, str]]]:
    found: dict[str, list[tuple[Group, str, str]]] = {}
    for group in fleet.groups:
        for folder, (sha256, number) in _folders(group.facts).items():
            found.setdefault(folder, []).append((group, sha256, number))
    return found


def _absent(folder: str, groups: _Having, evidence: Evidence) -> Iterator[Finding]:
    """What modulefiles name by its path and one node has not; what no node has may be made when it is needed."""
    values: dict[str, tuple[str, ...]] = {}
    for group, _, number in groups:
        if f"modulefiles.named.{number}" in group.facts:  # else it was not looked at, or not to the end
            lines = group.facts.get(f"modulefiles.absent.{number}", "")
            values[lines] = (*values.get(lines, ()), *group.nodes)
    more = {
        of.value: of.right
        for of in compare(values, evidence).outliers
        if set(of.value.splitlines()) <= set(of.right.splitlines())
    }  # these have what others have not: no fault of theirs
    wanted: dict[str, tuple[str, ...]] = {}
    for value, nodes in values.items():
        wanted[more.get(value, value)] = (*wanted.get(more.get(value, value), ()), *nodes)
    yield from drift(
        "modulefiles", folder, wanted, evidence, what="paths that are not there", hint="install, or mount, on that node what the modulefile names; or take the modulefile away there",
        say=lambda lines: short("; ".join(lines.splitlines())) or "all paths are there",
        expect=lambda _right, _value: "what modulefiles name is there, and can be read",
        told=lambda of: short("; ".join(_not_there(line) for line in of.value.splitlines() if line not in of.right.splitlines())),
    )  # fmt: skip


def _not_there(line: str) -> str:
    file, path, *closed = line.split(" ")
    return f"{file} names {path}, which {'the user cannot enter' if closed else 'is not there'}"


def _folders(facts: Facts) -> dict[str, tuple[str, str]]:
    """folder -> the sum over its files, and its number in the answer."""
    found = {}
    for key, value in facts.items():
        if key.startswith("modulefiles.sum."):
            sha256, _, folder = value.partition(" ")
            found[folder] = (sha256, key.rpartition(".")[2])
    return found


def _content(sha256: str, files: str) -> str:
    """What is compared: a line for each file that is told, and the sum over all."""
    lines = sorted(
        f"{path.removeprefix('./')} {of[:16]}" for of, _, path in (x.partition("  ") for x in files.splitlines())
    )
    return "\n".join([*lines, f"{_ALL} {sha256[:16]}"])


_ALL = "all files:"


def _files(text: str) -> dict[str, str]:
    """path below the folder -> the beginning of its sha256."""
    lines = (line.rpartition(" ") for line in text.splitlines() if not line.startswith(_ALL))
    return {path: sha256 for path, _, sha256 in lines}


def _changed(files: Mapping[str, str], others: Mapping[str, str]) -> str:
    """What both have, with another content. Empty where they have other names: that is told by the check of resolution."""
    changed = [path for path in files if path in others and files[path] != others[path]]
    if not changed and files.keys() == others.keys():
        return f"files behind the first {len(files)}"
    return short(", ".join(changed))


__all__ = ["judge", "probe"]
