"""Audits, tests, node set-up, shell lines, job scripts, exports, schemas and proposed sites as text."""

from __future__ import annotations

import json
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from envmgr.cli.render import out, table
from envmgr.wording import counted

if TYPE_CHECKING:
    from envmgr.audit.grouping import Caused
    from envmgr.commands import adopt, audit, exchange, export, job, node_setup, schema, shell_init, test, verify
    from envmgr.report import Finding
    from envmgr.smoke import SmokeOutcome


def show_node_setup(result: node_setup.NodeSetupResult) -> None:
    if result.action == "show":
        for file in result.files:
            out(f"# {file.path}  {file.mode or 'lines'}: {file.why}")
            out(file.text)
    elif result.action == "output":
        out(f"{'would write' if result.dry_run else 'wrote'} {result.output}: README says what is what")
    table([o.status, o.path, o.nodes, o.reason] for o in result.outcomes)
    for failure in result.failures:
        out(f"{failure.status}: {failure.nodes}: {failure.reason}")
    if result.command:
        out(f"nothing was changed; `{result.command}` does it")
    for line in result.to_do:
        out(line)


def show_shell_init(result: shell_init.ShellInitResult) -> None:
    sys.stdout.write(result.text)


def show_schema(result: schema.SchemaResult) -> None:
    sys.stdout.write(json.dumps(result.document, indent=1) + "\n")


def show_schemas(result: schema.SchemaList) -> None:
    for name in result.names:
        out(name)


def show_job(result: job.JobResult) -> None:
    if result.output is None:
        sys.stdout.write(result.text)
        return
    done = "would write" if result.dry_run else "wrote"
    out(f"{done} {result.output}: {result.entry} of generation {result.generation}; `sbatch {result.output}`")


def show_export(result: export.ExportResult) -> None:
    if result.output is None:
        sys.stdout.write(result.text)
        return
    done = "would write" if result.dry_run else "wrote"
    entries = f"{counted(len(result.entries), 'entries')} of generation {result.generation}"
    out(f"{done} {result.output}: {entries} for {result.to}, as {result.system}")
    for part in result.parts:
        out(f"  {part.name}: {part.nodes or 'this host'}, {counted(len(part.entries), 'entries')}")


def show_exported_lock(result: exchange.ExportedLock) -> None:
    if result.output is None:
        sys.stdout.write(result.text)
    else:
        done = "would write" if result.dry_run else "wrote"
        out(f"{done} {result.output}: {counted(result.packages, 'packages')} of {result.entry} for {result.to}")


def show_adopt(result: adopt.AdoptResult) -> None:
    if not result.nodes:
        out("no node answered")
        return
    if result.modules:
        rows = [[m.name, m.version, m.made_by, m.nodes, m.entry, m.software] for m in result.modules]
        table(rows, header=["module", "version", "made by", "nodes", "in the catalog", "software"])
    else:
        out("no modules were found there")
    for tree in result.trees:
        told = tree.why or f"{counted(tree.entries, 'installs')}; `envmgr import --from {tree.format} {tree.path}`"
        out(f"{tree.path}: {tree.format}: {told}")
    out()
    if result.output is not None and not result.dry_run:
        out(f"wrote {result.output}; `envmgr site check --site {result.output}` looks at it")
    else:
        sys.stdout.write(result.text)
        out()
        if result.output is not None:
            out(f"would write that to {result.output}")
        out("`--output FILE` writes that")
    more = "; there are more: the look was cut off after its time" if result.cut else ""
    silent = f"; no answer from {result.silent}" if result.silent else ""
    out(f"{counted(len(result.modules), 'modules')} on {result.nodes}{more}{silent}; nothing was changed there")


def show_audit(result: audit.AuditResult, *, verbose: bool = False) -> None:
    """Print findings as blocks, worst first, and then one line that sums up; if `verbose`, also all
    consequences, and always which entry runs where.
    """
    what = f"generation {result.generation}, {counted(len(result.entries), 'entries')}"
    if result.generation is None:
        what = "modules of this cluster" if result.alone else why_no_comparison(result)
    away = f"; the prefix cannot be used on {result.away}" if result.away else ""
    ways = " and ".join(sorted({"Slurm" if a.way.startswith("slurm") else a.way for a in result.asked}, reverse=True))
    out(f"{what}; {result.nodes} by {ways} in {result.seconds:.1f} s{away}")
    if result.contexts:
        jobs = [context for context in result.contexts if context.startswith(("sbatch", "srun")) and not verbose]
        named = [context for context in result.contexts if context not in jobs]
        named += [counted(len(jobs), "kinds") + " of jobs"] * bool(jobs)
        out(f"contexts: {', '.join(named)} ({', '.join(result.accounts)})")
    if things := sum(result.compared.values()):
        modules = f", {counted(result.modules, 'modules')} of other tools among them" if result.modules else ""
        out(
            f"compared between nodes: {counted(things, 'things')} by {counted(len(result.compared), 'checks')}{modules}"
        )
    for finding in result.findings:
        out()
        show_finding(finding, result.finished - result.seconds, verbose=verbose)
    if result.matrix and (verbose or result.exit_code == 0):
        out()
        table(
            [[row.entry, _RUNS[row.fit], row.nodes, ", ".join(row.reasons)] for row in result.matrix],
            header=["entry", "runs", "nodes", "why"],
        )
    out()
    out(_summary(result))


_RUNS = {True: "yes", False: "no", None: "not known"}


def show_explain(result: audit.ExplainResult) -> None:
    out(result.text)


def place(finding: Finding) -> str:
    """Return the nodes of which it is true."""
    return finding.nodes or (f"{finding.between} differ" if finding.between else "here")


def why_no_comparison(result: audit.AuditResult) -> str:
    """Return what an audit lacked that could compare nothing (exit code 3)."""
    if result.generation is None and not result.alone:
        return result.unread.text if result.unread else "this host cannot read the published generation"
    return "no node answered"


def show_finding(finding: Caused, began: float = 0.0, *, verbose: bool = False) -> None:
    """Print one cause as a block; `since` is printed if it was seen before `began`."""
    out(f"{finding.severity}[{finding.check}] {place(finding)}: {finding.where}")
    rows = [("  found", finding.found), ("  expected", finding.expected), ("  hint", finding.hint)]
    rows.append(("  also", "" if verbose else also(finding)))
    if finding.since is not None and finding.since < began:
        rows.append(("  since", time.strftime("%Y-%m-%d %H:%M", time.localtime(finding.since))))
    table([row for row in rows if row[1]])
    for consequence in finding.consequences if verbose else ():
        out(f"  from it: {consequence.severity}[{consequence.check}] {place(consequence)}: {consequence.where}")
        table(
            [("    found", consequence.found), ("    expected", consequence.expected), ("    hint", consequence.hint)]
        )


def _single_places(where: str) -> Iterator[str]:
    """Yield the places of a finding, of which `joined_places` made one: `NAME (ACCOUNT)` for each shell."""
    for of in where.split("; "):
        names, bracket, accounts = of.partition(" (")
        for name in names.split(", "):
            for account in accounts.rstrip(")").split(", "):
                yield f"{name} ({account})" if bracket else name


_SHELLS = 3  # of one account, which follow from one cause


def also(finding: Caused) -> str:
    """Return what follows from the cause of a finding: `contexts: csh (root, alice); loading on c2: pydata/1.0`, with the
    nodes where they are not those of the finding.
    """
    from envmgr.audit.grouping import joined_places

    places: dict[str, list[str]] = {}
    for consequence in finding.consequences:
        nodes, own = (one.nodes or one.between for one in (consequence, finding))
        of = f"{consequence.check} on {nodes}" if nodes and nodes != own else consequence.check
        places.setdefault(of, []).extend(_single_places(consequence.where))
    return "; ".join(f"{check}: {joined_places(where, _SHELLS)}" for check, where in places.items())


_PROOF = {"contexts", "resolution", "loading"}
_ALONE = {"contexts", "resolution", "modulefiles", "site-modules"}


def _summary(result: audit.AuditResult) -> str:
    """Return one line; it claims agreement only where that was looked at, everywhere."""
    from envmgr.nodes.sets import expand  # other verbs ask no nodes

    count = Counter(f.severity for f in result.findings)
    words = [counted(count[s], f"{s}s") for s in ("error", "warning", "note") if count[s]]
    if count["error"] or count["warning"] or (result.generation is None and not result.alone):
        first = "fix the first one, and audit again; " if len(result.findings) > 1 else ""
        return f"{', '.join(words)}; {first}`--verbose` shows all of it, `--explain CHECK` what a check does"
    notes = f" ({', '.join(words)})" if words else ""
    if not set(result.checks) >= (_ALONE if result.alone else _PROOF):
        return f"no findings by {', '.join(result.checks)}{notes}"
    everywhere = set.intersection(*(set(expand(asked.answered)) for asked in result.asked))
    if not everywhere:
        return f"no node answered in every way{notes}"
    if result.alone:
        return _alone(result, len(everywhere), notes)
    generation = f"generation {result.generation}{notes}"
    if len(everywhere) < result.count:  # the others are busy, or asleep
        answered = f"{len(everywhere)} of {result.count} nodes answered in every way"
        return f"{answered}, and resolve the same modules: {generation}"
    if result.count == 1:
        return f"{result.nodes} resolves the published modules: {generation}"
    return f"all {result.count} nodes resolve the same modules: {generation}"


def _alone(result: audit.AuditResult, everywhere: int, notes: str) -> str:
    if result.count == 1:
        return f"{result.nodes}: no findings, and no other node to compare it with{notes}"
    if everywhere < result.count:
        return f"{everywhere} of {result.count} nodes answered in every way, and have the same modules{notes}"
    return f"all {result.count} nodes have the same modules{notes}; `--save-baseline FILE` keeps that, to compare with later"


_MARKS = {"passed": "ok", "failed": "FAILED", "skipped": "not tried", "not-run": "not run"}
_REASONED = ("skipped", "not-run")  # whose detail is why


def show_tests(result: test.TestResult) -> None:
    show_outcomes(result.tests)
    out(f"generation {result.generation}")


def show_node_tests(result: test.NodeTestResult) -> None:
    for test in result.tests:
        fastest, slowest = f"{test.fastest:.1f}", f"{test.seconds:.1f}"
        known = test.detail if test.status in _REASONED else f"{fastest}{f'-{slowest}' * (slowest != fastest)} s"
        status = _MARKS[test.status] if test.status in _REASONED else test.status
        out(f"{test.entry} {test.test}: {status}{f' on {test.nodes}' if test.nodes else ''} ({known})")
        if test.status == "failed":
            for line in test.detail.splitlines()[-12:]:
                out(f"  {line}")
    for missing in result.missing:
        out(f"{missing.status}: {missing.nodes}: {missing.reason}")
    way = "Slurm" if result.via == "slurm" else result.via
    out(f"generation {result.generation}, on {counted(result.count, 'nodes')} by {way}, as {result.user}")


def show_outcomes(tests: Iterable[SmokeOutcome]) -> None:
    for test in tests:
        how = f"({test.detail})" if test.status in _REASONED else f"in {test.seconds:.1f} s"
        out(f"test {test.entry} `{test.test}`: {_MARKS[test.status]} {how}")
        if test.status == "failed":
            for line in test.detail.splitlines()[-12:]:
                out(f"  {line}")


def show_verify(result: verify.VerifyResult) -> None:
    for finding in result.findings:
        on = f"{finding.nodes}: " if finding.nodes else ""
        out(f"{finding.severity}[{finding.check}]: {on}{finding.where}: {finding.found}")
    for hint in dict.fromkeys(f.hint for f in result.findings if f.hint):
        out(f"hint: {hint}")
    for line in result.not_looked_at:
        out(f"not looked at: {line}")
    for path, places in result.made_at.items():
        where = ", ".join(places)
        out(f"not reproducible: {path}: built in {where}: elsewhere, or by another user, its files may differ")
    if result.flip:
        out(result.flip)
    on = f", on {result.nodes}" if result.nodes else ", on no node" if result.not_verified else ""
    wrong = {f.where.split("/")[1] for f in result.findings if f.check == "generation"}
    out(f"{counted(len(result.generations), 'generations')} verified{on}, {_differ(len(wrong), 'record')}")
    bad = {f.where for f in result.findings if f.check == "install"}
    out(f"{counted(len(result.checked), 'installs')} verified{on}, {_differ(len(bad), 'manifest')}")
    if result.not_ours:
        wrong = {f.where for f in result.findings if f.check == "not-ours"}
        trees = counted(len({*result.not_ours.values()}), "trees")
        out(f"not ours: {trees} looked at here, {_differ(len(wrong), 'record')}")
    if result.images:
        wrong = {f.where for f in result.findings if f.check == "image"}
        out(f"{counted(len(result.images), 'images')} verified, {_differ(len(wrong), 'record')}")
    if result.not_verified:
        out(f"not verified: {result.not_verified}")


def _differ(count: int, of: str) -> str:
    return f"{count} {'differs from its' if count == 1 else 'differ from their'} {of}"
