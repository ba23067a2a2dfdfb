"""The rattler worker: one JSON request on stdin, JSON events on stdout, then `os._exit`.

Its own process, because rattler can crash at interpreter exit after success, and because importing it costs 0.2 s. It leads
a process group; when stdin closes (the parent died, however), it kills that group, so nothing writes on behind our back.
Events: `solved`, `total`, `download`, `linked`, `retry`, `compiling`, `done`, `error`.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

_lock = threading.Lock()


def emit(event: str, **fields: Any) -> None:
    line = json.dumps({"event": event, **fields}, ensure_ascii=True) + "\n"
    with _lock:  # callbacks come from rattler's threads
        sys.stdout.write(line)
        sys.stdout.flush()


class InstallEvents:
    """rattler's reporter: forwards what a bar needs, at most ten times a second per download."""

    def __init__(self) -> None:
        self._names: list[str] = []
        self._downloads: list[str] = []
        self._links: list[str] = []
        self._last: dict[int, float] = {}

    def on_transaction_start(self, total_operations: int) -> None:
        emit("total", packages=total_operations)

    def on_transaction_operation_start(self, operation: int) -> None: ...

    def on_populate_cache_start(self, operation: int, package_name: str) -> int:  # noqa: ARG002
        self._names.append(package_name)
        return len(self._names) - 1

    def on_validate_start(self, cache_entry: int) -> int:
        return cache_entry

    def on_validate_complete(self, validate_idx: int) -> None:
        emit("validated", name=self._names[validate_idx])

    def on_download_start(self, cache_entry: int) -> int:
        self._downloads.append(self._names[cache_entry])
        index = len(self._downloads) - 1
        emit("download", index=index, name=self._downloads[index], done=0, total=None)
        return index

    def on_download_progress(self, download_idx: int, progress: int, total: int | None) -> None:
        now = time.monotonic()
        if now - self._last.get(download_idx, 0) >= 0.1 or progress == total:
            self._last[download_idx] = now
            emit("download", index=download_idx, name=self._downloads[download_idx], done=progress, total=total)

    def on_download_completed(self, download_idx: int) -> None:
        emit("downloaded", index=download_idx, name=self._downloads[download_idx])

    def on_populate_cache_complete(self, cache_entry: int) -> None:
        emit("cached", name=self._names[cache_entry])

    def on_unlink_start(self, operation: int, package_name: str) -> int:  # noqa: ARG002
        return 0

    def on_unlink_complete(self, index: int) -> None: ...

    def on_link_start(self, operation: int, package_name: str) -> int:  # noqa: ARG002
        self._links.append(package_name)
        return len(self._links) - 1

    def on_link_complete(self, index: int) -> None:
        emit("linked", name=self._links[index])

    def on_transaction_operation_complete(self, operation: int) -> None: ...

    def on_transaction_complete(self) -> None: ...

    def on_post_link_start(self, package_name: str, script_path: str) -> int:  # noqa: ARG002
        return 0

    def on_post_link_complete(self, index: int, success: bool) -> None: ...

    def on_pre_unlink_start(self, package_name: str, script_path: str) -> int:  # noqa: ARG002
        return 0

    def on_pre_unlink_complete(self, index: int, success: bool) -> None: ...


async def solve(request: dict[str, Any]) -> None:
    """Solve `specs` against each channel's first place that answers; with `urls`, look those records up instead."""
    import rattler
    import rattler.exceptions

    gateway = rattler.Gateway(
        cache_dir=request["cache"],
        default_config=rattler.SourceConfig(sharded_enabled=False),  # conda/rattler#2719: fails on plain HTTP mirrors
    )
    platforms = [request["platform"], "noarch"]
    places = {c["name"]: list(c["places"]) for c in request["channels"]}
    tried: list[str] = []
    while True:
        sources = [rattler.Channel(places[c["name"]][0]) for c in request["channels"]]
        try:
            if request.get("urls"):
                names = [rattler.MatchSpec(n) for n in request["names"]]
                found = await gateway.query(sources, platforms, names, recursive=False)
                wanted = set(request["urls"])
                records = [r for group in found for r in group if canonical(r.url, request) in wanted]
            else:
                records = await rattler.solve(
                    sources,
                    [rattler.MatchSpec(s, strict=False) for s in request["specs"]],
                    gateway=gateway,
                    platforms=platforms,
                    virtual_packages=[virtual(rattler, n, v) for n, v in request["virtual_packages"].items()],
                )
            break
        except rattler.exceptions.GatewayError as error:
            message = str(error)
            broken = next((n for n, ps in places.items() if ps[0].rstrip("/") in message), None)
            if broken is None:
                raise
            tried.append(message)
            if len(places[broken]) == 1:
                raise NetworkError("\n".join(tried)) from None
            emit("retry", message=message, place=places[broken].pop(0))
    emit(
        "solved",
        records=[{**json.loads(r.to_json()), "url": canonical(r.url, request)} for r in records],
        places={name: ps[0] for name, ps in places.items()},
        repodata={name: snapshot_digests(ps[0], platforms) for name, ps in places.items()},
        solver=f"rattler {rattler.__version__}",
    )


class NetworkError(Exception):
    """No place of a channel answered."""


def virtual(rattler: Any, name: str, text: str) -> Any:
    version, _, build = text.partition(" ")
    return rattler.GenericVirtualPackage(
        rattler.PackageName(name), rattler.Version(version), rattler.BuildString(build or "0")
    )


def canonical(url: str, request: dict[str, Any]) -> str:
    """A record's URL as locks write it, wherever its repodata was read. The longest place wins: one may lie in another."""
    fits = [
        (place.rstrip("/"), str(channel["url"]).rstrip("/"))
        for channel in request["channels"]
        for place in channel["places"]
        if url.startswith(place.rstrip("/") + "/")
    ]
    place, home = max(fits, key=lambda fit: len(fit[0]), default=("", ""))
    return home + url[len(place) :]


def snapshot_digests(place: str, platforms: list[str]) -> dict[str, str]:
    """subdir -> sha256 of repodata.json, for a folder; empty for a place on the network."""
    parts = urlsplit(place)
    if parts.scheme != "file":
        return {}
    files = {s: Path(unquote(parts.path)) / s / "repodata.json" for s in platforms}
    return {s: hashlib.sha256(f.read_bytes()).hexdigest() for s, f in files.items() if f.is_file()}


async def install(request: dict[str, Any]) -> None:
    """Download, check and link `records` into `staging` with `final` baked in; again after a passing fault."""
    import rattler
    import rattler.exceptions
    from rattler.networking.middleware import AuthenticationMiddleware, MirrorMiddleware

    records = [to_record(rattler, r) for r in request["records"]]
    middlewares: list[Any] = [AuthenticationMiddleware()]
    if mirrors := {url: places for url, places in request["mirrors"].items() if places}:
        middlewares.insert(0, MirrorMiddleware(mirrors))
    attempt = 0
    while True:
        try:
            await rattler.install(
                records,
                request["staging"],
                cache_dir=request["cache"],
                # A warm cache is checked again, and nothing is hard-linked: one environment cannot change another.
                package_cache=rattler.PackageCache.new_layered(
                    [request["cache"]], validation_mode=rattler.ValidationMode.full()
                ),
                config=rattler.Config.from_toml("allow-hard-links = false"),
                platform=rattler.Subdir(request["platform"]),
                client=rattler.Client(middlewares, user_agent=f"envmgr/{request['version']}"),
                installed_packages=[],
                reporter=InstallEvents(),
                alternative_target_prefix=request["final"],
                show_progress=False,
            )
        except rattler.exceptions.InstallerError as error:
            message = str(error)
            attempt += 1
            if attempt > request["retries"] or not passing(message):
                raise
            emit("retry", message=message.splitlines()[0], attempt=attempt)
            await asyncio.sleep(min(0.5 * 2**attempt, 10))
        else:
            return


def passing(message: str) -> bool:
    """Whether a second try can help: not for a full disk, a name that does not resolve, or a file that is not there."""
    return not any(
        sign in message for sign in ("No space left", "os error 28", "dns error", "404", "403", "401", "os error 2)")
    )


def to_record(rattler: Any, data: dict[str, Any]) -> Any:
    package = rattler.PackageRecord(
        name=data["name"],
        version=data["version"],
        build=rattler.BuildString.new_unchecked(data["build"]),
        build_number=data["build_number"],
        subdir=data["subdir"],
        noarch=data.get("noarch"),
        depends=list(data.get("depends", ())),
        constrains=list(data.get("constrains", ())),
        sha256=bytes.fromhex(data["sha256"]),
        md5=bytes.fromhex(data["md5"]) if data.get("md5") else None,
        size=data.get("size"),
        license=data.get("license"),
        python_site_packages_path=data.get("python_site_packages_path"),
    )
    return rattler.RepoDataRecord(package, data["url"].rpartition("/")[2], data["place"], data["url"].rsplit("/", 2)[0])


def compile_python(staging: Path, final: str, jobs: int) -> None:
    """Byte-compile every site and standard library folder, reproducibly: no times, one hash seed, the final path inside.

    Raises ChildProcessError when Python itself cannot run; files that do not compile (templates, Python 2) are normal.
    """
    from envmgr.run import Runner, clean_env

    python = staging / "bin" / "python"
    folders = sorted(p for p in (staging / "lib").glob("python3.*") if p.is_dir())
    if not python.exists() or not folders:
        return
    emit("compiling", files=sum(1 for folder in folders for _ in folder.rglob("*.py")))
    argv: list[str | Path] = [
        python,
        "-s",
        "-m",
        "compileall",
        "-q",
        "-f",
        "-j",
        str(jobs),
        "--invalidation-mode",
        "unchecked-hash",
    ]
    argv += ["-s", staging, "-p", final, *folders]
    done = Runner().run(argv, env=clean_env(PYTHONHASHSEED="0"), check=False, new_group=False)
    if done.returncode not in (0, 1):
        raise ChildProcessError(f"compileall ended with {done.returncode}: {done.stderr[-2000:]}")
    emit("compiled", log=(done.stdout + done.stderr)[-4000:])


def die_with_parent() -> None:
    """Wait for stdin's end in a thread: it comes when the parent is gone, whatever killed it."""

    def wait() -> None:
        while os.read(0, 4096):
            pass
        os.killpg(0, signal.SIGKILL)

    threading.Thread(target=wait, daemon=True).start()


def main() -> None:
    line = b""
    while not line.endswith(b"\n"):
        chunk = os.read(0, 1 << 16)
        if not chunk:
            os._exit(1)
        line += chunk
    request = json.loads(line)
    die_with_parent()
    status = 0
    try:
        if request["op"] == "solve":
            asyncio.run(solve(request))
        else:
            asyncio.run(install(request))
            compile_python(Path(request["staging"]), request["final"], request["jobs"])
        emit("done")
    except BaseException as error:  # noqa: BLE001 - whatever it is, the parent gets it as an event
        emit("error", kind=type(error).__name__, message=str(error))
        status = 1
    sys.stdout.flush()
    os._exit(status)


if __name__ == "__main__":
    main()
