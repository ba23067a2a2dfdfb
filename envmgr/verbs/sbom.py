"""`envmgr sbom`: what an entry, or a whole generation, is made of. It changes nothing but the file that it is asked for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, ClassVar

from envmgr.errors import InputError
from envmgr.exchange.sboms import write_sbom
from envmgr.exchange.sboms.document import Component
from envmgr.report import Lines, Result, Table, Verbatim
from envmgr.steps import Context, published_record, require_published
from envmgr.steps.sboms import PartsOfEntries, make_document
from envmgr.verbs import AuditDryRun, OutputOption, argument, needs, option
from envmgr.wording import counted


@dataclass(frozen=True, slots=True)
class SbomPart:
    """A package. `needs` are the `ref` of other parts; `carried` are SBOMs that it brings, relative to its install."""

    ref: str
    ecosystem: str
    name: str
    version: str
    build: str
    sha256: str
    licence: str
    needs: tuple[str, ...]
    carried: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SbomResult(Result):
    """The parts of entries of a generation: `members` maps each to the `ref` of its parts. `text` is the document in a
    format of scanners, empty if none was asked for.
    """

    schema: ClassVar[str] = "envmgr.sbom/1"
    of: str
    generation: int
    parts: tuple[SbomPart, ...]
    members: Mapping[str, tuple[str, ...]]
    text: str

    def lines(self) -> Lines:
        """Print the document as it is, or a table of its parts."""
        if self.text:
            yield Verbatim(self.text)
            return
        rows = [
            (p.name, p.version, p.ecosystem, p.licence or "not known", p.sha256[:12], *p.carried) for p in self.parts
        ]
        yield Table(rows, ("package", "version", "of", "licence", "sha256", "its own SBOMs"))
        yield f"\n{self.of}: {counted(len(self.parts), 'packages')}, generation {self.generation}"


class SbomFormat(StrEnum):
    """The formats of all verbs, and that of SBOMs."""

    table = "table"
    json = "json"
    cyclonedx = "cyclonedx"


@needs("prefix")
def sbom(
    ctx: Context,
    entry: Annotated[
        str | None, argument("A published entry; with --generation, all of them by default.", "[ENTRY]")
    ] = None,
    generation: Annotated[int | None, option("Look at this generation, not the current one.", "N", min=1)] = None,
    report: OutputOption = None,  # noqa: ARG001 - the frame looks at it
    dry_run: AuditDryRun = False,  # noqa: ARG001 - the frame looks at it
    fmt: Annotated[
        SbomFormat, option("Text for people, JSON with a versioned schema, or an SBOM for scanners.", None, "--format")
    ] = SbomFormat.table,
) -> SbomResult:
    """Show what an entry is made of, or write it as an SBOM.

    CycloneDX 1.6 has the name, version, purl, sha256, licence and dependencies of each package.
    """
    if entry is None and generation is None:
        raise InputError("entry-missing", "name an entry, or a generation", hint="`envmgr sbom --generation NUMBER`")
    record = published_record(ctx, generation)
    require_published([entry] if entry else [], record)
    names = [entry] if entry else sorted(record.entries)
    read = PartsOfEntries(ctx)
    members = {each: read.entry(record.entries[each].paths) for each in names}
    title = entry or f"{ctx.site.name}/generation-{record.number}"
    document = make_document(record.entries, title, members, read, entry, record.created)
    return SbomResult(
        of=f"{document.name}/{document.version}",
        generation=record.number,
        parts=tuple(map(_row, document.components)),
        members=members,
        text=write_sbom(document) if fmt is SbomFormat.cyclonedx else "",
    )


def _row(each: Component) -> SbomPart:
    part, carried = each.part, tuple(own.path for own in each.carried)
    words = (part.ecosystem, part.name, part.version, part.build, part.sha256)
    return SbomPart(each.ref, *words, each.licence, each.needs, carried)
