"""`envmgr verify`: compare what is published with what was built and published, here or on nodes."""

from __future__ import annotations

from typing import Annotated

from envmgr.errors import InputError
from envmgr.steps import Context
from envmgr.steps.verify import VerifyWhat, look
from envmgr.steps.verify_result import VerifyResult
from envmgr.verbs import DeadlineOption, SomeEntries, ViaOption, needs, option


@needs("mount")
def verify(
    ctx: Context,
    entries: SomeEntries = None,
    generation: Annotated[
        list[int] | None, option("Verify this generation (may be repeated); by default the current one.", "NUMBER")
    ] = None,
    everything: Annotated[
        bool, option("Verify every generation and every install of the store.", None, "--all")
    ] = False,
    nodes: Annotated[
        str | None, option("Verify on these nodes, such as c[1-3] or @gpu, through their mount.", "SET")
    ] = None,
    via: ViaOption = None,
    deadline: DeadlineOption = None,
) -> VerifyResult:
    """Compare what is published with what was recorded.

    It compares `current`, generations with their records, and installs with their manifests: content, modes, owners,
    missing and additional files. Each difference is a finding.
    """
    if nodes is None and (via is not None or deadline is not None):
        raise InputError("verify-options", "--via and --deadline are for nodes", hint="add `--nodes SET`")
    what = VerifyWhat(tuple(entries or ()), tuple(generation or ()), everything)
    if nodes is None:
        return look(ctx, what).result()
    from envmgr.steps.verify_nodes import verify_on_nodes

    return verify_on_nodes(ctx, what, nodes, via=via, deadline=deadline)
