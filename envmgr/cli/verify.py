"""The verb `verify`; `envmgr.cli.app` puts it among its other verbs."""

from __future__ import annotations

from typing import Annotated

import typer

from envmgr.cli.answer import Answer, shown
from envmgr.cli.nodes import OneWay
from envmgr.cli.options import DryRun, Format, FormatOption, SiteOption, SomeEntries
from envmgr.cli.run import open_context, verb
from envmgr.errors import InputError


@verb
def verify(
    entries: SomeEntries = None,
    generation: Annotated[
        list[int] | None,
        typer.Option(metavar="NUMBER", help="This generation (may be repeated); else the current one."),
    ] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Every generation, and every install of the store.")
    ] = False,
    nodes: Annotated[
        str | None, typer.Option(help="On these nodes, through their mount: c[1-3], @gpu.", metavar="SET")
    ] = None,
    via: Annotated[OneWay | None, typer.Option(help="How nodes are asked; else as the site says.")] = None,
    deadline: Annotated[float | None, typer.Option(min=1, help="Seconds that all nodes together may take.")] = None,
    repair: Annotated[
        bool,
        typer.Option("--repair", help="Make again what differs: installs in their place, a generation as a new one."),
    ] = False,
    dry_run: DryRun = False,
    site: SiteOption = None,
    fmt: FormatOption = Format.table,
) -> Answer:
    """Compare what is published with what was written down.

    `current`, generations with their records, installs with their manifests: content, modes, owners, what is missing and
    what is there beside. Each difference is a finding.
    """
    from envmgr.cli.text.verify import show_verify
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

        asked = VerifyNodes(nodes, None if via is None else via.value, deadline)
        return shown(verify_on_nodes(ctx, what, asked), show_verify)
    if repair:
        from envmgr.commands.repair import repair_entries

        return shown(repair_entries(ctx, what, dry_run=dry_run), show_verify)
    return shown(verify_entries(ctx, what), show_verify)
