"""Node set-up, shell lines, job scripts, exports and proposed sites as text."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from envmgr.cli.render import out, table
from envmgr.wording import counted

if TYPE_CHECKING:
    from envmgr.commands.adopt import AdoptResult
    from envmgr.commands.export import ExportResult
    from envmgr.commands.job import JobResult
    from envmgr.commands.node_setup import NodeSetupResult
    from envmgr.commands.shell_init import ShellInitResult


def show_node_setup(result: NodeSetupResult) -> None:
    if result.action == "show":
        for file in result.files:
            out(f"# {file.path}  {file.mode or 'lines'}: {file.why}")
            out(file.text)
    elif result.action == "output":
        out(f"{'would write' if result.dry_run else 'wrote'} {result.output}: README says what is what")
    table([o.status, o.path, o.nodes, o.reason] for o in result.outcomes)
    for failure in result.failures:
        out(f"{failure.status}: {failure.nodes}: {failure.reason}")
    for line in result.to_do:
        out(line)


def show_shell_init(result: ShellInitResult) -> None:
    sys.stdout.write(result.text)


def show_job(result: JobResult) -> None:
    if result.output is None:
        sys.stdout.write(result.text)
        return
    done = "would write" if result.dry_run else "wrote"
    out(f"{done} {result.output}: {result.entry} of generation {result.generation}; `sbatch {result.output}`")


def show_export(result: ExportResult) -> None:
    if result.output is None:
        sys.stdout.write(result.text)
        return
    done = "would write" if result.dry_run else "wrote"
    entries = f"{counted(len(result.entries), 'entries')} of generation {result.generation}"
    out(f"{done} {result.output}: {entries} for {result.to}, as {result.system}")
    for part in result.parts:
        out(f"  {part.name}: {part.nodes or 'this host'}, {counted(len(part.entries), 'entries')}")


def show_adopt(result: AdoptResult) -> None:
    if not result.nodes:
        out("no node answered")
        return
    if result.modules:
        rows = [[m.name, m.version, m.made_by, m.nodes, m.entry, m.root] for m in result.modules]
        table(rows, header=["module", "version", "made by", "nodes", "in the catalog", "software"])
    else:
        out("no modules were found there")
    out()
    if result.output is not None:
        out(f"wrote {result.output}; `envmgr site check --site {result.output}` explains it")
    else:
        sys.stdout.write(result.text)
        out()
        out("`--output FILE` writes that")
    more = "; there are more: the look was cut off after its time" if result.cut else ""
    silent = f"; no answer from {result.silent}" if result.silent else ""
    out(f"{counted(len(result.modules), 'modules')} on {result.nodes}{more}{silent}; nothing was changed there")
