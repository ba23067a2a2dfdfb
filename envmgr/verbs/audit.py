"""`envmgr audit`: check that every node, in every kind of shell and job, resolves what was published."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from envmgr.audit.formats import format_names
from envmgr.audit.plan import AuditRequest
from envmgr.report import Result
from envmgr.steps import Context
from envmgr.steps.audit import audit_nodes, explain_check
from envmgr.verbs import AuditDryRun, DeadlineOption, Format, GenerationOption, needs, option, plain_file

if TYPE_CHECKING:
    AuditFormat = str
else:  # one of the formats for all verbs, or of those that are files of `audit/formats/`
    AuditFormat = StrEnum("AuditFormat", [(name, name) for name in (*Format, *format_names())])


@needs("nothing")
def audit(
    ctx: Context,
    nodes: Annotated[
        str | None, option("Audit these nodes, such as c[1-3] or @gpu; by default all groups.", "SET")
    ] = None,
    via: Annotated[
        Literal["ssh", "slurm", "both"] | None,
        option("Reach nodes by ssh, Slurm or both; by default as the site says."),
    ] = None,
    context: Annotated[
        list[str] | None, option("Look only at this kind of shell or job (may be repeated).", "CONTEXT")
    ] = None,
    modules: Annotated[
        list[str] | None,
        option("Look closely at this entry (may be repeated), or at `all`; by default at a sample.", "ENTRY"),
    ] = None,
    check: Annotated[
        list[str] | None, option("Run only this check, or section of the inventory (may be repeated).", "CHECK")
    ] = None,
    deep: Annotated[bool, option("Also load all modules of other tools, and look at all of their files.")] = False,
    reference: Annotated[
        str | None, option("Where nodes differ, take this one as right; by default the majority of a group.", "NODE")
    ] = None,
    user: Annotated[str | None, option("Look at the shells and jobs of this ordinary user.", "NAME")] = None,
    baseline: Annotated[
        Path | None, option("Compare with the file of an earlier audit, which --save-baseline wrote.", "FILE")
    ] = None,
    save_baseline: Annotated[
        Path | None, option("Write what the nodes have to this file, to keep it in git.", "FILE", callback=plain_file)
    ] = None,
    node_timeout: Annotated[float | None, option("Wait at most this long for one node.", "SECONDS", min=1)] = None,
    generation: GenerationOption = None,
    deadline: DeadlineOption = None,
    explain: Annotated[str | None, option("Explain what a check does and why.", "CHECK")] = None,
    verbose: Annotated[bool, option("Also show all that follows from each cause.")] = False,
    report: Annotated[
        Path | None,
        option("Write to this file in one step; stdout by default.", "FILE", "--output", callback=plain_file),
    ] = None,
    fmt: Annotated[  # noqa: ARG001 - the frame looks at it
        AuditFormat, option("Write text for people, or a format for programs, CI or node_exporter.", None, "--format")
    ] = Format.table.value,
    dry_run: AuditDryRun = False,
) -> Result:
    """Prove that every node resolves the same modules.

    It looks at every kind of shell and job. It compares each node with the published generation, and what nodes
    have with each other: what differs explains what fails. The exit code is 0 when nothing is wrong, 1 with findings,
    and 3 when it could not audit.
    """
    if explain is not None:
        return explain_check(explain)
    request = AuditRequest(
        nodes=nodes,
        via=via,
        contexts=tuple(context or ()),
        modules=tuple(modules or ()),
        checks=tuple(check or ()),
        deep=deep,
        reference=reference or "",
        user=user,
        baseline=baseline,
        save_baseline=save_baseline,
        node_timeout=node_timeout,
        deadline=deadline,
        dry_run=dry_run,
        verbose=verbose,
        generation=generation,
    )
    if dry_run and report is not None:
        ctx.reporter.say(f"would write {report}")
    return audit_nodes(ctx, request)
