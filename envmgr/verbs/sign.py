"""`envmgr sign`: sign the current generation again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from envmgr.builds.prepare import can_write
from envmgr.errors import InputError
from envmgr.publish.flip_checks import FlipFault, look_at_current_flip
from envmgr.publish.generations import sign as sign_again
from envmgr.report import Lines, Result
from envmgr.steps import Context, published_record
from envmgr.system.files import shipped
from envmgr.verbs import DryRun, needs, option


@dataclass(frozen=True, slots=True)
class SignResult(Result):
    """The result of `sign`. `sequence` is the new flip's, None in a dry run; `faults` are those of the flip before."""

    schema: ClassVar[str] = "envmgr.sign/1"
    generation: int
    sequence: int | None
    faults: tuple[FlipFault, ...]
    dry_run: bool

    def lines(self) -> Lines:
        for fault in self.faults:
            yield f"{'is' if self.dry_run else 'was'} {fault.state}: {fault.path}: {fault.found}"
        if self.sequence is None and any(fault.state == "replayed" for fault in self.faults):
            yield f"would not sign generation {self.generation}: `envmgr verify` says how to fix it"
        elif self.sequence is None:
            yield f"would sign generation {self.generation}"
        else:
            yield f"signed generation {self.generation}: flip {self.sequence}; nodes take it at their next check"


@needs("write")
def sign(
    ctx: Context,
    accept_gap: Annotated[
        bool,
        option("Record with a signature that missing flips are lost for good, so that envmgr no longer reports them."),
    ] = False,
    dry_run: DryRun = False,
) -> SignResult:
    """Sign the current generation again.

    Use it where signing began after the generation was published, or where its signature is no longer good.
    """
    signing, signer = ctx.site.signing, ctx.signer
    if signing is None or signer is None:
        context = f"no `signing` in {ctx.site.source or 'the embedded site'}"
        hint = f"{shipped('docs') / 'signing.md'} tells how a site begins"
        raise InputError("signs-nothing", "this site does not sign what it publishes", context=context, hint=hint)
    number = published_record(ctx).number
    faults: tuple[FlipFault, ...] = ()
    if (found := look_at_current_flip(ctx.prefix, signing, ctx.runner)) is not None:
        # Another publish may have come since `number` was read: the look says what is current by now.
        number, faults = found[0], found[1].faults
    if dry_run:
        return SignResult(number, None, faults, True)
    can_write(ctx.site)
    generation, sequence = sign_again(ctx.prefix, ctx.runner, ctx.reporter, signer=signer, accept_gap=accept_gap)
    return SignResult(generation, sequence, faults, False)
