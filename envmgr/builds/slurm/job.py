"""The job of `envmgr build --via slurm` on its node, or of `build --again` in its namespace: one store item, from its
request to its answer.
"""

from __future__ import annotations

import os
import socket
import time
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import envmgr
from envmgr.backends import get_backend
from envmgr.builds.install import ensure_install
from envmgr.builds.slurm.folder import BuildAnswer, BuildRequest, read_request, write_answer
from envmgr.catalog.names import parse_entry
from envmgr.catalog.site import read_target
from envmgr.errors import EnvmgrError, ErrorData, Interrupted
from envmgr.report import Lines, Reporter, Result
from envmgr.store.jobtable import holding
from envmgr.store.place import require_place
from envmgr.store.prefix import Item, Prefix
from envmgr.store.verify import Verified
from envmgr.system.run import Runner
from envmgr.system.users import this_account

_SEEN = 90.0  # seconds until what another node has built is seen here: longer than an NFS client's acdirmax


@dataclass(frozen=True, slots=True)
class BuildJobResult(Result):
    """The result of a build job. `seconds` is wall-clock; `built` is False for an install that already existed."""

    schema: ClassVar[str] = "envmgr.build-item/1"
    item: str
    built: bool
    tree: str
    seconds: float

    def lines(self) -> Lines:
        yield f"{self.item}: {'built' if self.built else 'was there'}, tree {self.tree[:12]}"


def run_build_job(path: Path, runner: Runner, reporter: Reporter) -> BuildJobResult:
    """Build what the request at `path` asks for, and write the answer next to it, also for an error, which is also
    raised.

    A job that Slurm ends writes no answer: Slurm knows what ended it.

    Raises:
        EnvmgrError: `job-request`, `target-differs`, `need-missing`, `install-differs`, any error of the build.
    """
    start = time.monotonic()
    request = read_request(path)
    os.umask(request.site.policies.mask)
    os.environ |= this_account().variables()
    job, host = os.environ.get("SLURM_JOB_ID", ""), socket.gethostname()
    try:
        result = _build(request, path, runner, reporter)
    except Interrupted:
        raise
    except EnvmgrError as error:
        seconds = time.monotonic() - start
        write_answer(path, BuildAnswer(job=job, host=host, seconds=seconds, error=ErrorData.of(error)))
        raise
    write_answer(path, BuildAnswer(job=job, host=host, seconds=result.seconds, tree=result.tree))
    return result


def _build(request: BuildRequest, path: Path, runner: Runner, reporter: Reporter) -> BuildJobResult:
    site, recipe = request.site, request.recipe
    require_place(Prefix(site.prefix))
    lock = get_backend(recipe.backend).load_lock(parse_entry(request.entry), recipe, path.with_name("lock"), site)
    items = lock.items(site, read_target(site.cpu_level))
    item = next((each for each in items if each.install.relative == request.item), None)
    if item is None:
        raise _differs(request)
    used = {each.relative for i in items for each in (i.install, *i.needs, *i.build_needs)}
    with holding(Prefix(site.prefix), used, runner, reporter):
        _wait_for_needs(item, runner, reporter)
        verified = Verified()
        for made in request.made:  # by jobs of the same command, which looked at what they stand on, or looked at by it
            verified.made(made)
        ensured = ensure_install(
            recipe, lock, item, site, runner, reporter, jobs=request.jobs or _cores(), verified=verified
        )
    return BuildJobResult(request.item, ensured.built, ensured.tree, ensured.seconds)


def _differs(request: BuildRequest) -> EnvmgrError:
    here = read_target(request.site.cpu_level)
    told = request.target.model_dump()
    lines = [
        f"{name}: {told[name]} where it was submitted, {value} here"
        for name, value in here.model_dump().items()
        if told[name] != value
    ]
    if request.envmgr != envmgr.__version__:
        lines.append(f"envmgr: {request.envmgr} where it was submitted, {envmgr.__version__} here")
    return EnvmgrError(
        "target-differs",
        f"{socket.gethostname()} would not build {request.item}, but another install",
        context=lines,
        hint="build on nodes with the same system as the submitting host: --partition, or another host",
    )


def _wait_for_needs(item: Item, runner: Runner, reporter: Reporter) -> None:
    """Wait for what other jobs built a moment ago: this node may not see it yet. Raise EnvmgrError `need-missing`."""
    end = time.monotonic() + _SEEN
    told = False
    while missing := [i for i in (*item.needs, *item.build_needs) if not i.exists()]:
        if time.monotonic() > end:
            raise EnvmgrError(
                "need-missing",
                f"{item.install.entry} needs {missing[0].entry}, which is not there",
                context=[str(i.path) for i in missing],
                hint="is the prefix mounted on this node? The same command builds both",
            )
        if not told:
            reporter.say(f"{item.install.entry}: waiting until {missing[0].entry} is seen on this node")
            told = True
        runner.raise_if_cancelled()
        time.sleep(0.5)


def _cores() -> int:
    """Return as many cores as Slurm gave. Source: sbatch(1), OUTPUT ENVIRONMENT VARIABLES."""
    for name in ("SLURM_CPUS_PER_TASK", "SLURM_CPUS_ON_NODE"):
        value = os.environ.get(name, "")
        if value.isdigit() and int(value) > 0:
            return int(value)
    return 1
