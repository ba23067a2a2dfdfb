"""Evidence of an audit, made by hand: what nodes said, as the probe's lines."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

from envmgr.audit.checks import all_checks
from envmgr.audit.controller import SlurmView
from envmgr.audit.findings import joined
from envmgr.audit.fit.matrix import MatrixRow, matrix
from envmgr.audit.judge import rows_of
from envmgr.audit.model import Check, Evidence, audit_parts, check_of
from envmgr.audit.plan import AuditPlan, AuditRequest, ExpectedInstall, PublishedGeneration
from envmgr.audit.table import ENGINE, CheckTable
from envmgr.catalog.fitness import gpu_needs
from envmgr.catalog.recipe_parts import Requires
from envmgr.catalog.site import Site, _resolve
from envmgr.catalog.site_file import SiteFile
from envmgr.modules.spec import ModuleSpec
from envmgr.nodes.envelope import Reply
from envmgr.probe.model import Fleet, Group
from envmgr.probe.shell import join_probes, part_seconds
from envmgr.publish.records import GenerationRecord
from envmgr.report import Finding
from tests.helpers.cluster import Cluster

SHA = "0" * 64

OURS = re.compile(r"envmgr (?!audit|adopt)|node-setup|generation|publish")
"""What no hint names where envmgr published nothing."""


def site(**fields: Any) -> Site:
    return _resolve(SiteFile(**{"prefix": Path("/sw"), **fields}), Path("/etc/envmgr/site.yaml"))


def published(entries: Mapping[str, Requires]) -> PublishedGeneration:
    specs = {
        entry: ModuleSpec(
            name=entry.split("/")[0],
            version=entry.split("/")[1],
            root=f"/sw/store/{entry}",
            digest=SHA,
            description="",
            requires=requires,
            gpu=gpu_needs(requires),
        )
        for entry, requires in entries.items()
    }
    record = GenerationRecord(
        number=1,
        parent=None,
        created="",
        user="rsw",
        host="login",
        reason="",
        tools={},
        render="",
        entries={},
        files={},
        manifests={},
    )
    return PublishedGeneration(record, SHA, specs, (1,), 0.0)


def audit_plan(where: Site, number: int | None = 1, **more: Any) -> AuditPlan:
    """What an audit of `where` plans, as alice."""
    seconds = part_seconds(where.transport.node_timeout)
    return AuditPlan(
        prefix=str(where.prefix),
        user="alice",
        build_user=where.build_user or "",
        seconds=seconds,
        site=where,
        number=number,
        **more,
    )


def as_check(check: Check | ModuleType) -> Check:
    """The check of a module of `audit/checks`."""
    return check if isinstance(check, Check) else check_of(check)


def probe_script(checks: Iterable[Check | ModuleType], plan: AuditPlan) -> str:
    return join_probes(audit_parts(map(as_check, checks), plan), plan)


def evidence(
    answers: Mapping[str, Mapping[str, str]],
    *,
    own: Mapping[str, Mapping[str, str]] | None = None,
    entries: Mapping[str, Requires] | None = None,
    settings: Mapping[str, Any] | None = None,
    missing: tuple[str, ...] = (),
    samples: tuple[str, ...] = (),
    times: Mapping[str, tuple[float, float]] | None = None,
    way: str = "ssh",
    slurm: Mapping[str, tuple[str, str]] | None = None,
    slurm_broken: str = "",
    asked_here: Mapping[str, object] | None = None,
    request: AuditRequest | None = None,
    **more: Any,
) -> Evidence:
    """`answers` is node -> facts; nodes with equal facts become one group, as a real audit folds them.

    `slurm` is node -> (state, reason), or it is `slurm_broken`; `asked_here` is check -> the answer of this host.
    """
    view = SlurmView(slurm or {}, slurm_broken)
    by_facts: dict[tuple[tuple[str, str], ...], list[str]] = {}
    for node, facts in answers.items():
        healthy = {"gate": "ok", "software.seen": str(len(entries or {}))}
        by_facts.setdefault(tuple(sorted({**healthy, **facts}.items())), []).append(node)
    groups = tuple(Group(Declared(facts), tuple(nodes)) for facts, nodes in by_facts.items())
    replies = {node: Reply(node, "answered", "", "", *(times or {}).get(node, (100.0, 101.0))) for node in answers}
    lost = tuple(Reply(node, "unreachable", "", "no route", 0.0, 1.0) for node in missing)
    where = site(**(settings or {}))
    installs = tuple(
        ExpectedInstall(entry, f"/sw/store/{entry}", "bin/run", "bin/run") for entry in sorted(entries or {})
    )
    plan = audit_plan(
        where,
        samples=samples,
        roots={entry: f"/sw/store/{entry}" for entry in samples},
        installs=installs,
        request=request or AuditRequest(),
    )
    fleet = Fleet(
        groups,
        {node: Declared(facts) for node, facts in (own or {}).items()},
        replies | {reply.node: reply for reply in lost},
        lost,
    )
    nodes = (*answers, *missing)
    return Evidence(
        where, plan, nodes, published(entries or {}), {way: fleet}, slurm=view, answers=asked_here or {}, **more
    )


def keys(of: CheckTable) -> set[str]:
    """The keys and patterns of its facts; those of contexts without the beginning that names the shell."""
    return {*of.node, *of.prefix, *of.context, *of.login}


def is_declared(key: str, *tables: CheckTable) -> bool:
    """Whether one of these tables declares the fact, or that of every probe; whichever shell it is of."""
    name = key.split(".", 3)[3] if key.startswith("ctx.") and key.count(".") >= 3 else key
    return any(fnmatchcase(name, each) for table in (ENGINE, *tables) for each in keys(table))


class Declared(dict[str, str]):
    """Facts that a table declares: a test with another one would hold for nothing, and a check that reads one finds nothing."""

    def __init__(self, facts: Mapping[str, str] | Iterable[tuple[str, str]]) -> None:
        super().__init__(facts)
        for key in self:
            _require(key)

    def get(self, key: str, default: Any = None) -> Any:
        return super().get(_require(key), default)

    def __getitem__(self, key: str) -> str:
        return super().__getitem__(_require(key))

    def __contains__(self, key: object) -> bool:
        return super().__contains__(_require(str(key)))


@cache
def _require(key: str) -> str:
    assert is_declared(key, *(check.table for check in all_checks().values())), key
    return key


def found(check: Check | ModuleType, given: Evidence) -> list[Finding]:
    """The findings of one check, as they come, each once for all its places."""
    return [*joined(one.finding for one in rows_of(as_check(check), given))]


def told(check: Check | ModuleType, given: Evidence) -> list[str]:
    """Each finding on one line: `severity nodes: where: found | expected | hint`, as it comes."""
    return [line(finding) for finding in found(check, given)]


def table_of(given: Evidence, *checks: Check | ModuleType) -> tuple[MatrixRow, ...]:
    """Which entry runs where, by the hardware and the findings of these checks."""
    return matrix(given, [one for check in checks for one in rows_of(as_check(check), given)])


def line(f: Finding) -> str:
    return f"{f.severity} {f.nodes}: {f.where}: {f.found} | {f.expected} | {f.hint}".removesuffix(" | ")


@contextmanager
def published_link(cluster: Cluster) -> Iterator[None]:
    """A prefix that answers: probes look into it only where it has a `current`."""
    link = cluster.host_prefix / "current"
    if link.is_symlink():
        yield
        return
    link.symlink_to("generations/0001")
    try:
        yield
    finally:
        link.unlink()
