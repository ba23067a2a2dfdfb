"""The verbs that ask nodes: test, verify and audit what they get; adopt and set up what they have."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Literal

import typer

from envmgr.cli import options
from envmgr.cli.run import open_context, verb
from envmgr.errors import InputError
from envmgr.report import Result


@verb
def test(
    entries: options.SomeEntries = None,
    nodes: Annotated[
        str | None,
        typer.Option(
            metavar="SET", help="Run the tests on these nodes, such as c[1-3] or @gpu; by default on this machine."
        ),
    ] = None,
    via: Annotated[
        Literal["ssh", "slurm"] | None,
        typer.Option(help="Run the tests on nodes, by ssh or in Slurm jobs; on all groups unless you give --nodes."),
    ] = None,
    count: Annotated[
        int | None,
        typer.Option(
            "-N", min=1, metavar="COUNT", help="Run each test once, in one Slurm job on this many of the nodes."
        ),
    ] = None,
    user: Annotated[
        str | None, typer.Option(metavar="NAME", help="Run the tests on nodes as this user, who must not be root.")
    ] = None,
    generation: options.GenerationOption = None,
    deadline: options.DeadlineOption = None,
    site: options.SiteOption = None,
    fmt: options.FormatOption = options.Format.table,
) -> Result:
    """Run the smoke tests of published entries, here or on nodes.

    On nodes an ordinary user runs them. The exit code is 1 when a test failed, and 3 when the result of a node is not
    known. Tests that need several nodes run with -N.
    """
    from envmgr.steps.test import run_tests, run_tests_on_nodes

    here = nodes is None and via is None and count is None
    # root must not run an entry's commands as root; on nodes another user runs them, and root's keys are needed
    ctx = open_context(site, fmt, writes_prefix=here and os.geteuid() == 0)
    if not here:
        return run_tests_on_nodes(
            ctx, entries or (), nodes=nodes, count=count, user=user, deadline=deadline, via=via, generation=generation
        )
    if user is not None or deadline is not None:
        raise InputError(
            "test-user", "--user and --deadline are for nodes", hint="add `--nodes SET`, or `--via ssh` for all"
        )
    return run_tests(ctx, entries or (), generation)


@verb
def verify(
    entries: options.SomeEntries = None,
    generation: Annotated[
        list[int] | None,
        typer.Option(metavar="NUMBER", help="Verify this generation (may be repeated); by default the current one."),
    ] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Verify every generation and every install of the store.")
    ] = False,
    nodes: Annotated[
        str | None,
        typer.Option(help="Verify on these nodes, such as c[1-3] or @gpu, through their mount.", metavar="SET"),
    ] = None,
    via: options.ViaOption = None,
    deadline: options.DeadlineOption = None,
    site: options.SiteOption = None,
    fmt: options.FormatOption = options.Format.table,
) -> Result:
    """Compare what is published with what was recorded.

    It compares `current`, generations with their records, and installs with their manifests: content, modes, owners,
    missing and additional files. Each difference is a finding.
    """
    from envmgr.steps.verify import VerifyWhat, verify_entries

    if nodes is None and (via is not None or deadline is not None):
        raise InputError("verify-options", "--via and --deadline are for nodes", hint="add `--nodes SET`")
    what = VerifyWhat(tuple(entries or ()), tuple(generation or ()), everything)
    ctx = open_context(site, fmt)
    if nodes is not None:
        from envmgr.steps.verify_nodes import verify_on_nodes

        return verify_on_nodes(ctx, what, nodes, via=via, deadline=deadline)
    return verify_entries(ctx, what)


@verb
def audit(
    nodes: Annotated[
        str | None,
        typer.Option(metavar="SET", help="Audit these nodes, such as c[1-3] or @gpu; by default all groups."),
    ] = None,
    via: Annotated[
        Literal["ssh", "slurm", "both"] | None,
        typer.Option(help="Reach nodes by ssh, Slurm or both; by default as the site says."),
    ] = None,
    context: Annotated[
        list[str] | None,
        typer.Option(metavar="CONTEXT", help="Look only at this kind of shell or job (may be repeated)."),
    ] = None,
    modules: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ENTRY", help="Look closely at this entry (may be repeated), or at `all`; by default at a sample."
        ),
    ] = None,
    check: Annotated[
        list[str] | None, typer.Option(metavar="CHECK", help="Run only this check (may be repeated).")
    ] = None,
    deep: Annotated[
        bool,
        typer.Option(
            "--deep", help="Also hash files of the installs on every node, and load all modules of other tools."
        ),
    ] = False,
    reference: Annotated[
        str | None,
        typer.Option(
            metavar="NODE", help="Where nodes differ, take this one as right; by default the majority of a group."
        ),
    ] = None,
    user: Annotated[
        str | None, typer.Option(metavar="NAME", help="Look at the shells and jobs of this ordinary user.")
    ] = None,
    baseline: Annotated[
        Path | None,
        typer.Option(
            "--baseline", metavar="FILE", help="Compare with the file of an earlier audit, which --save-baseline wrote."
        ),
    ] = None,
    save_baseline: Annotated[
        Path | None,
        typer.Option(
            "--save-baseline",
            metavar="FILE",
            help="Write what the nodes have to this file, to keep it in git.",
            callback=options.plain_file,
        ),
    ] = None,
    node_timeout: Annotated[
        float | None, typer.Option(min=1, metavar="SECONDS", help="Wait at most this long for one node.")
    ] = None,
    generation: options.GenerationOption = None,
    deadline: options.DeadlineOption = None,
    explain: Annotated[str | None, typer.Option(metavar="CHECK", help="Explain what a check does and why.")] = None,
    verbose: Annotated[bool, typer.Option("--verbose", help="Also show all that follows from each cause.")] = False,
    site: options.SiteOption = None,
    fmt: Annotated[
        options.AuditFormat,
        typer.Option("--format", help="Write text for people, or a format for programs, CI or node_exporter."),
    ] = options.Format.table.value,
    report: Annotated[
        Path | None,
        typer.Option(
            "--output",
            metavar="FILE",
            help="Write to this file in one step; stdout by default.",
            callback=options.plain_file,
        ),
    ] = None,
    dry_run: options.AuditDryRun = False,
) -> Result:
    """Prove that every node resolves the same modules.

    It looks at every kind of shell and job. It compares each node with the published generation, and nodes with each
    other. The exit code is 0 when nothing is wrong, 1 with findings, and 3 when it could not audit.
    """
    from envmgr.audit.plan import AuditRequest
    from envmgr.cli.render import refuse_missing_folder
    from envmgr.steps.audit import audit_nodes, explain_check

    for option, file in (("--output", report), ("--save-baseline", save_baseline)):
        refuse_missing_folder(file, option)  # before an audit of minutes, and not after it
    if explain is not None:
        return explain_check(explain)
    ctx = open_context(site, fmt, told=False, anywhere=True, away=True)
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


@verb
def adopt(
    nodes: options.NodesOption = None,
    via: options.ViaOption = None,
    user: Annotated[str | None, typer.Option(metavar="NAME", help="Look at the modules of this ordinary user.")] = None,
    name: Annotated[str, typer.Option(metavar="NAME", help="Name of the cluster.")] = "cluster",
    output: options.OutputOption = None,
    dry_run: options.DryRun = False,
    site: options.SiteOption = None,
    fmt: options.FormatOption = options.Format.table,
) -> Result:
    """Propose a site.yaml for nodes, and list their modules.

    For each module it shows what made it, and which entry of the catalog could replace it. It changes nothing on nodes.
    """
    from envmgr.cli.render import refuse_missing_folder
    from envmgr.steps.adopt import adopt_cluster

    refuse_missing_folder(output)
    ctx = open_context(site, fmt, told=False, anywhere=True, away=True)
    return adopt_cluster(ctx, nodes=nodes, via=via, user=user, name=name, output=output, dry_run=dry_run)


@verb
def node_setup(
    nodes: Annotated[
        str | None, typer.Option("--nodes", help="Set up these nodes, such as c[1-3] or @gpu.", metavar="SET")
    ] = None,
    here: Annotated[bool, typer.Option("--here", help="Set up this machine.")] = False,
    apply: Annotated[bool, typer.Option("--apply", help="Make the changes; by default they are only shown.")] = False,
    undo: Annotated[
        bool, typer.Option("--undo", help="Show what would be removed again; with --apply, remove it.")
    ] = False,
    output: Annotated[
        Path | None,
        typer.Option(help="Write plain files to this folder, for Ansible and similar tools.", metavar="DIR"),
    ] = None,
    via: options.ViaOption = None,
    dry_run: options.DryRun = False,
    site: options.SiteOption = None,
    fmt: options.FormatOption = options.Format.table,
) -> Result:
    """Set up nodes so that every shell and job finds the modules.

    It shows the files, and with --nodes what would change there. With --apply it makes these changes, as root; with
    --undo --apply it takes them back.
    """
    from envmgr.steps.node_setup import set_up_nodes

    ctx = open_context(site, fmt, away=True)
    return set_up_nodes(ctx, apply=apply, undo=undo, dry_run=dry_run, nodes=nodes, here=here, output=output, via=via)
