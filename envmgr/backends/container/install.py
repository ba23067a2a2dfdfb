"""Fetch an image's files into the cache, and make its install: one squashfs, and programs on PATH that run in it."""

from __future__ import annotations

import json
import stat
from collections.abc import Iterable, Mapping
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
from envmgr.downloads import Download, Fetched, FetchedFile, Given, has
from envmgr.downloads.bars import WorkerBars
from envmgr.downloads.bring import bring
from envmgr.downloads.failures import Row, worker_failure
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


def fetch_image(
    lock: ContainerLock,
    wanted: ContainerInput,
    label: str,
    site: Site,
    runner: Runner,
    reporter: Reporter,
    *,
    given: Given,
    dry_run: bool = False,
) -> Fetched:
    """Bring the files of the image into the cache: from files that are given, else from its registry.

    Files that a fetch brought before it was cut off are not brought again. Raises as `Registry.bring`, `wrong-sha256`.
    """
    cache = image_cache(Prefix(site.prefix))
    lacking = [blob for blob in lock.blobs if not has(cache / blob.sha256 / blob.file, blob.sha256, mend=not dry_run)]
    if dry_run or all(blob.sha256 in given for blob in lacking):
        return bring(
            _downloads(lock.blobs),
            cache,
            site.policies,
            runner,
            reporter,
            label=label,
            failure=_failure(label),
            given=given,
            dry_run=dry_run,
        )
    coming = cache / ".coming"
    with explain_os_error(cache), file_lock(cache / ".lock", check=runner.raise_if_cancelled):
        blobs = coming / "blobs"
        (blobs / "sha256").mkdir(parents=True, exist_ok=True)
        for blob in lock.blobs:
            have, there = cache / blob.sha256 / blob.file, blobs / "sha256" / blob.sha256
            if blob not in lacking and not there.exists():
                there.hardlink_to(have)
        scratch = coming / "layout"
        remove_tree(scratch)
        with reporter.stage(f"{label} fetch", total=sum(b.size for b in lacking), unit="bytes") as stage:
            registry = Registry(wanted, site, runner)
            if any(blob in lacking for blob in lock.layers):
                registry.bring(lock.manifest, blobs, scratch, stage)
            if lock.config in lacking:
                atomic_write(blobs / "sha256" / lock.config.sha256, registry.config(lock.manifest))
            for blob in lacking:
                _take(blob, blobs / "sha256" / blob.sha256, cache)
        remove_tree(coming)
    files = [FetchedFile(b.file, b.sha256, "fetched" if b in lacking else "present", b.size) for b in lock.blobs]
    return Fetched(tuple(files))


def _take(blob: LockedBlob, file: Path, cache: Path) -> None:
    if not has(file, blob.sha256):
        raise EnvmgrError(
            "wrong-sha256",
            f"{blob.sha256[:12]}: what arrived is not what the lock names",
            hint="run the same command again",
        )
    place = cache / blob.sha256 / blob.file
    place.parent.mkdir(exist_ok=True)
    file.replace(place)
    change(place, mode=0o644, kinds=(stat.S_ISREG,))


def _downloads(blobs: Iterable[LockedBlob]) -> list[Download]:
    return [Download(blob.file, blob.sha256, (), blob.size) for blob in blobs]


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
    fetch_image(lock, wanted, str(entry), site, runner, reporter, given={})
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
