"""Sends images to nodes, by Slurm's own tree (sbcast) or by ssh from this host: the share is read once, for any number of nodes.

Slices are sent, so that a cut-off copy goes on, and so that a rate can be kept. Each lies on a node as `<name>.<offset>.slice`, until the
node has taken it. Source: sbcast(1).
"""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from envmgr.catalog.site import Site
from envmgr.errors import CommandError, EnvmgrError
from envmgr.images.node import SLICE, WantedImage
from envmgr.nodes import tool, tool_env
from envmgr.nodes.access import ask_slurm
from envmgr.nodes.allocation import allocated
from envmgr.nodes.slurm import slurm_reason
from envmgr.nodes.ssh import command
from envmgr.system.run import Runner
from envmgr.system.scratch import scratch_folder
from envmgr.system.untrusted_files import IMAGE, open_untrusted

_SECONDS = 3600.0  # of the job, at first; sbcast of one slice may take no longer
_AT_ONCE = 4  # nodes that this host sends to
_FROM_FILE = ("/bin/sh", "-c", 'exec "$@" <"$0"')


def broadcast(
    image: WantedImage, nodes: Sequence[str], start: int, *, site: Site, runner: Runner, take: Callable[[str], None]
) -> None:
    """Send the image to the nodes from byte `start` on, by sbcast; `take` is called with Slurm's number of the job after
    each slice.

    Raises EnvmgrError `job-not-started`, `job-refused`, `slurm-unavailable`, `image-not-sent`.
    """
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
    with job as held:

        def send(part: Path, target: str) -> bool:
            try:
                argv = [tool("sbcast"), "--force", f"--jobid={held.job}", str(part), target]
                runner.run(argv, env=tool_env(), timeout=_SECONDS)
            except CommandError as error:
                said = slurm_reason(error.stderr.encode()) or error.message
                raise EnvmgrError("image-not-sent", f"sbcast did not send the image to all nodes: {said}") from None
            take(held.job)
            return True

        _each_slice(image, start, send, site=site, runner=runner)


def send_by_ssh(
    image: WantedImage,
    nodes: Sequence[str],
    start: int,
    *,
    site: Site,
    runner: Runner,
    take: Callable[[Sequence[str]], None],
) -> None:
    """Send the image to the nodes from byte `start` on, from this host; `take` is called after each slice, with the nodes
    that have it. A node that cannot be reached is left out from then on.
    """
    reached = list(nodes)

    def send(part: Path, target: str) -> bool:
        def send_to(node: str) -> bool:
            argv = command(site.transport, node, user=None, socket=None, program=f"dd of={shlex.quote(target)} bs=1M")
            return runner.run([*_FROM_FILE, part, *argv], env=tool_env(), check=False, timeout=_SECONDS).returncode == 0

        with ThreadPoolExecutor(_AT_ONCE) as pool:
            arrived = list(pool.map(send_to, reached))
        reached[:] = [node for node, there in zip(reached, arrived, strict=True) if there]
        if reached:
            take(reached)
        return bool(reached)

    _each_slice(image, start, send, site=site, runner=runner, times=len(nodes))


def _each_slice(
    image: WantedImage, start: int, send: Callable[[Path, str], bool], *, site: Site, runner: Runner, times: int = 1
) -> None:
    """Send slice after slice, until `send` returns that nobody takes them, within the site's bandwidth, of which a slice
    takes its bytes `times`.
    """
    rate = site.staging.bandwidth
    with scratch_folder("stage") as scratch, open_untrusted(Path(image.image), IMAGE, tree=None) as descriptor:
        part = scratch / "slice"
        for offset in range(start // SLICE * SLICE, image.size, SLICE):
            began = time.monotonic()
            part.write_bytes(_read(descriptor, offset))
            if not send(part, f"{site.staging.folder}/{image.name}.{offset}.slice"):
                return
            if rate and (left := times * part.stat().st_size / rate - (time.monotonic() - began)) > 0:
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
