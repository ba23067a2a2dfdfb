"""The verbs that ask nodes: test, verify and audit what they get; adopt and set up what they have."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Literal

import typer

from envmgr.cli import VerbAnswer, answer_with
from envmgr.cli.options import (
    AuditFormat,
    DeadlineOption,
    DryRun,
    Format,
    FormatOption,
    NodesOption,
    OutputOption,
    SiteOption,
    SomeEntries,
    ViaOption,
    plain_file,
)
from envmgr.cli.run import open_context, verb
from envmgr.errors import InputError


@verb
def test(
    entries: SomeEntries = None,
    nodes: Annotated[str | None, typer.Option(help="Run on these nodes: c[1-3], @gpu.", metavar="SET")] = None,
    via: Annotated[
        Literal["ssh", "slurm"] | None,
        typer.Option(help="Reach nodes by ssh or Slurm; all groups unless --nodes is given."),
    ] = None,
    count: Annotated[
        int | None, typer.Option("-N", min=1, metavar="COUNT", help="Run on this many of the nodes, in one Slurm job.")
    ] = None,
    user: Annotated[
        str | None, typer.Option(help="Run tests on nodes as this user, never as root.", metavar="NAME")
    ] = None,
    deadline: DeadlineOption = None,
    site: SiteOption = None,
    fmt: FormatOption = Format.table,
) -> VerbAnswer:
    """Run the smoke tests of published entries, here or on nodes.

    On nodes an ordinary user runs them. The exit code is 1 when a test failed, and 3 when the result of a node is not
    known. Tests that need several nodes run with -N.
    """
    from envmgr.cli.text.nodes import show_node_tests, show_tests
    from envmgr.commands.test import run_tests, run_tests_on_nodes

    here = nodes is None and via is None and count is None
    # root must not run an entry's commands as root; on nodes another user runs them, and root's keys are needed
    ctx = open_context(site, fmt, writes_prefix=here and os.geteuid() == 0)
    if not here:
        result = run_tests_on_nodes(ctx, entries or (), nodes=nodes, count=count, user=user, deadline=deadline, via=via)
        return answer_with(result, show_node_tests)
    if user is not None or deadline is not None:
        raise InputError(
            "test-user", "--user and --deadline are for nodes", hint="add `--nodes SET`, or `--via ssh` for all"
        )
    return answer_with(run_tests(ctx, entries or ()), show_tests)


@verb
def verify(
    entries: SomeEntries = None,
    generation: Annotated[
        list[int] | None,
        typer.Option(metavar="NUMBER", help="Verify this generation (may be repeated); by default the current one."),
    ] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Verify every generation and every install of the store.")
    ] = False,
    nodes: Annotated[
        str | None, typer.Option(help="Verify on these nodes, through their mount: c[1-3], @gpu.", metavar="SET")
    ] = None,
    via: ViaOption = None,
    deadline: DeadlineOption = None,
    repair: Annotated[
        bool, typer.Option("--repair", help="Repair what differs: installs in their place, a generation as a new one.")
    ] = False,
    dry_run: DryRun = False,
    site: SiteOption = None,
    fmt: FormatOption = Format.table,
) -> VerbAnswer:
    """Compare what is published with what was recorded.

    It compares `current`, generations with their records, and installs with their manifests: content, modes, owners,
    missing and additional files. Each difference is a finding.
    """
    from envmgr.cli.text.nodes import show_verify
    from envmgr.commands.verify import VerifyNodes, VerifyWhat, verify_entries

    if dry_run and not repair:
        raise InputError("verify-options", "--dry-run is for --repair: verify alone changes nothing")
    if nodes is None and (via is not None or deadline is not None):
        raise InputError("verify-options", "--via and --deadline are for nodes", hint="add `--nodes SET`")
    if nodes is not None and repair:
        raise InputError(
            "verify-options", "--repair works here, where the prefix can be written", hint="run it without --nodes"
        )
    what = VerifyWhat(tuple(entries or ()), tuple(generation or ()), everything)
    ctx = open_context(site, fmt, writes_prefix=repair and not dry_run)
    if nodes is not None:
        from envmgr.commands.verify_nodes import verify_on_nodes

        asked = VerifyNodes(nodes, via, deadline)
        return answer_with(verify_on_nodes(ctx, what, asked), show_verify)
    if repair:
        from envmgr.commands.repair import repair_entries

        return answer_with(repair_entries(ctx, what, dry_run=dry_run), show_verify)
    return answer_with(verify_entries(ctx, what), show_verify)


@verb
def audit(
    nodes: Annotated[str | None, typer.Option(help="Node set, as c[1-3] or @gpu; else all groups.")] = None,
    via: Annotated[
        Literal["ssh", "slurm", "both"] | None,
        typer.Option(help="Reach nodes by ssh, Slurm or both; by default as the site says."),
    ] = None,
    context: Annotated[list[str] | None, typer.Option(help="Only this context (may be repeated).")] = None,
    modules: Annotated[
        list[str] | None, typer.Option(help="Entries looked at closely (may be repeated), or `all`; else a sample.")
    ] = None,
    check: Annotated[list[str] | None, typer.Option(help="Only this check (may be repeated).")] = None,
    deep: Annotated[
        bool, typer.Option("--deep", help="Hash files of the installs on every node, a sample by the manifest.")
    ] = False,
    reference: Annotated[
        str | None, typer.Option(metavar="NODE", help="Where nodes differ, this one is right; else most of a group.")
    ] = None,
    user: Annotated[
        str | None, typer.Option(metavar="NAME", help="Ordinary user whose shells and jobs are looked at.")
    ] = None,
    baseline: Annotated[
        Path | None, typer.Option("--baseline", metavar="FILE", help="Compare with what nodes had, by --save-baseline.")
    ] = None,
    save_baseline: Annotated[
        Path | None,
        typer.Option("--save-baseline", metavar="FILE", help="Write what nodes have, for git.", callback=plain_file),
    ] = None,
    node_timeout: Annotated[float | None, typer.Option(min=1, help="Seconds that one node may take.")] = None,
    deadline: Annotated[float | None, typer.Option(min=1, help="Seconds that all nodes together may take.")] = None,
    explain: Annotated[str | None, typer.Option(metavar="CHECK", help="Say what a check does and why.")] = None,
    site: SiteOption = None,
    fmt: Annotated[AuditFormat, typer.Option("--format", help="For people, programs, CI, or node_exporter.")] = (
        Format.table.value
    ),
    report: Annotated[
        Path | None,
        typer.Option(
            "--output", metavar="FILE", help="Write there instead of stdout, in one step.", callback=plain_file
        ),
    ] = None,
) -> VerbAnswer:
    """Prove that every node resolves the same modules.

    In every kind of shell and job, against the published generation and node against node. Exits 0 when all is well,
    1 with findings, 3 when it could not audit.
    """
    from envmgr.audit.plan import AuditRequest
    from envmgr.cli.report_file import refuse_missing_folder
    from envmgr.cli.text.nodes import show_audit, show_explain
    from envmgr.commands.audit import audit_nodes, explain_check

    for option, file in (("--output", report), ("--save-baseline", save_baseline)):
        if file is not None:
            refuse_missing_folder(file, option)  # before an audit of minutes, and not after it
    if explain is not None:
        return answer_with(explain_check(explain), show_explain)
    ctx = open_context(site, fmt, told=False, anywhere=True)
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
    )
    return answer_with(audit_nodes(ctx, request), show_audit)


@verb
def adopt(
    nodes: NodesOption = None,
    via: ViaOption = None,
    user: Annotated[str | None, typer.Option(metavar="NAME", help="Ordinary user whose modules are looked at.")] = None,
    name: Annotated[str, typer.Option(help="The cluster's name.")] = "cluster",
    output: OutputOption = None,
    site: SiteOption = None,
    fmt: FormatOption = Format.table,
) -> VerbAnswer:
    """Propose a site.yaml for nodes, and list their modules.

    For each module it shows what made it, and which entry of the catalog could replace it. It changes nothing on nodes.
    """
    from envmgr.cli.report_file import refuse_missing_folder
    from envmgr.cli.text.nodes import show_adopt
    from envmgr.commands.adopt import adopt_cluster

    if output is not None:
        refuse_missing_folder(output)
    ctx = open_context(site, fmt, told=False, anywhere=True)
    result = adopt_cluster(ctx, nodes=nodes, via=via, user=user, name=name, output=output)
    return answer_with(result, show_adopt)


@verb
def node_setup(
    nodes: Annotated[
        str | None, typer.Option("--nodes", help="Node set, such as c[1-3], or groups of the site.", metavar="SET")
    ] = None,
    here: Annotated[bool, typer.Option("--here", help="Set up this machine.")] = False,
    apply: Annotated[bool, typer.Option("--apply", help="Make the changes; by default they are only shown.")] = False,
    undo: Annotated[bool, typer.Option("--undo", help="Remove all files and lines again.")] = False,
    output: Annotated[
        Path | None,
        typer.Option(help="Write plain files to this folder, for Ansible and similar tools.", metavar="DIR"),
    ] = None,
    via: ViaOption = None,
    dry_run: DryRun = False,
    site: SiteOption = None,
    fmt: FormatOption = Format.table,
) -> VerbAnswer:
    """Set up nodes so that every shell and job finds the modules.

    It shows the files. With --apply it installs them on nodes, as root.
    """
    from envmgr.cli.text.nodes import show_node_setup
    from envmgr.commands.node_setup import set_up_nodes

    ctx = open_context(site, fmt)
    result = set_up_nodes(ctx, apply=apply, undo=undo, dry_run=dry_run, nodes=nodes, here=here, output=output, via=via)
    return answer_with(result, show_node_setup)
