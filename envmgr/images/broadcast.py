"""Sends files to nodes by Slurm's own tree (sbcast): the share is read once, for any number of nodes.

Slices are sent, so that a cut-off copy goes on, and so that a rate can be kept. Source: sbcast(1).
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from envmgr.catalog.site import Site
from envmgr.errors import CommandError, EnvmgrError
from envmgr.images.node import SLICE, Wanted
from envmgr.nodes import tool, tool_env
from envmgr.nodes.access import ask_slurm
from envmgr.nodes.allocation import allocated
from envmgr.nodes.slurm import slurm_reason
from envmgr.system.run import Runner
from envmgr.system.scratch import scratch_folder
from envmgr.system.untrusted_files import IMAGE, open_untrusted

_SECONDS = 3600.0  # of the job, at first; sbcast of one slice may take no longer


def broadcast(
    image: Wanted, nodes: Sequence[str], start: int, *, site: Site, runner: Runner, take: Callable[[str], None]
) -> None:
    """Send the image to the nodes from byte `start` on; `take` is called with Slurm's number of the job after each
    slice, which lies on each node as `<name>.<offset>.slice` then.

    Raises EnvmgrError `job-not-started`, `job-refused`, `slurm-unavailable`, `image-not-sent`.
    """
    rate = site.staging.bandwidth
    job = allocated(
        len(nodes),
        nodes,
        slurm=ask_slurm(runner),
        site=site,
        runner=runner,
        user=None,
        seconds=_SECONDS,
        patience=site.transport.queue_timeout,
    )
    with (
        job as held,
        scratch_folder("stage") as scratch,
        open_untrusted(Path(image.image), IMAGE, tree=None) as descriptor,
    ):
        part = scratch / "slice"
        for offset in range(start // SLICE * SLICE, image.size, SLICE):
            began = time.monotonic()
            part.write_bytes(_read(descriptor, offset))
            target = f"{site.staging.folder}/{image.name}.{offset}.slice"
            try:
                argv = [tool("sbcast"), "--force", f"--jobid={held.job}", str(part), target]
                runner.run(argv, env=tool_env(), timeout=_SECONDS)
            except CommandError as error:
                said = slurm_reason(error.stderr.encode()) or error.message
                raise EnvmgrError("image-not-sent", f"sbcast did not send the image to all nodes: {said}") from None
            take(held.job)
            if rate and (left := part.stat().st_size / rate - (time.monotonic() - began)) > 0:
                _sleep(left, runner)


def _read(descriptor: int, offset: int) -> bytes:
    data = b""
    while len(data) < SLICE and (piece := os.pread(descriptor, SLICE - len(data), offset + len(data))):
        data += piece
    return data


def _sleep(seconds: float, runner: Runner) -> None:
    until = time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0:
        runner.raise_if_cancelled()
        time.sleep(min(left, 0.2))
