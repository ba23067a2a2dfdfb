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

from envmgr.audit.model import Check, Evidence, Outlier, ProbeTexts, Rows
from envmgr.audit.plan import AuditPlan
from envmgr.audit.shell.shared_shell import shared
from envmgr.probe.model import Facts, Fleet
from envmgr.system.shelltext import script_text

_OWN = "init/lmodrc.lua"
_NOT_READ = "-"  # stands for the sha256 of a file that is not read


def probe(plan: AuditPlan) -> ProbeTexts:  # noqa: ARG001 - the same for every plan
    return {"login": shared("lmod_config") + script_text(__file__, "login.sh")}


def judge(evidence: Evidence) -> Rows:
    fleet = evidence.shells.only(lambda facts: "rc_files.lmod" in facts)
    generations = f"{evidence.site.prefix}/generations/"
    ours = ""
    if evidence.published is not None:
        ours = f"{generations}{evidence.published.record.number:04d}/lmodrc.lua"
        yield from _ours(ours, evidence.published.record.files.get("lmodrc.lua", ""), fleet, evidence)
    for path in _paths(fleet, "rc_files.read"):  # the check `contexts` reports a shell with another generation
        if path not in (ours, _OWN) and not path.startswith(generations):
            yield from _compared("rc", path, "rc_files.read", fleet, evidence)
    for version in fleet.by_value("rc_files.lmod"):
        alike = fleet.where("rc_files.lmod", version)
        yield from _compared("own_rc", _OWN, "rc_files.read", alike, evidence, version=version)
    for path in _paths(fleet, "rc_files.modulerc"):
        yield from _compared("modulerc", path, "rc_files.modulerc", fleet, evidence)


def _ours(path: str, sha256: str, fleet: Fleet, evidence: Evidence) -> Rows:
    fleet = fleet.only(lambda facts: facts.get("rc_files.ours") == "yes")
    unread = fleet.only(lambda facts: path not in _files(facts, "rc_files.read"))
    for named, nodes in unread.by_value("rc_files.variable", default="").items():
        yield evidence.say("not_read", nodes, evidence.user_login, path=path, named=named or "not set")
    for found, nodes in fleet.by(lambda facts: _files(facts, "rc_files.read").get(path)).items():
        if sha256 and found != sha256:
            yield evidence.say("not_as_published", nodes, path=path, content=_content(found), sha256=sha256)


def _paths(fleet: Fleet, key: str) -> list[str]:
    return sorted({path for group in fleet.groups for path in _files(group.facts, key) if path})


def _compared(row: str, path: str, key: str, fleet: Fleet, evidence: Evidence, *, version: str = "") -> Rows:
    """Yield the differences between like nodes, for one path: not there, or there with other content."""
    alone = "Lmod reads it on this node only"
    if row == "modulerc":
        alone = f"it sets defaults, or hides modules, for {evidence.plan.user}'s login shell on this node only"

    def told(of: Outlier) -> str:
        return "not read" if of.value == _NOT_READ else alone if of.right == _NOT_READ else _content(of.value)

    def expected(right: str, value: str) -> str:
        return "not there" if right == _NOT_READ else "read" if value == _NOT_READ else f"content {right[:12]}"

    values = fleet.by(lambda facts: _files(facts, key).get(path, _NOT_READ))
    shell = evidence.user_login if row == "modulerc" else None  # a start-up file of that shell names it
    yield evidence.compared(row, values, shell, say=_shown, told=told, expect=expected, path=path, version=version)


def _shown(sha256: str) -> str:
    return "not read" if sha256 == _NOT_READ else f"content {sha256[:12]}" if sha256 else _content(sha256)


def _content(sha256: str) -> str:
    return f"other content ({sha256[:12]})" if sha256 else "it cannot be read"


def _files(facts: Facts, key: str) -> dict[str, str]:
    """Return path -> sha256, in the order in which the files are read."""
    lines = (line.partition(" ") for line in facts.get(key, "").splitlines())
    return {path: sha256 for sha256, _, path in lines}


CHECK = Check(judge=judge, probe=probe, wants=frozenset({"modules"}))
