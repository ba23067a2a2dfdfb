"""The exchange between submitter and job: one folder per job, `<prefix>/var/jobs/slurm/<name>-<label>/`.

The catalog, site.yaml and what backends read may lie where only the submitting host sees them, so all that a job reads
is copied here. The folder goes when the job's end has been reported.
"""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from envmgr.builds.schedule import Work
from envmgr.catalog.entries import RECIPE_NAME
from envmgr.catalog.names import catalog_of
from envmgr.catalog.recipe import Recipe
from envmgr.catalog.site import Site, Target, read_target
from envmgr.errors import EnvmgrError, ErrorData, InputError
from envmgr.store.prefix import Install, Prefix
from envmgr.system.files import atomic_write, explain_os_error, pretty_json
from envmgr.system.models import FrozenModel, require_format
from envmgr.system.pulse import renew_listing
from envmgr.system.safe_paths import change, remove_below
from envmgr.system.untrusted_files import LOCK, ROW, copy_file, read_json

FORMAT = 1
"""The number of the format of requests, answers and rows; another one is refused."""


class _JobFile(FrozenModel):
    schema_version: int = FORMAT


class BuildRequest(_JobFile):
    """The request of a job. `item` is `store/<name>/<version>-<digest8>`; `site` has no path that only the submitter
    sees.

    `uses` are all installs of the lock, kept from `gc` as long as the request exists; `made` are those that jobs of the
    same command make, or have looked at. Paths as `item`. `jobs` is the number of cores to use; None for what Slurm gave.
    """

    entry: str
    item: str
    recipe: Recipe
    site: Site
    target: Target
    envmgr: str
    uses: tuple[str, ...] = ()
    made: tuple[str, ...] = ()
    jobs: int | None = None


class BuildAnswer(_JobFile):
    """The answer of a job at its end: its tree's digest, or the error. `seconds` is wall-clock; `host` is where it
    ran.
    """

    job: str
    host: str
    seconds: float
    tree: str = ""
    error: ErrorData | None = None


class JobRow(_JobFile):
    """A job of the table: its number, its user, the host it came from, and when (UTC). `told`: a command has reported
    its end.
    """

    job: str
    item: str
    user: str
    host: str
    submitted: str
    options: tuple[str, ...] = ()
    told: bool = False


_Read = TypeVar("_Read", bound=_JobFile)


@dataclass(frozen=True, slots=True)
class JobFolder:
    """The files between a submitter and the job that makes `install`."""

    install: Install

    @property
    def name(self) -> str:
        return f"{self.install.entry.name}-{self.install.label}"

    @property
    def job_name(self) -> str:
        """The name of the Slurm job: the digest, of which the prefix is a part, makes it unique to this install."""
        return f"envmgr-{self.name}"

    @property
    def path(self) -> Path:
        return self.install.prefix.slurm_jobs / self.name

    @property
    def request(self) -> Path:
        return self.path / "request.json"

    def output(self, job: str) -> Path:
        """Return the file of the job's output; Slurm replaces `%j` by its number."""
        return self.install.prefix.logs / "slurm" / f"{self.name}-{job}.log"

    def write(self, work: Work, recipe_folder: Path, site: Site, envmgr: str, made: Collection[str] = ()) -> None:
        """Write the request and everything that it refers to; remove first what an earlier job left there."""
        with explain_os_error(self.path):
            remove_below(self.install.prefix.root, self.path)
            self.path.mkdir(mode=0o700, parents=True)
            change(self.path, mode=0o700)  # a site may name a mirror with its password
            self.output("%j").parent.mkdir(parents=True, exist_ok=True)
        write_request(self.path, work, recipe_folder, site, envmgr, made)

    def write_row(self, row: JobRow) -> None:
        atomic_write(self.path / "slurm.json", pretty_json(row.model_dump(mode="json")))

    def row(self) -> JobRow | None:
        return read_job_row(self.path / "slurm.json")

    def answer(self) -> BuildAnswer | None:
        return read_answer(self.request)

    def remove(self) -> None:
        with explain_os_error(self.path):
            remove_below(self.install.prefix.root, self.path)


def requested_installs(prefix: Prefix, *, renew: bool) -> set[str]:
    """Return the installs that waiting or running jobs use, by path relative to the prefix: of each request whose end
    was not reported yet.

    `renew`: read the newest state, also on NFS. Raise EnvmgrError `format-unknown`.
    """
    found: set[str] = set()
    if renew:
        renew_listing(prefix.slurm_jobs)
    for path in prefix.slurm_jobs.glob("*/request.json"):
        row, answer = _read(path.with_name("slurm.json"), JobRow), _read(path.with_name("answer.json"), BuildAnswer)
        if (row is None or not row.told) and (answer is None or answer.error is None):
            with suppress(OSError, InputError, ValueError, KeyError, TypeError):  # half-written
                request = require_format(read_json(path, ROW), FORMAT, path, "schema_version")
                found |= {str(each) for each in (request["item"], *request.get("uses", ()))}
    return found


def read_job_row(path: Path) -> JobRow | None:
    """Return the row; None if there is none, or it cannot be read. Raise EnvmgrError `format-unknown`."""
    return _read(path, JobRow)


def read_request(path: Path) -> BuildRequest:
    """Return the request. Raise EnvmgrError `job-request`, `format-unknown`."""
    request = _read(path, BuildRequest)
    if request is None:
        raise EnvmgrError(
            "job-request",
            f"{path} is not the request of a build job",
            hint="is the prefix mounted on this node, and is it the same envmgr?",
        )
    return request


def write_request(
    folder: Path,
    work: Work,
    recipe_folder: Path,
    site: Site,
    envmgr: str,
    made: Collection[str] = (),
    jobs: int | None = None,
) -> None:
    """Write `request.json` into an empty folder, and beside it everything that it refers to."""
    with explain_os_error(folder):
        (folder / "lock").mkdir(mode=0o700)
        for file in sorted(recipe_folder.iterdir()):
            if file.is_file() and file.name != RECIPE_NAME:
                copy_file(file, folder / "lock" / file.name, LOCK, tree=catalog_of(recipe_folder))
        packed = work.lock.pack(site, folder)
    target = read_target(site.cpu_level)
    request = BuildRequest(
        entry=str(work.lock.entry),
        item=work.label,
        recipe=work.recipe,
        site=packed,
        target=target,
        envmgr=envmgr,
        uses=tuple(i.install.relative for i in work.lock.items(site, target)),
        made=tuple(sorted(made)),
        jobs=jobs,
    )
    atomic_write(folder / "request.json", pretty_json(request.model_dump(mode="json", by_alias=True)))


def read_answer(request: Path) -> BuildAnswer | None:
    """Return the answer; None if there is none, or it cannot be read. Raise EnvmgrError `format-unknown`."""
    return _read(request.with_name("answer.json"), BuildAnswer)


def write_answer(request: Path, answer: BuildAnswer) -> None:
    atomic_write(request.with_name("answer.json"), pretty_json(answer.model_dump(mode="json")))


def _read(path: Path, model: type[_Read]) -> _Read | None:
    """Return the content; None if there is no file, or it cannot be read. Raise EnvmgrError `format-unknown`."""
    try:
        return model.model_validate(require_format(read_json(path, ROW), FORMAT, path, "schema_version"))
    except (OSError, InputError, ValueError):
        return None
