"""Each kind of file that envmgr writes and reads again has the number of its format; another number, and none, is refused."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from envmgr.audit.baseline import baseline_text, read_baseline
from envmgr.backends.conda.lockfile import SIDECAR_NAME as CONDA_SIDECAR
from envmgr.backends.conda.lockfile import read_lock
from envmgr.backends.easybuild.lock import LOCK_NAME as EASYBUILD_LOCK
from envmgr.backends.easybuild.lock import read_easybuild_lock
from envmgr.builds.slurm.folder import (
    BuildAnswer,
    BuildRequest,
    JobFolder,
    JobRow,
    read_request,
    requested_installs,
    write_answer,
)
from envmgr.catalog.names import Entry
from envmgr.catalog.recipe import Recipe
from envmgr.catalog.site import load_site, read_target
from envmgr.errors import EnvmgrError
from envmgr.publish.candidates import read_candidate
from envmgr.publish.flipfile import read_flip
from envmgr.publish.flips import flip, flips
from envmgr.publish.records import RECORD, GenerationRecord, read_record
from envmgr.report import SilentReporter
from envmgr.store.image import ImageRecord, read_image, record_of
from envmgr.store.jobtable import held_installs, holding, leave_row, left_row, row_path
from envmgr.store.manifest import InstallFacts, Manifest, read_manifest, write_manifest
from envmgr.store.node_facts import FleetFacts, facts_file, read_node_facts
from envmgr.store.node_tests import NodeTests, node_tests_file, read_node_tests
from envmgr.store.place import require_place, write_place
from envmgr.store.prefix import Install, Prefix
from envmgr.system.run import Runner
from tests.helpers.places import ROOT

RECIPES = ROOT / "recipes"


@dataclass(frozen=True)
class Scene:
    """A prefix in which each kind of file is written as envmgr writes it."""

    root: Path

    @property
    def prefix(self) -> Prefix:
        return Prefix(self.root / "prefix")

    @property
    def install(self) -> Install:
        return Install(self.prefix, Entry("toy", "1.0"), "01234567" * 8)

    @property
    def job(self) -> JobFolder:
        self.prefix.slurm_jobs.mkdir(parents=True)
        made = JobFolder(self.install)
        made.path.mkdir()
        return made


@dataclass(frozen=True)
class Kind:
    """How a file is written, which returns its path, and read again; `key` has the number, `known` is the one of today."""

    write: Callable[[Scene], Path]
    read: Callable[[Scene], object]
    key: str = "schema"
    known: object = 1


def record(scene: Scene) -> Path:
    made = GenerationRecord(
        number=1,
        parent=None,
        created="",
        user="",
        host="",
        reason="",
        tools={},
        render="",
        entries={},
        files={},
        manifests={},
    )
    path = scene.prefix.generation(1) / RECORD
    path.parent.mkdir(parents=True)
    path.write_text(made.model_dump_json())
    return path


def published(scene: Scene) -> Prefix:
    record(scene)
    scene.prefix.history.parent.mkdir()
    flip(scene.prefix, 1, None, "a test", SilentReporter(), action="publish", signer=None)
    return scene.prefix


def manifest(scene: Scene) -> Path:
    write_manifest(scene.install.manifest, Manifest("0" * 64, "1" * 64, 0o022, InstallFacts(), {}, ()))
    return scene.install.manifest


def image(scene: Scene) -> Path:
    path = record_of(scene.install)
    path.parent.mkdir(parents=True)
    digest = "0" * 64
    record = ImageRecord(
        digest=digest, tree=digest, sha256=digest, size=1, compression="zstd", mksquashfs="4.5.1", options=()
    )
    path.write_text(json.dumps(record.model_dump(mode="json", by_alias=True)))
    return path


def place(scene: Scene) -> Path:
    scene.prefix.root.mkdir()
    write_place(scene.prefix)
    return scene.prefix.place


def build_row(scene: Scene) -> Path:
    scene.prefix.jobs.mkdir(parents=True)
    leave_row(scene.install, scene.root / "work")
    return row_path(scene.install)


def job_row(scene: Scene) -> Path:
    job = scene.job
    job.write_row(JobRow(job="1", item=scene.install.relative, user="u", host="h", submitted="s"))
    return job.path / "slurm.json"


def job_answer(scene: Scene) -> Path:
    job = scene.job
    write_answer(job.request, BuildAnswer(job="1", host="h", seconds=1))
    return job.path / "answer.json"


def job_request(scene: Scene) -> Path:
    job, site = scene.job, scene.root / "site.yaml"
    site.write_text(f"prefix: {scene.prefix.root}\n")
    request = BuildRequest(
        entry="toy/1.0",
        item=scene.install.relative,
        recipe=Recipe(backend="conda", input={}),
        site=load_site(site, {}),
        target=read_target("x86-64-v2"),
        envmgr="0",
    )
    job.request.write_text(json.dumps(request.model_dump(mode="json", by_alias=True)))
    return job.request


def node_tests(scene: Scene) -> Path:
    path = node_tests_file(scene.prefix, 1)
    path.parent.mkdir(parents=True)
    path.write_text(NodeTests().model_dump_json(by_alias=True))
    return path


def candidate(scene: Scene) -> Path:
    published(scene)
    said = {
        "candidate": 1,
        "record": "0" * 64,
        "date": "2026-01-01T00:00:00Z",
        "parent": None,
        "user": "u",
        "host": "h",
    }
    path = scene.prefix.candidates / "0001.json"
    path.parent.mkdir()
    path.write_text(json.dumps({"schema_version": 1, **said}))
    return path


def node_facts(scene: Scene) -> Path:
    path = facts_file(scene.prefix)
    path.parent.mkdir(parents=True)
    path.write_text(FleetFacts().model_dump_json(by_alias=True))
    return path


def baseline(scene: Scene) -> Path:
    path = scene.root / "baseline.yaml"
    path.write_text(baseline_text((), lambda *_: True))
    return path


def lock(entry: str, name: str) -> Callable[[Scene], Path]:
    def write(scene: Scene) -> Path:
        return Path(shutil.copytree(RECIPES / entry, scene.root / "catalog" / entry)) / name

    return write


def of_catalog(read: Callable[[Path], object], entry: str) -> Callable[[Scene], object]:
    return lambda scene: read(scene.root / "catalog" / entry)


KINDS = {
    "generation record": Kind(record, lambda scene: read_record(scene.prefix, 1), "schema_version"),
    "flip": Kind(
        lambda scene: published(scene).flips / "000001.json", lambda scene: read_flip(scene.prefix, 1), "schema_version"
    ),
    "history": Kind(lambda scene: published(scene).history, lambda scene: flips(scene.prefix)),
    "manifest": Kind(manifest, lambda scene: read_manifest(scene.install.manifest)),
    "prefix.json": Kind(place, lambda scene: require_place(scene.prefix)),
    "image's record": Kind(image, lambda scene: read_image(scene.install)),
    "build under way": Kind(build_row, lambda scene: left_row(scene.install)),
    "Slurm job": Kind(job_row, lambda scene: JobFolder(scene.install).row(), "schema_version"),
    "job's answer": Kind(job_answer, lambda scene: JobFolder(scene.install).answer(), "schema_version"),
    "job's request": Kind(job_request, lambda scene: read_request(JobFolder(scene.install).request), "schema_version"),
    "what a job's request keeps": Kind(
        job_request, lambda scene: requested_installs(scene.prefix, renew=False), "schema_version"
    ),
    "node facts": Kind(node_facts, lambda scene: read_node_facts(scene.prefix)),
    "node tests": Kind(node_tests, lambda scene: read_node_tests(scene.prefix, 1)),
    "candidate": Kind(candidate, lambda scene: read_candidate(scene.prefix, 1), "schema_version"),
    "baseline": Kind(baseline, lambda scene: read_baseline(scene.root / "baseline.yaml"), known="envmgr.baseline/2"),
    "lock of conda": Kind(lock("python/3.12", CONDA_SIDECAR), of_catalog(read_lock, "python/3.12")),
    "lock of EasyBuild": Kind(
        lock("python/3.11", EASYBUILD_LOCK), of_catalog(read_easybuild_lock, "python/3.11"), "version"
    ),
}


def change(path: Path, key: str, found: object) -> None:
    """Let the file have another number; None takes it away."""
    path.chmod(0o644)
    text = path.read_text()
    if path.suffix in (".yaml", ".yml"):
        lines = text.splitlines(keepends=True)
        number = next(i for i, line in enumerate(lines) if line.startswith(f"{key}: "))
        lines[number] = "" if found is None else f"{key}: {json.dumps(found)}\n"
        path.write_text("".join(lines))
        return
    content = json.loads(text)
    assert key in content
    path.write_text(json.dumps({name: value for name, value in {**content, key: found}.items() if value is not None}))


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_of_file_is_read_as_it_was_written(tmp_path: Path, kind: str) -> None:
    KINDS[kind].write(Scene(tmp_path))
    KINDS[kind].read(Scene(tmp_path))


@pytest.mark.parametrize("found", [None, 2, 0, "1", True, 1.5, "x" * 5000])
@pytest.mark.parametrize("kind", KINDS)
def test_file_in_another_format_or_in_none_is_refused_by_name(tmp_path: Path, kind: str, found: object) -> None:
    scene, case = Scene(tmp_path), KINDS[kind]
    path = case.write(scene)
    change(path, case.key, found)
    with pytest.raises(EnvmgrError) as caught:
        case.read(scene)
    said = "no format" if found is None else f"format {found!r}" if found != "x" * 5000 else "format 'xxx"
    error = caught.value
    assert (error.reference, error.exit_code, error.context) == ("format-unknown", 3, ())
    assert error.message.startswith(f"{path} has {said}")
    assert error.message.endswith(f", and this envmgr knows format {case.known}")
    assert len(error.message) < 1000
    assert error.hint == "use the envmgr that wrote it, or a later one"


@contextmanager
def hold(scene: Scene) -> Iterator[Path]:
    with holding(scene.prefix, ["store/toy/1.0-01234567"], Runner(), SilentReporter()):
        (path,) = scene.prefix.holds.iterdir()
        yield path


@pytest.mark.parametrize("found", [None, 2])
def test_what_a_living_run_holds_in_another_format_is_refused_and_not_taken_for_nothing(
    tmp_path: Path, found: object
) -> None:
    """Else `gc` would remove what it uses."""
    scene = Scene(tmp_path)
    with hold(scene) as path:
        assert held_installs(scene.prefix, renew=False) == {"store/toy/1.0-01234567"}
        change(path, "schema", found)
        with pytest.raises(EnvmgrError, match="format-unknown"):
            held_installs(scene.prefix, renew=False)


def test_every_reader_that_requires_a_format_has_its_kinds_here() -> None:
    folder = ROOT / "envmgr"
    readers = {
        str(path.relative_to(folder))
        for path in folder.rglob("*.py")
        if "require_format(" in path.read_text("utf-8") and path.name != "models.py"
    }
    assert readers == {
        "audit/baseline.py",
        "backends/conda/lockfile.py",
        "people/lock.py",  # TOML: tests/unit/people
        "builds/slurm/folder.py",
        "catalog/locks.py",
        "publish/flipfile.py",
        "publish/flips.py",
        "publish/records.py",
        "store/image.py",
        "store/jobtable.py",
        "store/manifest.py",
        "publish/candidates.py",
        "store/node_facts.py",
        "store/node_tests.py",
        "store/place.py",
    }
