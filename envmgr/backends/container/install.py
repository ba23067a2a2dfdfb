"""Fetch an image's files into the cache, and make its install: one squashfs, and programs on PATH that run in it."""

from __future__ import annotations

import json
import stat
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

from envmgr.backends.container.input import ContainerInput
from envmgr.backends.container.lock import ContainerLock, LockedBlob
from envmgr.backends.container.programs import Programs
from envmgr.backends.container.registry import Registry
from envmgr.catalog.names import Entry
from envmgr.catalog.site import Site
from envmgr.downloads import Download
from envmgr.downloads.bars import WorkerBars
from envmgr.downloads.failures import Row, worker_failure
from envmgr.downloads.fetch import DownloadSet, FilePlace
from envmgr.errors import EnvmgrError
from envmgr.report import Reporter
from envmgr.store.build_folders import build_folder, staged_install, work_folder
from envmgr.store.manifest import InstallFacts, path_environment
from envmgr.store.prefix import Install, Prefix
from envmgr.system.child import Event, Failure, call_worker
from envmgr.system.files import atomic_write, explain_os_error, remove_tree
from envmgr.system.locks import file_lock
from envmgr.system.run import Runner
from envmgr.system.safe_paths import change
from envmgr.system.squashfs import find_maker, tar_command
from envmgr.system.untrusted_files import ANYWHERE, Kind, read_bytes
from envmgr.wording import one_line

_CONFIG = Kind("image config", 64 << 20)
_ROWS: Mapping[str, Row] = {
    "DownloadError": Row(
        "wrong-sha256", "{message}: what arrived is not what the lock names", "run the same command again"
    ),
    "NoCommand": Row(
        "command-not-in-image",
        "the image of {label} has no program {message}",
        "name its path in the recipe, `commands: {{name: /path}}`; `envmgr` looks where the image's PATH leads",
    ),
    "BadLayer": Row("image-invalid", "{message}", "the image itself is damaged: tell who made it"),
    "Full": Row("disk-full", "{message}", "free some space, or name another `build_dir` in site.yaml"),
    "OSError": Row("image-not-made", "the squashfs of {label} was not made", "", ("{message}",)),
}


def _failure(label: str) -> Failure:
    return partial(worker_failure, label=label, mirrors="registries.conf", rows=_ROWS)


def image_cache(prefix: Prefix) -> Path:
    return prefix.root / "cache" / "oci"


def image_files(lock: ContainerLock, wanted: ContainerInput, label: str, site: Site) -> DownloadSet:
    """Return the files of the image as downloads: what is not given comes from its registry, by skopeo."""

    def ask(runner: Runner, reporter: Reporter) -> Sequence[FilePlace]:
        def look(files: Sequence[Download]) -> Sequence[Download]:
            _bring_image(lock, files, cache, Registry(wanted, site, runner), runner, reporter, label)
            return files

        return (FilePlace(wanted.image, lambda _: (), look),)

    cache = image_cache(Prefix(site.prefix))
    return DownloadSet(tuple(_download(blob) for blob in lock.blobs), cache, _failure(label), ask)


def _download(blob: LockedBlob) -> Download:
    return Download(blob.file, blob.sha256, (), blob.size)


def _bring_image(
    lock: ContainerLock,
    lacking: Sequence[Download],
    cache: Path,
    registry: Registry,
    runner: Runner,
    reporter: Reporter,
    label: str,
) -> None:
    """Bring the files that are lacking into the cache; skopeo checks them, and so does who reads them there.

    Files that were brought before it was cut off are not brought again. Raises as `Registry.bring`.
    """
    coming = cache / ".coming"
    with explain_os_error(cache), file_lock(cache / ".lock", check=runner.raise_if_cancelled):
        there = coming / "blobs" / "sha256"
        there.mkdir(parents=True, exist_ok=True)
        for file in map(_download, lock.blobs):
            if file not in lacking and not (there / file.sha256).exists():
                (there / file.sha256).hardlink_to(file.path(cache))
        scratch = coming / "layout"
        remove_tree(scratch)
        with reporter.stage(f"{label} fetch", total=sum(file.size or 0 for file in lacking), unit="bytes") as stage:
            if any(_download(layer) in lacking for layer in lock.layers):
                registry.bring(lock.manifest, coming / "blobs", scratch, stage)
            if _download(lock.config) in lacking:
                atomic_write(there / lock.config.sha256, registry.config(lock.manifest))
            for file in lacking:
                if (there / file.sha256).exists():
                    file.path(cache).parent.mkdir(exist_ok=True)
                    (there / file.sha256).replace(file.path(cache))
                    change(file.path(cache), mode=0o644, kinds=(stat.S_ISREG,))
        remove_tree(coming)


def install_image(
    lock: ContainerLock,
    wanted: ContainerInput,
    entry: Entry,
    install: Install,
    site: Site,
    runner: Runner,
    reporter: Reporter,
) -> tuple[InstallFacts, dict[str, str]]:
    """Make the install, read-only; return its facts and the versions of the tools. Nothing stays of one that failed."""
    maker = find_maker(runner)
    cache = image_cache(install.prefix)
    config = _read_config(lock, cache)
    work = work_folder(site, install)
    programs = Programs.of(lock, wanted, site)
    with staged_install(install, site, marks=False) as staged, build_folder(install, work, runner, reporter):
        staged.folder.mkdir()
        request = {
            "cache": str(cache),
            "work": str(work),
            "layers": [str(cache / layer.sha256 / layer.file) for layer in lock.layers],
            "diff_ids": config["rootfs"]["diff_ids"],
            "points": programs.points,
            "commands": wanted.commands,
            "path": programs.variables["PATH"],
            "gpu": wanted.gpu,
            "argv": tar_command(maker, staged.folder / "image.sqfs"),
            "min_free": site.policies.min_free,
        }
        merged = _run_worker(request, len(lock.layers), entry, runner, reporter)
        programs.write(staged.folder, entry, install.path)
        staged.land()
    facts = InstallFacts(
        environment=path_environment(install.path),
        gpu_codes=None if merged["gpu_codes"] is None else tuple(merged["gpu_codes"]),
        kernel=f"bin/{merged['kernel']}" if merged["kernel"] else "",
    )
    return facts, {"mksquashfs": maker.version}


def _run_worker(request: Mapping[str, Any], layers: int, entry: Entry, runner: Runner, reporter: Reporter) -> Event:
    merged: Event = {}
    with ExitStack() as stack:
        bars = WorkerBars(str(entry), reporter, stack, work=("unpack", "layers", layers))

        def on_event(event: Event) -> None:
            if event["event"] == "merged":
                merged.update(event)
                if event["count"]:
                    reporter.say(
                        f"{entry}: {event['count']} paths of the image are left out or changed; the log has them"
                    )
                for line in event["dropped"]:
                    reporter.log(f"{entry}: {line}")
            bars.on_event(event)

        call_worker(
            "envmgr.backends.container.merge_worker",
            request,
            runner,
            reporter,
            failure=_failure(str(entry)),
            on_event=on_event,
            name="container",
        )
    return merged


def _read_config(lock: ContainerLock, cache: Path) -> dict[str, Any]:
    """Return the image's config. Raise EnvmgrError `image-invalid` if it is not what the lock says of it."""
    file = cache / lock.config.sha256 / lock.config.file
    try:
        data: dict[str, Any] = json.loads(read_bytes(file, _CONFIG, tree=ANYWHERE))
        inner, diff_ids = data.get("config") or {}, [str(each) for each in data["rootfs"]["diff_ids"]]
        said = (tuple(inner.get("Env") or ()), inner.get("WorkingDir") or "", len(diff_ids))
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise EnvmgrError(
            "image-invalid", f"{lock.image} has a config that no image has", context=one_line(str(error))
        ) from None
    if said != (lock.environment, lock.workdir, len(lock.layers)):
        raise EnvmgrError(
            "image-invalid", "the lock says other variables or layers than the image's config", hint="lock it again"
        )
    return data
