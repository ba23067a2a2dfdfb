"""Kinds of hardware: nodes with the same GPUs and CPU level, and GPUs that the site compiles no software for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from envmgr.audit.compare.between_nodes import QUORUM
from envmgr.audit.fit.matrix import observed
from envmgr.audit.model import Evidence
from envmgr.backends import GpuCodes, all_backends
from envmgr.catalog.gpus import covers
from envmgr.catalog.settings import quoted, site_line


def kinds_of(evidence: Evidence) -> Mapping[str, tuple[str, ...]]:
    """Return kind, in words -> its nodes, for an audit without a published generation; empty for another one."""
    if not evidence.alone:
        return {}
    kinds: dict[str, tuple[str, ...]] = {}
    for facts, nodes in observed(evidence).items():
        gpus = ", ".join(sorted({gpu.name for gpu in facts.gpus}))
        kind = f"nodes of {facts.cpu_level or facts.arch}{f' with {gpus}' if gpus else ''}"
        kinds[kind] = (*kinds.get(kind, ()), *nodes)
    return kinds


def groups_by_kind(evidence: Evidence) -> Mapping[str, tuple[str, ...]]:
    """Return the kinds that can be compared within themselves, if there are several: those with three nodes or more.

    Nodes of smaller kinds are added to the largest one.
    """
    kinds = kinds_of(evidence)
    large = {kind: nodes for kind, nodes in kinds.items() if len(nodes) >= QUORUM}
    if len(large) < 2:
        return {}
    most = max(large, key=lambda kind: len(large[kind]))
    return large | {most: (*large[most], *(n for kind, nodes in kinds.items() if kind not in large for n in nodes))}


@dataclass(frozen=True, slots=True)
class Uncovered:
    """A kind of GPU that the site's codes of a backend do not cover, the nodes that have it, and the line that would."""

    codes: GpuCodes
    arch: str
    gpu: str
    nodes: tuple[str, ...]
    line: str


def uncovered(evidence: Evidence) -> Iterator[Uncovered]:
    """Yield the GPUs that the site's codes do not cover.

    There is none if the site lists no codes, or if the GPU's capability is unknown.
    """
    for codes in (each for backend in all_backends() for each in backend.gpu_codes(evidence.site)):
        found: dict[tuple[str, str], list[str]] = {}
        for facts, nodes in observed(evidence).items():
            known = {(gpu.arch, gpu.name) for gpu in facts.gpus if gpu.vendor == codes.vendor and gpu.arch}
            for arch, name in known:
                if covers(codes.vendor, codes.codes, arch) is False:
                    found.setdefault((arch, name), []).extend(nodes)
        line = _line(codes, [arch for arch, _ in found])
        yield from (Uncovered(codes, arch, gpu, tuple(nodes), line) for (arch, gpu), nodes in sorted(found.items()))


def _line(codes: GpuCodes, more: list[str]) -> str:
    return site_line(codes.field, quoted(list(dict.fromkeys([*codes.codes, *more]))))
