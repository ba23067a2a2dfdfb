"""GPUs of nodes outside of those for which the site has its software compiled."""

from __future__ import annotations

from collections.abc import Iterator

from envmgr.audit.matrix import observed
from envmgr.audit.model import Evidence
from envmgr.backends import GpuCodes, all_backends
from envmgr.catalog.gpu_codes import covers
from envmgr.catalog.settings import quoted, site_line
from envmgr.finding import Finding
from envmgr.nodes import fold


def outside(evidence: Evidence) -> Iterator[Finding]:
    """Nothing where the site says nothing, and of GPUs whose capability is not known."""
    for codes in (each for backend in all_backends() for each in backend.gpu_codes(evidence.site)):
        found: dict[tuple[str, str], list[str]] = {}
        for facts, nodes in observed(evidence).items():
            known = {(gpu.arch, gpu.name) for gpu in facts.gpus if gpu.vendor == codes.vendor and gpu.arch}
            for arch, name in known:
                if covers(codes.vendor, codes.codes, arch) is False:
                    found.setdefault((arch, name), []).extend(nodes)
        for (arch, name), accused in sorted(found.items()):
            yield Finding(
                "fitness",
                "warning",
                codes.field,
                f"no machine code for {name} ({arch})",
                f"{arch} among {', '.join(codes.codes)}",
                f"if its CUDA or ROCm knows that GPU, compile for it, too: {_line(codes, [arch for arch, _ in found])}; then lock and build what asks for it",
                fold(accused),
            )


def _line(codes: GpuCodes, more: list[str]) -> str:
    return site_line(codes.field, quoted(list(dict.fromkeys([*codes.codes, *more]))))
