"""How the set-up of nodes and shells looks."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from envmgr.cli.render import out, table

if TYPE_CHECKING:
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
