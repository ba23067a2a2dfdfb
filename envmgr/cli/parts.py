"""The verbs that look into installs: find, sbom."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from envmgr.cli import options
from envmgr.cli.run import open_context, verb
from envmgr.report import Result


class SbomFormat(StrEnum):
    """The formats of all verbs, and that of SBOMs."""

    table = "table"
    json = "json"
    cyclonedx = "cyclonedx"


@verb
def find(
    packages: Annotated[
        list[str], typer.Argument(metavar="PACKAGE", help="Names, with versions if you like: 'openssl<3.0.15'.")
    ],
    site: options.SiteOption = None,
    fmt: options.FormatOption = options.Format.table,
) -> Result:
    """Find the entries that have a package.

    It looks into all generations, into what users' environments stand on, and into your own environments. The exit code
    is 1 if something was found or could not be looked at, and 0 if nothing was.
    """
    from envmgr.steps.find import find_packages

    return find_packages(open_context(site, fmt, anywhere=True), packages)


@verb
def sbom(
    entry: Annotated[
        str | None,
        typer.Argument(metavar="[ENTRY]", help="A published entry; with --generation, all of them by default."),
    ] = None,
    generation: Annotated[
        int | None,
        typer.Option("--generation", min=1, metavar="N", help="Look at this generation, not the current one."),
    ] = None,
    report: options.OutputOption = None,
    dry_run: options.AuditDryRun = False,  # noqa: ARG001 - `verb` looks at it
    site: options.SiteOption = None,
    fmt: Annotated[
        SbomFormat,
        typer.Option("--format", help="Text for people, JSON with a versioned schema, or an SBOM for scanners."),
    ] = SbomFormat.table,
) -> Result:
    """Show what an entry is made of, or write it as an SBOM.

    CycloneDX 1.6 has the name, version, purl, sha256, licence and dependencies of each package.
    """
    from envmgr.cli.render import refuse_missing_folder
    from envmgr.steps.sbom import make_sbom

    refuse_missing_folder(report)
    write = fmt is SbomFormat.cyclonedx
    return make_sbom(open_context(site, fmt, anywhere=True), entry, number=generation, write=write)
