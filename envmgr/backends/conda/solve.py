"""Solving of a conda recipe to a lock, by rattler in its worker or by conda-lock with the site's conda."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from envmgr.backends.conda.client import SOLVER, UNSOLVABLE, solver_failure
from envmgr.backends.conda.lock import ChannelSource, CondaLock, LockedPackage
from envmgr.backends.conda.models import Channel, CondaInput, channels_of, program_of
from envmgr.catalog.site import Site
from envmgr.errors import CommandError, EnvmgrError, InputError
from envmgr.report import Reporter
from envmgr.system.child import call_worker
from envmgr.system.files import pretty_json
from envmgr.system.run import Runner, clean_env
from envmgr.system.scratch import scratch_folder


def solve(
    wanted: CondaInput,
    site: Site,
    runner: Runner,
    reporter: Reporter,
    *,
    solver: str,
    places: Mapping[str, str],
    keep: CondaLock | None = None,
    upgrade: Collection[str] = (),
) -> CondaLock:
    """Solve and return the lock, packages sorted by name. rattler takes no other build of a package that `keep` has; with
    `upgrade`, these packages move with what they need, and the others stay where they fit.

    Raises:
        EnvmgrError: `unsolvable`, `no-network`, `solver-missing`; InputError: `unknown-channel`, `spec-invalid`.
    """
    channels = [_channel_request(name, site, places) for name in wanted.channels]
    with scratch_folder("solve") as scratch:
        request: dict[str, Any] = {
            "channels": channels,
            "specs": list(wanted.specs),
            "constraints": [f"{p.name} =={p.version} {p.build}" for p in keep.packages] if keep and not upgrade else [],
            "upgrade": list(upgrade),
            "kept": {p.name: p.url for p in keep.packages if p.name not in upgrade} if keep and upgrade else {},
            "platform": wanted.platform,
            "virtual_packages": wanted.all_virtual_packages(),
            "cache": str(scratch),
            "stall_timeout": site.policies.stall_timeout,
        }
        if solver == "conda-lock":
            urls = _conda_lock_urls(wanted, channels, site, runner, scratch)
            # A file is called name-version-build, and only the name can have further dashes.
            names = {url.rpartition("/")[2].rsplit("-", 2)[0] for url in urls}
            request |= {"urls": sorted(urls), "names": sorted(names)}
        solved = call_worker(SOLVER, request, runner, reporter, failure=solver_failure)
    packages = tuple(sorted((package_of(r) for r in solved["records"]), key=lambda p: p.name))
    if solver == "conda-lock" and (lost := set(request["urls"]) - {p.url for p in packages}):
        raise EnvmgrError(
            "solver-disagrees", "conda-lock chose packages that the channels do not list", context=sorted(lost)
        )
    return CondaLock(
        platform=wanted.platform,
        recipe_digest=wanted.digest(),
        packages=packages,
        channels=tuple(_source(name, site, solved, packages) for name in wanted.channels),
    )


def package_of(record: Mapping[str, Any]) -> LockedPackage:
    """Return a repodata record as a locked package. Raises InputError if the channel gives no sha256."""
    if not record.get("sha256"):
        raise InputError(
            "channel-unhashed",
            f"the channel gives no sha256 for {record['name']} {record['version']}",
            context=record["url"],
            hint="an install could not be checked: use a channel that has sha256 sums",
        )
    known = {field.name for field in fields(LockedPackage)}
    kept = {key: value for key, value in record.items() if key in known and value is not None}
    rows = {key: tuple(record.get(key) or ()) for key in ("depends", "constrains")}
    return LockedPackage(**{"md5": "", **kept, **rows})


def _channel_request(name: str, site: Site, places: Mapping[str, str]) -> dict[str, Any]:
    known = channels_of(site)
    channel = known.get(name) or (Channel(url=name) if re.match(r"(https?|file)://[^\s]+$", name) else None)
    if channel is None:
        raise InputError(
            "unknown-channel",
            f"the site has no channel `{name}`",
            context=f"known: {', '.join(sorted(known))}",
            hint="add it to site.yaml under `backends.conda.channels` with its url",
        )
    chosen = places.get(name)
    if chosen and "://" not in chosen:
        folder = Path(chosen).expanduser().resolve()
        if not any(folder.glob("*/repodata.json*")):
            what = "has no <subdir>/repodata.json" if folder.is_dir() else "is no folder"
            raise InputError("channel-missing", f"{folder} {what}", context=f"given for channel {name}")
        chosen = folder.as_uri()
    return {"name": name, "url": channel.url, "places": [chosen] if chosen else [*channel.mirrors, channel.url]}


def _source(name: str, site: Site, solved: Mapping[str, Any], packages: Iterable[LockedPackage]) -> ChannelSource:
    """Return the place from which a channel was read.

    For a snapshot, this includes the digests of its repodata, and the site's note if the site names this place.
    """
    channel = channels_of(site).get(name) or Channel(url=name)
    place = str(solved["places"][name]).rstrip("/")
    own = [p for p in packages if p.channel == channel.url]
    if place == channel.url or not place.startswith("file://") or not _is_snapshot(place, own):
        return ChannelSource(name, channel.url)
    note = channel.note if place in channel.mirrors else ""
    return ChannelSource(name, channel.url, solved["repodata"][name], note)


def _is_snapshot(place: str, packages: Sequence[LockedPackage]) -> bool:
    """Return whether a folder lacks packages that it lists: the chosen ones, or all if none was chosen."""
    folder = Path(unquote(urlsplit(place).path))
    if packages:
        return not all((folder / p.subdir / p.file_name).is_file() for p in packages)
    return not any(folder.glob("*/*.conda")) and not any(folder.glob("*/*.tar.bz2"))


def _conda_lock_urls(
    wanted: CondaInput, channels: Iterable[Mapping[str, Any]], site: Site, runner: Runner, folder: Path
) -> set[str]:
    """Run `conda-lock lock` and return the chosen canonical URLs."""
    import yaml

    from envmgr.backends.conda.solve_worker import canonical  # costs asyncio

    tool, conda = find_conda_lock(), find_conda(site)
    sources = list(channels)
    environment = {"channels": [c["places"][0] for c in sources], "dependencies": list(wanted.specs)}
    # JSON is valid YAML.
    (folder / "environment.yml").write_text(pretty_json(environment), encoding="utf-8")
    virtual = {"subdirs": {wanted.platform: {"packages": wanted.all_virtual_packages()}}}
    (folder / "virtual.yml").write_text(pretty_json(virtual), encoding="utf-8")
    argv: list[str | Path] = [tool, "lock", "--conda", conda, "-f", folder / "environment.yml", "-p", wanted.platform]
    argv += ["--virtual-package-spec", folder / "virtual.yml", "--lockfile", folder / "conda-lock.yml"]
    try:
        runner.run(argv, cwd=folder, env=_conda_environment(os.environ), timeout=1800)
    except CommandError as error:
        raise _conda_lock_failure(error, conda) from None
    locked = yaml.safe_load((folder / "conda-lock.yml").read_text(encoding="utf-8"))
    return {canonical(str(package["url"]), {"channels": sources}) for package in locked["package"]}


def _conda_lock_failure(error: CommandError, conda: Path) -> EnvmgrError:
    """Return conda's own error, without conda-lock's traceback around it."""
    said = error.stderr.partition("Could not lock the environment for platform ")[2].partition("\n    Command:")[0]
    lines = [line for line in said.splitlines()[1:] if line.strip()]
    if not lines:
        return error
    return EnvmgrError("unsolvable", f"conda-lock with {conda} finds no solution", context=lines[:40], hint=UNSOLVABLE)


def _conda_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of the caller's shell that conda needs: proxies, certificates and its own settings.

    Paths of a loaded environment are never included.
    """
    kept = re.compile(
        r"(?i)(https?|all|no)_proxy|(SSL_CERT|REQUESTS_CA|CURL_CA)_.*|CONDARC|(CONDA|MAMBA)_(SSL|PROXY|ROOT)_.*"
    )
    return clean_env(**{key: value for key, value in environ.items() if kept.fullmatch(key)})


def find_conda(site: Site) -> Path:
    """Return the site's conda, mamba or micromamba, or one on PATH; otherwise conda-lock would download one.

    Raises EnvmgrError `solver-missing`.
    """
    hint = "name it in site.yaml (`backends: {conda: {program: …}}`), or lock with --solver rattler"
    if (program := program_of(site)) is not None:
        if not os.access(program, os.X_OK):
            raise EnvmgrError(
                "solver-missing", f"{program} is no program", context="`backends.conda.program` in site.yaml", hint=hint
            )
        return program
    found = next((p for n in ("conda", "mamba", "micromamba") if (p := shutil.which(n))), None)
    if found is None:
        raise EnvmgrError("solver-missing", "conda-lock needs a conda, mamba or micromamba", hint=hint)
    return Path(found)


def find_conda_lock() -> Path:
    """Return the `conda-lock` that was installed with envmgr, or the one on PATH."""
    beside = Path(sys.executable).parent / "conda-lock"
    found = beside if beside.exists() else shutil.which("conda-lock")
    if not found:
        raise EnvmgrError("solver-missing", "conda-lock is not installed", hint="pip install conda-lock")
    return Path(found)
