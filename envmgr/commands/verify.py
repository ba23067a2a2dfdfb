"""`envmgr verify`: is what is published still what was built?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from envmgr.commands import Context, choose_published
from envmgr.finding import Finding
from envmgr.report import Result
from envmgr.store.verify import verify_install


@dataclass(frozen=True, slots=True)
class VerifyResult(Result):
    """`checked` are entries; each finding is one path of an install that is not as its manifest says."""

    schema: ClassVar[str] = "envmgr.verify/1"
    checked: tuple[str, ...]
    findings: tuple[Finding, ...]

    @property
    def exit_code(self) -> int:
        return 1 if self.findings else 0


def verify_entries(ctx: Context, names: Sequence[str]) -> VerifyResult:
    """Hash the installs of published entries again and compare them with their manifests."""
    current, chosen = choose_published(ctx, names)
    findings = []
    users: dict[str, list[str]] = {}  # path of an install -> the entries that use it: each is hashed once
    for name in chosen:
        for path in current.entries[name].paths:
            users.setdefault(path, []).append(name)
    for path, entries in users.items():
        findings += [
            Finding(
                "install",
                "error",
                ", ".join(entries),
                line if path == current.entries[entries[0]].path else f"{path}: {line}",
                hint="an install never changes: find the cause; "
                f"then remove {path}.manifest.json under {ctx.prefix.root}, and build the entry again",
            )
            for line in verify_install(ctx.prefix.install_at(path), ctx.reporter)
        ]
    return VerifyResult(tuple(chosen), tuple(findings))
