"""The result of an audit, and its text for people."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from envmgr.audit.findings import AuditFinding, Caused
from envmgr.audit.fit.matrix import MatrixRow
from envmgr.audit.plan import Unread
from envmgr.audit.text import finding_lines
from envmgr.nodes.sets import expand
from envmgr.report import Lines, Result, Table
from envmgr.wording import counted

_RUNS = {True: "yes", False: "no", None: "not known"}
_PROOF = {"contexts", "resolution", "loading"}
_ALONE = {"contexts", "resolution", "inventory", "site-modules"}


@dataclass(frozen=True, slots=True)
class WayAnswers:
    """The answers of nodes in one way, as folded node sets. `way` is ssh, slurm (inherited) or slurm-none
    (--export=NONE).
    """

    way: str
    answered: str
    silent: str
    unreachable: str


@dataclass(frozen=True, slots=True)
class AuditResult(Result):
    """The result of an audit. There is one of the `findings` for each cause.

    `generation` is None if this host could not read it; `unread` then says why. `alone` means that nothing is published,
    and that modules from other tools were looked at. `away` are the nodes that cannot use the prefix. `modules` is the
    number of other tools' modules that the user's shells list, `compared` the number of things of each kind that were compared
    between nodes, `staged` the number of nodes that have an entry on their own disk. `seconds` is wall-clock, `finished` seconds since the epoch.
    """

    schema: ClassVar[str] = "envmgr.audit/2"
    verbose: ClassVar[bool] = False
    generation: int | None
    entries: tuple[str, ...]
    nodes: str
    count: int
    asked: tuple[WayAnswers, ...]
    contexts: tuple[str, ...]
    accounts: tuple[str, ...]
    checks: tuple[str, ...]
    findings: tuple[Caused, ...]
    matrix: tuple[MatrixRow, ...]
    finished: float
    seconds: float
    alone: bool = False
    unread: Unread | None = None
    away: str = ""
    modules: int = 0
    compared: Mapping[str, int] = field(default_factory=dict)
    staged: Mapping[str, int] = field(default_factory=dict)

    @property
    def every(self) -> tuple[AuditFinding, ...]:
        """Return the findings, each followed by its consequences."""
        return tuple(each for finding in self.findings for each in (finding, *finding.consequences))

    @property
    def exit_code(self) -> int:
        """3 if nothing could be compared, because no published generation can be read here or no node answered."""
        if (self.generation is None and not self.alone) or not any(a.answered for a in self.asked):
            return 3
        return 1 if any(f.severity != "note" for f in self.findings) else 0

    @property
    def lacked(self) -> Unread:
        """Return what an audit lacked that could compare nothing (exit code 3)."""
        if self.generation is None and not self.alone:
            return self.unread or Unread("no-published-generation", "this host cannot read the published generation")
        return Unread("no-node-answered", "no node answered")

    def lines(self) -> Lines:
        """Print findings as blocks, worst first, and then one line that sums up.

        With `verbose`, also all consequences, and always which entry runs where.
        """
        what = f"generation {self.generation}, {counted(len(self.entries), 'entries')}"
        if self.generation is None:
            what = "modules of this cluster" if self.alone else self.lacked.text
        away = f"; the prefix cannot be used on {self.away}" if self.away else ""
        ways = " and ".join(sorted({"Slurm" if a.way.startswith("slurm") else a.way for a in self.asked}, reverse=True))
        yield f"{what}; {self.nodes} by {ways} in {self.seconds:.1f} s{away}"
        if self.contexts:
            jobs = [context for context in self.contexts if context.startswith(("sbatch", "srun")) and not self.verbose]
            named = [context for context in self.contexts if context not in jobs]
            named += [counted(len(jobs), "kinds") + " of jobs"] * bool(jobs)
            yield f"contexts: {', '.join(named)} ({', '.join(self.accounts)})"
        if things := sum(self.compared.values()):
            modules = f", {counted(self.modules, 'modules')} of other tools among them" if self.modules else ""
            yield f"compared between nodes: {counted(things, 'things')} of {counted(len(self.compared), 'kinds')}{modules}"
        for finding in self.findings:
            yield ""
            yield from finding_lines(finding, self.finished - self.seconds, verbose=self.verbose)
        if self.matrix and (self.verbose or self.exit_code == 0):
            yield ""
            rows = [[row.entry, _RUNS[row.fit], row.nodes, ", ".join(row.reasons)] for row in self.matrix]
            yield Table(rows, ["entry", "runs", "nodes", "why"])
        yield ""
        yield _summary(self)


class VerboseAuditResult(AuditResult):
    """The same result, which shows all of itself."""

    __slots__ = ()
    verbose = True


@dataclass(frozen=True, slots=True)
class ExplainResult(Result):
    schema: ClassVar[str] = "envmgr.audit-explain/1"
    check: str
    text: str

    def lines(self) -> Lines:
        yield self.text


def _summary(result: AuditResult) -> str:
    """Return one line; it claims agreement only where that was looked at, everywhere."""
    count = Counter(f.severity for f in result.findings)
    words = [counted(count[s], f"{s}s") for s in ("error", "warning", "note") if count[s]]
    if count["error"] or count["warning"] or (result.generation is None and not result.alone):
        first = "fix the first one, and audit again; " if len(result.findings) > 1 else ""
        return f"{', '.join(words)}; {first}`--verbose` shows all of it, `--explain CHECK` what a check does"
    notes = f" ({', '.join(words)})" if words else ""
    generation = f"generation {result.generation}{notes}"
    if not set(result.checks) >= (_ALONE if result.alone else _PROOF):
        return f"no findings by {', '.join(result.checks)}{notes}"
    everywhere = set.intersection(*(set(expand(asked.answered)) for asked in result.asked))
    if not everywhere:
        return f"no node answered in every way{notes}"
    if result.count == 1:
        alone = f"{result.nodes}: no findings, and no other node to compare it with{notes}"
        return alone if result.alone else f"{result.nodes} resolves the published modules: {generation}"
    which, keep = f"all {result.count} nodes", "; `--save-baseline FILE` keeps that, to compare with later"
    if len(everywhere) < result.count:  # the others are busy, or asleep
        which, keep = f"{len(everywhere)} of {result.count} nodes answered in every way, and", ""
    if result.alone:
        return f"{which} have the same modules{notes}{keep}"
    return f"{which} resolve the same modules: {generation}"
