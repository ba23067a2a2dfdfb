"""Files into the cache, each checked against its sha256. Runs inside a worker, and is one. Its protocol is in
system/worker.py.

The cache keeps archives, not unpacked packages: an archive can be compared with the lock at every use, an unpacked tree
only with itself; and no install shares a file with it. `<cache>/<sha256>/<file name>`. Events: `download`,
`downloaded`, `cached`, `retry`.
"""

from __future__ import annotations

import asyncio
import fcntl
import hashlib
import os
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from io import BufferedReader
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import unquote, urlsplit

from envmgr.downloads import has, transfer
from envmgr.system.processes import host_mark
from envmgr.system.worker import cancel_on_sigterm, emit, serve

AT_ONCE = 6  # downloads side by side
_CHUNK = 1 << 22  # bytes copied at once
_SCHEMES = ("http", "https", "file")

Reason = tuple[str, str, str]  # URL, `AttemptFailed.kind`, text


class DownloadError(Exception):
    """No place gave a file. `details["failed"]` has each such file: `name`, `sha256`, and a `Reason` for every
    place.
    """

    def __init__(self, failed: Sequence[Mapping[str, Any]]) -> None:
        super().__init__(", ".join(str(f["name"]) for f in failed))
        self.details = {"failed": list(failed)}


def make_client(version: str) -> Any:
    """Return rattler's HTTP client, which supports proxies, certificates and RATTLER_AUTH_FILE."""
    import rattler
    from rattler.networking import middleware

    stack = [middleware.AuthenticationMiddleware(), middleware.OciMiddleware()]
    stack += [middleware.GCSMiddleware(), middleware.S3Middleware()]
    return rattler.Client(stack, user_agent=f"envmgr/{version}")


async def fetch_all(request: Mapping[str, Any], *, keep: bool = False) -> list[str]:
    """Return a `file://` URL for each of the request's `records`, of a file with its sha256.

    A record's `places` are tried in order. Files in folders (`file://`) are used where they are. With `keep` they are
    copied into the `cache` as files from the network are: through a part file; and a file that cannot be had does not
    end the others. `retries` is per place, for faults that can pass; `stall_timeout` is seconds without a byte;
    `min_free` bytes of the cache's file system stay free, whatever comes, after the files are also `unpacked` (times as
    large as they are).

    Raises:
        DownloadError: every place of a file failed; OSError: the cache cannot be written; TooLarge.
    """
    records, cache, least = request["records"], Path(request["cache"]), int(request["min_free"])
    # Before the first byte: a disk that is full at the end would waste the whole transfer.
    await transfer.require_download_space(
        records, cache, keep_free=least, unpacked=request.get("unpacked", 0), keep=keep
    )
    folders = all(place.startswith("file://") for record in records for place in record["places"])
    client = None if folders else make_client(request["version"])  # slow to load
    stall_timeout = float(request["stall_timeout"])
    gate = asyncio.Semaphore(AT_ONCE)
    room = transfer.Room(cache, least)
    failed: list[Mapping[str, Any]] = []

    async def one(record: Mapping[str, Any]) -> str:
        async with gate:
            try:
                found = await _fetch(record, cache, client, request["retries"], stall_timeout, room, keep=keep)
            except DownloadError as error:
                if not keep:
                    raise
                failed.extend(error.details["failed"])
                return ""
        emit("cached", name=record["name"])
        return found

    tasks = [asyncio.ensure_future(one(r)) for r in records]
    try:
        found = await asyncio.gather(*tasks)
    except BaseException:
        # `gather` lets the other tasks run on after an error.
        for task in tasks:
            task.cancel()
        # They must end first: each removes its part file on the way out.
        await asyncio.gather(*tasks, return_exceptions=True)
        raise
    if failed:
        raise DownloadError(failed)
    return found


async def _fetch(
    record: Mapping[str, Any],
    cache: Path,
    client: Any,
    retries: int,
    stall_timeout: float,
    room: transfer.Room,
    *,
    keep: bool,
) -> str:
    target: Path = cache / record["sha256"] / record["file"]
    if await asyncio.to_thread(has, target, record["sha256"]):
        return target.as_uri()
    reasons: list[Reason] = []
    for place in record["places"]:
        for attempt in range(retries + 1):
            try:
                if place.startswith("file://") and not keep:
                    return await asyncio.to_thread(_from_folder, place, record["sha256"])
                await _into_cache(place, record, target, client, stall_timeout, room)
            except transfer.AttemptFailed as fault:
                if fault.again and attempt < retries:
                    emit("retry", name=record["name"], message=f"{place}: {fault}", attempt=attempt + 1)
                    # Longer each time, for a server that needs time to recover.
                    await asyncio.sleep(min(0.3 * 2**attempt, 10))
                    continue
                reasons.append((place, fault.kind, str(fault)))
                break
            else:
                return target.as_uri()
    raise DownloadError([{"name": record["name"], "sha256": record["sha256"], "reasons": reasons}])


def _from_folder(place: str, sha256: str) -> str:
    with _open_in_folder(place) as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    if digest != sha256:
        raise transfer.wrong_sha256(digest, sha256)
    return place


def _open_in_folder(place: str) -> BufferedReader:
    path = Path(unquote(urlsplit(place).path))
    try:
        # Before `open`, which would wait for the writer of a pipe.
        if not path.is_file():
            raise transfer.AttemptFailed("not-found", "no such file", again=False)
        return path.open("rb")
    except OSError as error:
        raise transfer.AttemptFailed("refused", error.strerror or str(error), again=False) from None


async def _into_cache(
    place: str, record: Mapping[str, Any], target: Path, client: Any, stall_timeout: float, room: transfer.Room
) -> None:
    if urlsplit(place).scheme not in _SCHEMES:
        raise transfer.AttemptFailed("refused", "only http(s):// URLs and folders are fetched from", again=False)
    async with _part_file(target) as (part, file):
        if await asyncio.to_thread(has, target, record["sha256"]):
            part.unlink()  # another run fetched it meanwhile
            return
        try:
            writer = transfer.Writer(file, record["name"], record.get("size"), room)
            if place.startswith("file://"):
                await _copy(place, writer)
            else:
                with suppress(transfer.OversizedError):  # reported below, unless it only arrived unpacked
                    await _transfer(place, writer, client, stall_timeout)
                if writer.digest.hexdigest() != record["sha256"] and _was_unpacked(part, file):
                    # In append mode the next write begins at the new end, without a seek.
                    file.truncate(0)
                    writer = transfer.Writer(file, record["name"], record.get("size"), room)
                    await transfer.unless_stalled(
                        asyncio.ensure_future(_read_plainly(place, writer, stall_timeout)), writer, stall_timeout
                    )
                if writer.error is not None:
                    raise writer.error
            if (digest := writer.digest.hexdigest()) != record["sha256"]:
                # A server may send a good copy the next time; a file in a folder does not change between two attempts.
                raise transfer.wrong_sha256(digest, record["sha256"], again=not place.startswith("file://"))
            # Python's buffer must be in the file before other processes see its final name.
            file.flush()
            part.replace(target)
        except transfer.OversizedError as error:
            raise transfer.AttemptFailed("sha256", str(error), again=False) from None
        finally:
            # The lock is still held, so no other run's part file can be there. After `replace` it is already gone.
            part.unlink(missing_ok=True)
            with suppress(OSError):
                target.parent.rmdir()  # only an empty one goes
    emit("downloaded", name=record["name"], done=writer.done, place=place)


async def _copy(place: str, writer: transfer.Writer) -> None:
    """Copy in pieces: a copy that is cancelled ends at the next one."""
    with _open_in_folder(place) as file:
        try:
            while chunk := await asyncio.to_thread(file.read, _CHUNK):
                await asyncio.to_thread(writer.write, chunk)
        except OSError as error:
            if writer.error is not None:
                raise
            raise transfer.AttemptFailed("refused", error.strerror or str(error), again=False) from None


async def _transfer(place: str, writer: transfer.Writer, client: Any, stall_timeout: float) -> None:
    from rattler.package_streaming import download_to_writer

    task = asyncio.ensure_future(download_to_writer(client, place, writer))
    try:
        await transfer.unless_stalled(task, writer, stall_timeout)
    except asyncio.CancelledError:
        task.cancel()
        raise
    except (OSError, RuntimeError, transfer.TooLarge) as error:
        if writer.error is not None:
            raise writer.error from None  # our disk, not their network
        raise await asyncio.to_thread(transfer.attempt_failed, error, place) from None


def _was_unpacked(part: Path, file: BinaryIO) -> bool:
    """Return whether `x.tar.gz` arrived as `x.tar`: some servers call it `Content-Encoding: gzip`, and rattler's client
    obeys.
    """
    file.flush()
    with part.open("rb") as arrived:
        name = part.name.removesuffix(f".{host_mark()}.part")
        return name.endswith((".gz", ".tgz")) and arrived.read(2) != b"\x1f\x8b"


async def _read_plainly(place: str, writer: transfer.Writer, stall_timeout: float) -> None:
    """Read with a client that does not change the bytes. `stall_timeout` is seconds without a byte."""
    from envmgr.downloads.web import open_url

    try:
        with await asyncio.to_thread(open_url, place, stall=stall_timeout) as answer:
            while chunk := await asyncio.to_thread(answer.read1, _CHUNK):  # what is there: a drip is seen as one
                await asyncio.to_thread(writer.write, chunk)
    except OSError as error:
        if writer.error is not None:
            raise writer.error from None
        raise transfer.AttemptFailed("cut", f"the transfer ended early: {error}", again=True) from None


@asynccontextmanager
async def _part_file(target: Path) -> AsyncIterator[tuple[Path, BinaryIO]]:
    """Yield an empty part file beside `target`, locked: a second fetch of the archive waits; what a killed one left is
    overwritten.

    Each host has its own: if locks stay on each client, two hosts would write into one.
    """
    part = target.with_name(f".{target.name}.{host_mark()}.part")
    while True:
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            # `w` would empty the file of the run that holds the lock.
            file = part.open("ab")
        except FileNotFoundError:  # the folder was empty, and went
            continue
        try:
            if _lock(file) and _is_still(part, file):
                file.truncate(0)
                yield part, file
                return
        finally:
            file.close()
        await asyncio.sleep(transfer.LOOK_EVERY)


def _lock(file: BinaryIO) -> bool:
    try:
        # A lock that blocks would stop the event loop, and all other downloads with it.
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_still(path: Path, file: BinaryIO) -> bool:
    """Return whether `file` still lies at `path`: the process that held its lock before may have renamed or
    removed it.
    """
    try:
        return os.path.samestat(path.stat(), os.fstat(file.fileno()))
    except FileNotFoundError:
        return False


async def fetch_request(request: dict[str, Any]) -> None:
    cancel_on_sigterm()
    await fetch_all(request, keep=True)


if __name__ == "__main__":
    serve(lambda request: asyncio.run(fetch_request(request)))
