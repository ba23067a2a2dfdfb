"""`envmgr sign`: a new, signed flip for what is current."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from envmgr.builds.install import can_write
from envmgr.commands import Context, published_record
from envmgr.errors import InputError
from envmgr.publish.generations import sign
from envmgr.publish.trust import FlipFault, look_at_current_flip
from envmgr.report import Result


@dataclass(frozen=True, slots=True)
class SignResult(Result):
    """`sequence` is the new flip's, None in a dry run; `faults` is what was wrong with the one before."""

    schema: ClassVar[str] = "envmgr.sign/1"
    generation: int
    sequence: int | None
    faults: tuple[FlipFault, ...]
    dry_run: bool


def sign_current(ctx: Context, *, accept_gap: bool = False, dry_run: bool = False) -> SignResult:
    """With `accept_gap`, flips that are lost and that nothing brings back are no finding any more.

    Raises InputError `signs-nothing`; EnvmgrError `nothing-published`, `generation-changed`, `not-signed`.
    """
    signing, signer = ctx.site.signing, ctx.signer
    if signing is None or signer is None:
        raise InputError(
            "signs-nothing",
            "this site does not sign what it publishes",
            context=f"no `signing` in {ctx.site.source or 'the embedded site'}",
            hint="docs/signing.md tells how a site begins",
        )
    number = published_record(ctx).number
    faults: tuple[FlipFault, ...] = ()
    if (found := look_at_current_flip(ctx.prefix, signing, ctx.runner)) is not None:
        number, faults = found[0], found[1].faults
    if dry_run:
        return SignResult(number, None, faults, True)
    can_write(ctx.site)
    generation, sequence = sign(ctx.prefix, ctx.runner, ctx.reporter, signer=signer, accept_gap=accept_gap)
    return SignResult(generation, sequence, faults, False)
