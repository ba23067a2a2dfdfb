"""The verbs for nodes and shells: test and audit what they get, and make them use the prefix.

They are plain functions; `envmgr.cli.app` puts them among its other verbs, in the order of the help.
"""

from __future__ import annotations

import os
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from envmgr.cli.answer import Answer, shown
from envmgr.cli.options import AuditFormat, DryRun, Format, FormatOption, SiteOption, SomeEntries, plain_file
from envmgr.cli.run import open_context, verb
from envmgr.errors import InputError


class OneWay(StrEnum):
    ssh = "ssh"
    slurm = "slurm"


class Via(StrEnum):
    ssh = "ssh"
    slurm = "slurm"
    both = "both"


@verb
def test(
    entries: SomeEntries = None,
    nodes: Annotated[str | None, typer.Option(help="On these nodes: c[1-3], @gpu.", metavar="SET")] = None,
    via: Annotated[OneWay | None, typer.Option(help="On nodes, reached so; without --nodes, all groups.")] = None,
    count: Annotated[
        int | None, typer.Option("-N", min=1, metavar="COUNT", help="On so many of them, in one Slurm job.")
    ] = None,
    user: Annotated[str | None, typer.Option(help="User that runs them on nodes; never root.", metavar="NAME")] = None,
    deadline: Annotated[float | None, typer.Option(min=1, help="Seconds that all nodes together may take.")] = None,
    site: SiteOption = None,
    fmt: FormatOption = Format.table,
) -> Answer:
    """Run the smoke tests of published entries, here or on nodes.

    On nodes as an ordinary user; exits 1 when a test failed, 3 when a node is not known. Tests of several nodes run with -N.
    """
    from envmgr.cli.text.smoke import show_node_tests, show_tests
    from envmgr.commands.test import run_tests, run_tests_on_nodes

    here = nodes is None and via is None and count is None
    # root must not run an entry's commands as root; on nodes another user runs them, and root's keys are needed
    ctx = open_context(site, fmt, writes_prefix=here and os.geteuid() == 0)
    if not here:
        result = run_tests_on_nodes(
            ctx,
            entries or (),
            nodes=nodes,
            count=count,
            user=user,
            deadline=deadline,
            via=None if via is None else via.value,
        )
        return shown(result, show_node_tests)
    if user is not None or deadline is not None:
        raise InputError(
            "test-user", "--user and --deadline are for nodes", hint="add `--nodes SET`, or `--via ssh` for all"
        )
    return shown(run_tests(ctx, entries or ()), show_tests)


@verb
def job(
    entry: Annotated[str, typer.Argument(metavar="ENTRY", help="A published entry, as name/version.")],
    command: Annotated[
        list[str] | None, typer.Argument(metavar="[-- COMMAND]", help="What it runs, else an example of what it can.")
    ] = None,
    count: Annotated[int, typer.Option("-N", min=1, metavar="COUNT", help="Nodes.")] = 1,
    gpus: Annotated[int, typer.Option("--gpus", min=0, metavar="G", help="GPUs of each node.")] = 0,
    processes: Annotated[
        int | None,
        typer.Option("--ntasks-per-node", min=1, metavar="P", help="Processes on each; else one a GPU, or one."),
    ] = None,
    cpus: Annotated[int | None, typer.Option("--cpus", min=1, metavar="C", help="Cores of each process.")] = None,
    time: Annotated[str | None, typer.Option("--time", metavar="T", help="Time limit, as Slurm writes it.")] = None,
    partition: Annotated[str | None, typer.Option(help="Slurm partition; else the site's.", metavar="NAME")] = None,
    account: Annotated[str | None, typer.Option(help="Slurm account.", metavar="NAME")] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="FILE", help="Write there in one step; else to stdout.", callback=plain_file
        ),
    ] = None,
    dry_run: DryRun = False,
    site: SiteOption = None,
    fmt: FormatOption = Format.table,
) -> Answer:
    """Print a script for sbatch that runs an entry here.

    It loads the module, starts processes as the entry's MPI or torchrun wants it, and tells the job's log what ran.
    """
    from envmgr.cli.report_file import refuse_missing_folder
    from envmgr.cli.text.job import show_job
    from envmgr.commands.job import write_job
    from envmgr.nodes import JobOptions

    if output is not None:
        refuse_missing_folder(output)
    ctx = open_context(site, fmt)
    result = write_job(
        ctx,
        entry,
        command or (),
        nodes=count,
        processes=processes,
        gpus=gpus,
        output=output,
        dry_run=dry_run,
        options=JobOptions(partition=partition, account=account, cpus=cpus, time=time),
    )
    return shown(result, show_job)


@verb
def audit(
    nodes: Annotated[str | None, typer.Option(help="Node set, as c[1-3] or @gpu; else all groups.")] = None,
    via: Annotated[Via | None, typer.Option(help="How nodes are asked; else as the site says.")] = None,
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
) -> Answer:
    """Prove that every node resolves the same modules.

    In every kind of shell and job, against the published generation and node against node. Exits 0 when all is well,
    1 with findings, 3 when it could not audit.
    """
    from envmgr.audit.plan import AuditRequest
    from envmgr.cli.report_file import refuse_missing_folder
    from envmgr.cli.text.audit import show_audit, show_explain
    from envmgr.commands.audit import audit_nodes, explain_check

    for option, file in (("--output", report), ("--save-baseline", save_baseline)):
        if file is not None:
            refuse_missing_folder(file, option)  # before an audit of minutes, and not after it
    if explain is not None:
        return shown(explain_check(explain), show_explain)
    ctx = open_context(site, fmt, told=False, anywhere=True)
    request = AuditRequest(
        nodes=nodes,
        via=None if via is None else via.value,
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
    return shown(audit_nodes(ctx, request), show_audit)


@verb
def adopt(
    nodes: Annotated[str | None, typer.Option(help="Node set, as c[1-3], @slurm:PARTITION.", metavar="SET")] = None,
    via: Annotated[OneWay | None, typer.Option(help="How nodes are asked; else as the site says.")] = None,
    user: Annotated[str | None, typer.Option(metavar="NAME", help="Ordinary user whose modules are looked at.")] = None,
    name: Annotated[str, typer.Option(help="The cluster's name.")] = "cluster",
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write the site there.", callback=plain_file)
    ] = None,
    site: SiteOption = None,
    fmt: FormatOption = Format.table,
) -> Answer:
    """Propose a site.yaml from what nodes tell, and list the modules they have.

    With what made each module, and the catalog's entry that could take it over. Nothing is changed on nodes.
    """
    from envmgr.cli.report_file import refuse_missing_folder
    from envmgr.cli.text.adopt import show_adopt
    from envmgr.commands.adopt import adopt as look

    if output is not None:
        refuse_missing_folder(output)
    ctx = open_context(site, fmt, told=False, anywhere=True)
    return shown(
        look(ctx, nodes=nodes, via=None if via is None else via.value, user=user, name=name, output=output), show_adopt
    )


@verb
def node_setup(
    nodes: Annotated[
        str | None, typer.Option("--nodes", help="Node set, or groups of the site.", metavar="SET")
    ] = None,
    here: Annotated[bool, typer.Option("--here", help="This machine.")] = False,
    apply: Annotated[bool, typer.Option("--apply", help="Do it; without, only show what would change.")] = False,
    undo: Annotated[bool, typer.Option("--undo", help="Take everything away again.")] = False,
    output: Annotated[
        Path | None, typer.Option(help="Write plain files for Ansible and the like.", metavar="DIR")
    ] = None,
    via: Annotated[OneWay | None, typer.Option(help="How nodes are reached; else as the site says.")] = None,
    dry_run: DryRun = False,
    site: SiteOption = None,
    fmt: FormatOption = Format.table,
) -> Answer:
    """What makes modules resolve in every shell and job of a node.

    Shows the files; with --apply puts them on nodes, as root.
    """
    from envmgr.cli.text.nodes import show_node_setup
    from envmgr.commands.node_setup import set_up_nodes

    ctx = open_context(site, fmt)
    result = set_up_nodes(
        ctx,
        apply=apply,
        undo=undo,
        dry_run=dry_run,
        nodes=nodes,
        here=here,
        output=output,
        via=None if via is None else "slurm" if via == OneWay.slurm else "ssh",
    )
    return shown(result, show_node_setup)


@verb
def export(
    to: Annotated[str, typer.Option("--to", help="The tool, such as reframe.", metavar="TOOL")],
    entries: SomeEntries = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="FILE", help="Write there in one step; else to stdout.", callback=plain_file
        ),
    ] = None,
    system: Annotated[
        str | None, typer.Option(help="The cluster's name there; else the site's.", metavar="NAME")
    ] = None,
    nodes: Annotated[str | None, typer.Option(help="Only these nodes of the groups: c[1-3].", metavar="SET")] = None,
    dry_run: DryRun = False,
    site: SiteOption = None,
    fmt: FormatOption = Format.table,
) -> Answer:
    """Write the published entries as a file of another tool.

    For ReFrame a configuration: a partition a node group, an environment an entry.
    """
    from envmgr.cli.report_file import refuse_missing_folder
    from envmgr.cli.text.export import show_export
    from envmgr.commands.export import export_entries

    if output is not None:
        refuse_missing_folder(output)
    ctx = open_context(site, fmt)
    result = export_entries(ctx, entries or (), to=to, system=system, nodes=nodes, output=output, dry_run=dry_run)
    return shown(result, show_export)


@verb
def shell_init(
    shell: Annotated[str, typer.Argument(help="bash, zsh, sh, csh or tcsh.")] = "bash",
    site: SiteOption = None,
    fmt: FormatOption = Format.table,
) -> Answer:
    """The lines that make a shell use the prefix.

    In a shell's start-up file: eval "$(envmgr shell-init)".
    """
    from envmgr.cli.text.nodes import show_shell_init
    from envmgr.commands.shell_init import shell_lines

    ctx = open_context(site, fmt, told=False)
    return shown(shell_lines(ctx, shell), show_shell_init)
