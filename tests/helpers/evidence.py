"""Evidence of an audit, made by hand: what nodes said, as the probe's lines."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from envmgr.audit.controller import SlurmView
from envmgr.audit.expected import ExpectedInstall, PublishedGeneration
from envmgr.audit.model import AuditPlan, Check, Evidence, audit_parts
from envmgr.catalog.recipe import Requires
from envmgr.catalog.site import Site, _resolve
from envmgr.catalog.site_file import SiteFile
from envmgr.finding import Finding
from envmgr.modules.spec import ModuleSpec
from envmgr.nodes import Reply
from envmgr.probe.model import Fleet, Group
from envmgr.probe.shell import join_probes, part_seconds
from envmgr.publish.record import GenerationRecord
from tests.helpers.cluster import Cluster

SHA = "0" * 64


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


def probe_script(checks: Iterable[Check], plan: AuditPlan) -> str:
    return join_probes(audit_parts(checks, plan), plan)


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
    asked_here: Mapping[str, Mapping[str, str]] | None = None,
    **more: Any,
) -> Evidence:
    """`answers` is node -> facts; nodes with equal facts become one group, as a real audit folds them.

    `slurm` is node -> (state, reason), or it is `slurm_broken`; `asked_here` is check -> what it found out on this host besides.
    """
    view = SlurmView(slurm or {}, slurm_broken)
    here = {"slurm": view.facts(), "nodes": view.facts(), "munge": {"used": "yes"} if view.facts() else {}}
    here |= {check: {**here.get(check, {}), **facts} for check, facts in (asked_here or {}).items()}
    by_facts: dict[tuple[tuple[str, str], ...], list[str]] = {}
    for node, facts in answers.items():
        healthy = {"gate": "ok", "software.seen": str(len(entries or {}))}
        by_facts.setdefault(tuple(sorted({**healthy, **facts}.items())), []).append(node)
    groups = tuple(Group(dict(facts), tuple(nodes)) for facts, nodes in by_facts.items())
    replies = {node: Reply(node, "answered", "", "", *(times or {}).get(node, (100.0, 101.0))) for node in answers}
    lost = tuple(Reply(node, "unreachable", "", "no route", 0.0, 1.0) for node in missing)
    where = site(**(settings or {}))
    installs = tuple(
        ExpectedInstall(entry, f"/sw/store/{entry}", "bin/run", "bin/run") for entry in sorted(entries or {})
    )
    plan = audit_plan(
        where, samples=samples, roots={entry: f"/sw/store/{entry}" for entry in samples}, installs=installs
    )
    fleet = Fleet(groups, own or {}, replies | {reply.node: reply for reply in lost}, lost)
    nodes = (*answers, *missing)
    return Evidence(where, plan, nodes, published(entries or {}), {way: fleet}, answers=here, **more)


def told(check: Check, given: Evidence) -> list[str]:
    """Each finding on one line: `severity nodes: where: found | expected | hint`, as it comes."""
    return [line(finding) for finding in check.judge(given)]


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
