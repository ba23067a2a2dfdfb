"""The same rc files on every node: those that Lmod reads when it starts, and the modulerc files.

Lmod first reads its own init/lmodrc.lua. It then reads lmodrc.lua in the folder beside it, in /etc/lmod and in /etc, in
this order. Last it reads ~/.lmodrc.lua (reported by the check `user-files`), and what LMOD_RC names. Each file may name
further caches. The published generation's lmodrc.lua must be among them, with the published content, because it names
the cache.

modulerc files set defaults and hide modules. They are LMOD_MODULERCFILE, and .modulerc, .modulerc.lua and .version in
MODULEPATH's folders outside the prefix. A file that one node reads and another does not, or reads with other content,
is a finding. Lmod's own init/lmodrc.lua is compared only between nodes with the same version of Lmod.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from envmgr.audit.causes import Traced
from envmgr.audit.compare.between_nodes import drift
from envmgr.audit.model import Check, Evidence, Found, Row
from envmgr.audit.plan import AuditPlan
from envmgr.audit.shell.exported_variables import set_at_login
from envmgr.audit.shell.shared_shell import shared
from envmgr.nodes.sets import fold
from envmgr.probe.model import Facts, Fleet, ProbeStage
from envmgr.system.shelltext import script_text

_OWN = "init/lmodrc.lua"
_VARIABLE = "LMOD_MODULERCFILE"


def probe(plan: AuditPlan) -> Mapping[ProbeStage, str]:  # noqa: ARG001 - the same for every plan
    return {"login": shared("lmod_config") + script_text(__file__, "login.sh")}


def judge(evidence: Evidence) -> Iterator[Row]:
    fleet = evidence.shells.only(lambda facts: "rc_files.lmod" in facts)
    ours = ""
    if evidence.published is not None:
        ours = f"{evidence.site.prefix}/generations/{evidence.published.record.number:04d}/lmodrc.lua"
        yield from _ours(ours, fleet, evidence.published.record.files.get("lmodrc.lua", ""))
    hint = "remove it, or put the same on every node"
    other_rc = _paths(fleet, "rc_files.read", lambda path: path not in (ours, _OWN) and not _of_prefix(path, evidence))
    yield from _compared(other_rc, "rc_files.read", fleet, evidence, "Lmod reads it on this node only", hint)
    for version in fleet.by_value("rc_files.lmod"):
        alike = fleet.only(lambda facts, version=version: facts["rc_files.lmod"] == version)  # type: ignore[misc]
        yield from _compared(
            [_OWN], "rc_files.read", alike, evidence, "", f"install Lmod {version} once more: the file is Lmod's own"
        )
    modulerc = _paths(fleet, "rc_files.modulerc", bool)
    yield from _compared(
        modulerc,
        "rc_files.modulerc",
        fleet,
        evidence,
        f"it sets defaults, or hides modules, for {evidence.plan.user}'s login shell on this node only",
        set_at_login(
            _VARIABLE,
            fleet.by_value("rc_files.modulerc", default=""),
            evidence,
            f"{_VARIABLE} may name it",
            f"{hint}; ",
        ),
    )


def _of_prefix(path: str, evidence: Evidence) -> bool:
    """Return True for an rc file of another generation. The check `contexts` reports a shell that is pinned to one."""
    return path.startswith(f"{evidence.site.prefix}/generations/")


def _ours(path: str, fleet: Fleet, sha256: str) -> Iterator[Row]:
    fleet = fleet.only(lambda facts: facts.get("rc_files.ours") == "yes")
    unread = fleet.only(lambda facts: path not in _files(facts, "rc_files.read"))
    for value, nodes in unread.by_value("rc_files.variable", default="").items():
        yield Found(
            "warning",
            path,
            f"Lmod does not read it: LMOD_RC is {value or 'not set'}",
            "LMOD_RC names it",
            f"`envmgr node-setup --apply --nodes {fold(nodes)}`",
            nodes,
        )
    for found, nodes in fleet.by(lambda facts: _files(facts, "rc_files.read").get(path)).items():
        if sha256 and found != sha256:
            yield Found(
                "error",
                path,
                _content(found),
                f"sha256 {sha256[:12]}, as published",
                "the node has a copy of the prefix, not the prefix: mount it",
                nodes,
            )


def _paths(fleet: Fleet, key: str, wanted: Callable[[str], bool]) -> list[str]:
    return sorted({path for group in fleet.groups for path in _files(group.facts, key) if wanted(path)})


def _compared(
    paths: list[str], key: str, fleet: Fleet, evidence: Evidence, alone: str, hint: str | Traced
) -> Iterator[Row]:
    """Yield the differences between like nodes, for each path: not there, or there with other content."""
    for path in paths:
        values = fleet.by(lambda facts, path=path: _files(facts, key).get(path, "-"))  # type: ignore[misc]
        yield from drift(
            path,
            values,
            evidence,
            hint=hint,
            say=lambda value: (
                "not read" if value == "-" else _content(value) if value == "" else f"content {value[:12]}"
            ),
            told=lambda of: "not read" if of.value == "-" else alone if of.right == "-" else _content(of.value),
            expect=lambda right, value: (
                "not there" if right == "-" else "read" if value == "-" else f"content {right[:12]}"
            ),
        )


def _content(sha256: str) -> str:
    return f"other content ({sha256[:12]})" if sha256 else "it cannot be read"


def _files(facts: Facts, key: str) -> dict[str, str]:
    """Return path -> sha256, in the order in which the files are read."""
    lines = (line.partition(" ") for line in facts.get(key, "").splitlines())
    return {path: sha256 for sha256, _, path in lines}


CHECK = Check(judge=judge, probe=probe, wants=frozenset({"modules"}))
