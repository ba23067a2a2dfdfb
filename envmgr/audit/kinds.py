"""Kinds of hardware, where no site file says which nodes are alike: those with the same GPUs and CPU level are of one kind."""

from __future__ import annotations

from collections.abc import Mapping

from envmgr.audit.comparing import QUORUM
from envmgr.audit.matrix import observed
from envmgr.audit.model import Evidence


def kinds_of(evidence: Evidence) -> Mapping[str, tuple[str, ...]]:
    """kind, in words -> its nodes, of an audit that stands alone; empty for another one."""
    if not evidence.alone:
        return {}
    kinds: dict[str, tuple[str, ...]] = {}
    for facts, nodes in observed(evidence).items():
        gpus = ", ".join(sorted({gpu.name for gpu in facts.gpus}))
        kind = f"nodes of {facts.cpu_level or facts.arch}{f' with {gpus}' if gpus else ''}"
        kinds[kind] = (*kinds.get(kind, ()), *nodes)
    return kinds


def groups_by_kind(evidence: Evidence) -> Mapping[str, tuple[str, ...]]:
    """Those that can be compared in themselves, where there are several: of three nodes or more. Fewer of a kind go with the most."""
    kinds = kinds_of(evidence)
    large = {kind: nodes for kind, nodes in kinds.items() if len(nodes) >= QUORUM}
    if len(large) < 2:
        return {}
    most = max(large, key=lambda kind: len(large[kind]))
    return large | {most: (*large[most], *(n for kind, nodes in kinds.items() if kind not in large for n in nodes))}
