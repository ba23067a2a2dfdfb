"""Bad downloads: what a broken mirror, a wrong file or no network does to a build, and how it is told."""

from __future__ import annotations

import hashlib
import re
import shutil
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from envmgr.backends.conda.lockfile import read_lock
from envmgr.wording import size_text
from tests.helpers.sandbox import Sandbox, use
from tests.helpers.scenes import error_of, locked, no_processes, parts, plain, processes
from tests.helpers.small_disk import Small
from tests.helpers.standin.channel import Channel
from tests.helpers.standin.server import Fault, Server, serve
from tests.helpers.standin.server import Kind as FaultKind
from tests.helpers.waiting import long_enough

FILE = "hello-prefix-1.0-0.conda"
OWN = f"http://channel.invalid/standin/noarch/{FILE}"
AT_MIRROR = f"http://MIRROR/noarch/{FILE}"
NO_NAME = "Name or service not known"
MIRRORS = "backends.conda.channels.<name>.mirrors"
WAYS = (
    f"give it a mirror in site.yaml ({MIRRORS} takes URLs and folders), or bring the files from a machine with a network "
    "and the same catalog: `envmgr fetch hello/1.0` there, `envmgr fetch hello/1.0 --file FOLDER` here"
)
RETRY = f"what was fetched is kept: run the same command again, or use another mirror ({MIRRORS} in site.yaml)"
DAMAGED = (
    "the file there is damaged or was replaced: compare it with its publisher's, or lock again if that one changed"
)
WRONG = f"{FILE}: what arrived is not what the lock names"


@pytest.fixture
def server(channel: Channel) -> Iterator[Server]:
    with serve(channel.folder) as running:
        yield running


@pytest.fixture
def box(sandbox: Sandbox, server: Server) -> Sandbox:
    """Locked from the channel's folder, installed from the server. `hello` needs one download, `kept` is published."""
    locked(sandbox, "hello/1.0", ["hello-prefix"], tests=[{"name": "runs", "run": "hello-prefix"}])
    locked(sandbox, "kept/1.0", ["hello-activate"])
    use(sandbox, server.url)
    sandbox.ok("build", "kept/1.0")
    return sandbox


def failed(box: Sandbox) -> str:
    """Build `hello`, which must fail with exit code 3 and leave nothing; returns its message."""
    done = box.run("build", "hello/1.0")
    text = error_of(done, box)
    assert done.code == 3, done.stderr
    nothing_left(box)
    return text


def nothing_left(box: Sandbox) -> None:
    assert box.current() == 1
    assert box.leftovers() == []
    assert parts(box) == []
    assert not list(box.prefix.glob("store/hello/*"))
    assert not list(box.prefix.glob(f"cache/**/{FILE}")), "what was refused is in the cache"
    assert processes(box) == []


def recovers(box: Sandbox, server: Server) -> None:
    """The next ordinary run, with the fault gone, succeeds."""
    server.faults.clear()
    server.release()
    box.ok("build", "hello/1.0")
    assert box.current() == 2
    assert box.leftovers() == []
    assert parts(box) == []


def requests(server: Server) -> list[int]:
    return [r.status for r in server.requests if r.path.endswith(FILE)]


def said(reference: str, message: str, reason: str, hint: str) -> str:
    """The error of a file that neither the mirror nor the channel gives."""
    return (
        f"error[{reference}]: {message}\n"
        f"  {AT_MIRROR}: {reason}\n"
        f"  {OWN}: {NO_NAME}\n"
        f"  hello/1.0 was not built\n"
        f"  log: LOG\n"
        f"\n"
        f"hint: {hint}"
    )


CANNOT = f"cannot fetch {AT_MIRROR}"
FAULTS: dict[FaultKind, tuple[str, list[int]]] = {
    "cut": (said("download-failed", CANNOT, "the transfer ended early", RETRY), [200] * 3),
    "503-then-ok": (said("download-failed", CANNOT, "503 Service Unavailable", RETRY), [503] * 3),
    "404": (said("not-found", CANNOT, "404 Not Found", f"no place has it any more: {WAYS}; or lock again"), [404]),
    "corrupt": (said("wrong-sha256", WRONG, "sha256 is …", DAMAGED), [200] * 3),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_file_that_no_place_gives(box: Sandbox, server: Server, fault: FaultKind) -> None:
    """It is asked for once, and twice more by default where that may help; the next run begins as if nothing had been."""
    del box.policies["download_retries"]
    box.write_site()
    server.faults["noarch/hello-prefix*"] = Fault(fault, times=100)
    told, asked = FAULTS[fault]
    assert re.sub(r"sha256 is .*", "sha256 is …", failed(box)) == told
    assert requests(server) == asked
    recovers(box, server)


def test_no_network_says_which_url_and_the_other_ways(box: Sandbox, server: Server) -> None:
    use(box, f"http://127.0.0.1:{closed_port()}")
    assert failed(box) == said("no-network", CANNOT, "Connection refused", WAYS)
    use(box)
    assert failed(box).startswith(
        f"error[no-network]: cannot fetch {OWN}\n  {OWN}: {NO_NAME}\n  hello/1.0 was not built\n"
    )
    use(box, server.url)
    recovers(box, server)


def test_cut_download_that_passes_is_tried_again(box: Sandbox, server: Server) -> None:
    server.faults["noarch/hello-prefix*"] = Fault("cut", times=1)
    done = box.ok("build", "hello/1.0")
    assert re.search(
        rf"^hello/1\.0: trying again: http://.*/{FILE}: the transfer ended early$", done.stderr, re.MULTILINE
    )
    assert requests(server) == [200, 200]
    assert box.current() == 2


def sha256(channel: Channel) -> str:
    return str(channel.records[f"noarch/{FILE}"]["sha256"])


def wrong_lock(box: Sandbox) -> str:
    """Put another sha256 into the lock; returns it."""
    wrong = "ab" * 32
    lock = box.root / "recipes/hello/1.0/conda-lock.yml"
    lock.write_text(re.sub(r"sha256: [0-9a-f]{64}", f"sha256: {wrong}", lock.read_text()))
    (lock.parent / "conda-lock.records.json").unlink()  # it would belong to another text: the lock stands for itself
    return wrong


@pytest.mark.parametrize("from_folder", [False, True])
def test_wrong_sha256_in_the_lock(box: Sandbox, channel: Channel, from_folder: bool) -> None:
    """rattler itself takes a file from a folder unchecked: a wrong one must not get through by any way."""
    if from_folder:
        use(box, str(channel.folder))
    place = plain(f"{channel.url}/noarch/{FILE}", box) if from_folder else AT_MIRROR
    wrong = wrong_lock(box)
    told = said("wrong-sha256", WRONG, f"sha256 is {sha256(channel)}, the lock says {wrong}", DAMAGED)
    assert failed(box) == told.replace(AT_MIRROR, place)


def test_wrong_sha256_is_not_helped_by_a_warm_cache(box: Sandbox) -> None:
    locked(box, "twin/1.0", ["hello-prefix"])
    box.ok("build", "twin/1.0")  # the same package, now in the cache
    wrong_lock(box)
    done = box.run("build", "hello/1.0")
    assert done.code == 3
    assert f"error[wrong-sha256]: {FILE}: what arrived is not what the lock names" in done.stderr
    assert not list(box.prefix.glob("store/hello/*"))
    assert box.current() == 2


def test_damaged_cache_is_noticed_and_mended(box: Sandbox) -> None:
    locked(box, "twin/1.0", ["hello-prefix"])
    box.ok("build", "twin/1.0")
    archives = list(box.prefix.glob(f"cache/conda/**/{FILE}"))
    assert len(archives) == 1
    archives[0].chmod(0o644)
    archives[0].write_bytes(archives[0].read_bytes()[:-1] + b"\xff")
    box.ok("build", "hello/1.0")
    assert box.current() == 3
    assert box.ok("verify").code == 0


@pytest.mark.parametrize(
    "damage", [lambda d: d[: len(d) // 2], lambda _: b"", lambda d: d[:-1] + bytes([d[-1] ^ 0xFF])]
)
def test_damaged_file_in_a_folder(box: Sandbox, channel: Channel, damage: Callable[[bytes], bytes]) -> None:
    mirror = box.root / "mirror"
    (mirror / "noarch").mkdir(parents=True)
    good = (channel.folder / "noarch" / FILE).read_bytes()
    (mirror / "noarch" / FILE).write_bytes(damage(good))
    use(box, str(mirror))
    text = failed(box)
    assert text.startswith(
        f"error[wrong-sha256]: {FILE}: what arrived is not what the lock names\n"
        f"  file://ROOT/mirror/noarch/{FILE}: sha256 is {hashlib.sha256(damage(good)).hexdigest()}, "
        f"the lock says {sha256(channel)}\n"
    )
    use(box, str(mirror), channel.url)  # the next place has it
    box.ok("build", "hello/1.0")


@pytest.mark.parametrize("at", [0, None])
def test_stalled_mirror_is_given_up(box: Sandbox, server: Server, at: int | None) -> None:
    server.faults["noarch/hello-prefix*"] = Fault("stall", at=at)
    size = 0 if at == 0 else (server.folder / "noarch" / FILE).stat().st_size // 2

    def given_up(limit: float) -> tuple[str, str]:
        box.policies |= {"stall_timeout": limit, "download_retries": 0}
        box.write_site()
        return f"no byte for {limit:g} s after {size_text(size)}", failed(box)

    why, told = long_enough(given_up, lambda found: found[0] in found[1], first=0.7)
    assert told == said("download-stalled", CANNOT, why, f"try again later, or {WAYS}")
    box.policies["stall_timeout"] = 60
    box.write_site()
    recovers(box, server)


def test_mirror_that_takes_the_connection_and_never_answers(box: Sandbox) -> None:
    box.policies |= {"stall_timeout": 0.7, "download_retries": 0}
    with socket.create_server(("127.0.0.1", 0)) as silent:
        use(box, f"http://127.0.0.1:{silent.getsockname()[1]}")
        assert failed(box).startswith(
            f"error[download-stalled]: cannot fetch {AT_MIRROR}\n  {AT_MIRROR}: no byte for 0.7 s after 0 B\n"
        )


def test_mirror_that_drips_is_given_up(box: Sandbox, server: Server) -> None:
    """It is never silent for as long as the limit."""
    server.faults["noarch/hello-prefix*"] = Fault("slow", rate=1)
    box.policies |= {"stall_timeout": 3.0, "download_retries": 0}
    box.write_site()
    assert f"{AT_MIRROR}: " in (text := failed(box))
    assert re.search(r"download-stalled.*: \d+ B in 3 s after", text.replace("\n", " ")), text
    recovers(box, server)


def test_lock_against_a_channel_that_drips_is_given_up(box: Sandbox, server: Server) -> None:
    server.faults["*repodata*"] = Fault("slow", rate=20)
    box.policies |= {"stall_timeout": 1.5}
    box.write_site()
    box.recipe("more/1.0", ["hello-prefix"])
    done = box.run("lock", "more/1.0")
    assert done.code == 3
    assert re.search(r"error\[download-stalled\]: a channel stalled: \d+ B in 1.5 s", done.stderr), done.stderr


def test_no_more_is_written_than_the_lock_says(box: Sandbox, server: Server) -> None:
    server.faults["noarch/hello-prefix*"] = Fault("flood")
    size = size_text((server.folder / "noarch" / FILE).stat().st_size)
    text = failed(box)
    assert max(r.sent for r in server.requests if r.path.endswith(FILE)) < 200 << 20  # it hung up
    assert "error[wrong-sha256]" in text
    assert f"{AT_MIRROR}: more than the {size} of the lock" in text
    recovers(box, server)


def test_fetch_of_a_file_without_end_leaves_min_free(tmp_path: Path, server: Server) -> None:
    """Neither the lock nor the server tells its size, so nothing is seen before the first byte."""
    box = Small(tmp_path, server.url)
    box.settings["prefix"] = str(tmp_path / "prefix")
    box.policies |= {"min_free": 40 << 20, "download_retries": 0}
    box.write_site()
    locked(Sandbox(tmp_path, server.url), "hello/1.0", ["hello-prefix"])
    (tmp_path / "recipes/hello/1.0/conda-lock.records.json").unlink()
    server.faults["noarch/hello-prefix*"] = Fault("endless")
    box.mount("80m")
    try:
        done = box.run("fetch", "hello/1.0")
        assert done.code == 3
        assert re.match(
            r"error\[disk-full\]: [\d.]+ MB are free while it comes, and 41.9 MB are to stay free\n", done.stderr
        )
        assert max(r.sent for r in server.requests if r.path.endswith(FILE)) < 80 << 20  # it hung up
        assert parts(box) == []
    finally:
        if box.inside:
            box.inside.leave()


def test_slow_mirror_is_not_a_stalled_one(box: Sandbox, server: Server) -> None:
    """A bit every 50 ms, and twice as long in all as the limit."""
    size = (server.folder / "noarch" / FILE).stat().st_size

    def build(limit: float) -> int:
        box.policies["stall_timeout"] = limit
        box.write_site()
        server.faults["noarch/hello-prefix*"] = Fault("slow", rate=int(size / (2 * limit)))
        return box.run("build", "hello/1.0").code

    long_enough(build, lambda code: code == 0, first=1.5)


@pytest.mark.parametrize("fault", ["404", "cut", "corrupt", "stall", "503-then-ok"])
def test_next_mirror_is_asked_after_one_that_fails(box: Sandbox, server: Server, channel: Channel, fault: str) -> None:
    def build(limit: float) -> int:
        box.policies |= {"stall_timeout": limit, "download_retries": 0}
        server.requests.clear()
        with serve(channel.folder, {"noarch/hello-prefix*": Fault(fault, times=100)}) as bad:  # type: ignore[arg-type]
            use(box, bad.url, server.url)
            code = box.run("build", "hello/1.0").code
            assert len(requests(bad)) == 1
        return code

    long_enough(build, lambda code: code == 0, first=0.7 if fault == "stall" else 60)
    assert requests(server) == [200]
    assert box.current() == 2


def test_next_mirror_is_asked_after_one_that_refuses(box: Sandbox, server: Server) -> None:
    use(box, f"http://127.0.0.1:{closed_port()}", str(box.root / "empty-folder"), server.url)
    box.ok("build", "hello/1.0")
    assert requests(server) == [200]


def closed_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return int(taken.getsockname()[1])


@pytest.mark.parametrize("folder", ["cache", "cache/conda"])
def test_carried_cache_takes_the_place_of_the_network(
    box: Sandbox, make_sandbox: Callable[[str, str], Sandbox], server: Server, folder: str
) -> None:
    connected = make_sandbox("connected", server.url)
    locked(connected, "hello/1.0", ["hello-prefix"])
    connected.ok("fetch", "hello/1.0")
    shutil.copytree(connected.prefix / "cache", box.root / "stick/cache")
    use(box)
    failed(box)

    done = box.ok("fetch", "hello/1.0", "--file", f"stick/{folder}")

    assert done.stdout.startswith("hello/1.0: 1 file, 0 there, 1 fetched (")
    box.ok("build", "hello/1.0")
    assert box.current() == 2


def test_fetch_without_network_tells_a_reason_that_files_share_once(sandbox: Sandbox) -> None:
    locked(sandbox, "many/1.0", ["hello-prefix", "hello-activate", "left", "six", "python", "tabulate"])
    use(sandbox)

    done = sandbox.run("fetch", "many/1.0")

    assert done.code == 3
    first, *others = sorted(
        read_lock(sandbox.root / "recipes/many/1.0")[0].packages, key=lambda package: package.file_name
    )
    names = [package.file_name for package in others]
    assert error_of(done, sandbox).split("\n\n")[0] == (
        f"error[no-network]: cannot fetch {first.url}\n"
        f"  {first.url}: {NO_NAME}\n"
        f"  {', '.join(names[:3])} and {len(names) - 3} more cannot be had either, for the same reason\n"
        "  many/1.0 was not fetched\n"
        "  log: LOG"
    )


def test_fetch_of_several_entries_without_network_gives_one_hint_for_all(box: Sandbox) -> None:
    locked(box, "left/1.0", ["left"])
    use(box)
    done = box.run("fetch", "hello/1.0", "left/1.0")
    assert done.code == 3
    assert error_of(done, box).partition("\nhint: ")[2] == WAYS.replace("hello/1.0", "hello/1.0 left/1.0")


def test_locking_without_network_says_which_url_and_how_to_mirror(sandbox: Sandbox) -> None:
    use(sandbox)
    sandbox.recipe("hello/1.0", ["hello-prefix"])
    done = sandbox.run("lock", "hello/1.0")
    assert done.code == 3
    text = error_of(done, sandbox)
    assert text.startswith("error[no-network]: cannot fetch http://channel.invalid/standin/"), text
    assert text.endswith(f"give the channel a mirror in site.yaml: {MIRRORS} takes URLs and folders")
    assert not (sandbox.root / "recipes/hello/1.0/conda-lock.yml").exists()


def test_full_cache_needs_no_network(box: Sandbox) -> None:
    box.ok("build", "hello/1.0")
    use(box)
    locked(box, "again/1.0", ["hello-prefix"])
    box.ok("build", "again/1.0")
    assert box.current() == 3


def test_one_bad_entry_of_two_keeps_the_other_install(box: Sandbox, server: Server) -> None:
    locked(box, "six/1.0", ["shared"])
    server.faults["noarch/hello-prefix*"] = Fault("404")
    done = box.run("build", "-j", "2", "hello/1.0", "six/1.0")
    assert done.code == 3
    assert "  hello/1.0 was not built\n  built and kept for the next run: six/1.0\n" in done.stderr
    nothing_left(box)
    assert len(list(box.prefix.glob("store/six/*.manifest.json"))) == 1
    told = box.run("build", "hello/1.0", "six/1.0", "-k", "--format", "json")
    assert ([f["what"] for f in told.data["failed"]], told.data["written"]["published"]) == (["hello/1.0"], ["six/1.0"])
    assert box.current() == 2
    server.faults.clear()
    again = box.ok("build", "-j", "2", "hello/1.0", "six/1.0", "--format", "json").data
    assert again["built"] == ["hello/1.0"]
    assert again["generation"] == 3
    no_processes(box)


def test_archive_is_fetched_once_for_two_entries(box: Sandbox, server: Server) -> None:
    locked(box, "twin/1.0", ["hello-prefix"])
    server.faults["noarch/hello-prefix*"] = Fault("slow", rate=3000)
    box.ok("build", "-j", "2", "hello/1.0", "twin/1.0")
    assert requests(server) == [200]


def test_mirror_folder_is_read_where_it_is(box: Sandbox, channel: Channel) -> None:
    use(box, str(channel.folder))
    box.ok("build", "hello/1.0")
    assert not list(box.prefix.glob(f"cache/**/{FILE}"))


def test_secrets_of_a_mirror_are_told_nowhere(box: Sandbox, server: Server) -> None:
    place = server.url.replace("://", "://me:s3cret@") + "/t/tk-9999"
    use(box, place)
    for verb in (("build", "hello/1.0"), ("fetch", "hello/1.0"), ("lock", "hello/1.0"), ("check",), ("site", "show")):
        for more in ((), ("--format", "json")):
            done = box.run(*verb, *more)
            told = done.stdout + done.stderr
            assert "s3cret" not in told, (verb, told)
            assert "tk-9999" not in told, (verb, told)
    assert "***@127.0.0.1" in box.run("fetch", "hello/1.0").stderr
    records = [path for path in box.prefix.rglob("*") if path.is_file() and path.stat().st_size < 1 << 20]
    assert [path for path in records if b"s3cret" in path.read_bytes() or b"tk-9999" in path.read_bytes()] == []


@pytest.mark.parametrize("url", ["https://me:s3cret@host/standin", "https://host/t/tk-9999/standin"])
def test_channel_that_locks_would_record_has_no_secret(box: Sandbox, url: str) -> None:
    box.settings["channels"] = {"standin": {"url": url}}
    box.write_site()
    for recipe in (["hello-prefix"], None):
        if recipe is None:
            use(box)
            box.recipe("hello/1.0", [], input={"channels": [url], "specs": ["hello-prefix"]})
        done = box.run("lock", "hello/1.0")
        assert done.code == 2
        assert "a password or a token" in done.stderr or "password or token" in done.stderr
        assert "s3cret" not in done.stderr
        assert "tk-9999" not in done.stderr
