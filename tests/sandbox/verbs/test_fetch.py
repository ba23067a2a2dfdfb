"""Fetching: sources and packages into the cache from mirrors, upstream and files at hand; and exactly what to do without."""

from __future__ import annotations

import gzip
import hashlib
import http.server
import os
import shutil
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from envmgr.builds.prepare import clean_leftovers
from envmgr.catalog.site import Site, _resolve
from envmgr.catalog.site_file import SiteFile
from envmgr.downloads import Fetched, read_given
from envmgr.downloads.bring import Fetching
from envmgr.downloads.fetch import fetch_sets
from envmgr.downloads.sources import SourceFile, source_set
from envmgr.errors import EnvmgrError, InputError, Interrupted
from envmgr.report import SilentReporter
from envmgr.store.prefix import Prefix
from envmgr.system.files import sha256_file
from envmgr.system.processes import host_mark
from envmgr.system.run import Runner
from envmgr.wording import size_text
from tests.helpers.sandbox import Sandbox, use
from tests.helpers.scenes import error_of, finish, kill, locked, no_processes, parts, processes, snapshot
from tests.helpers.standin.channel import Channel
from tests.helpers.standin.server import Fault, Server, serve
from tests.helpers.waiting import wait_for

ZLIB = b"zlib's sources\n" * 20_000
CUDA = b"#!/bin/sh\n# NVIDIA's installer\n" * 10_000
NO_NAME = "Name or service not known"
HELLO = "hello-prefix-1.0-0.conda"


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


@pytest.fixture
def upstream(tmp_path: Path) -> Iterator[Server]:
    folder = tmp_path / "upstream"
    folder.mkdir()
    (folder / "zlib-1.3.1.tar.xz").write_bytes(ZLIB)
    with serve(folder) as running:
        yield running


class Scene:
    """A site with a prefix and mirrors of its own, and sources to fetch into it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.site = self.with_sources()
        self.runner = Runner()

    @property
    def prefix(self) -> Prefix:
        return Prefix(self.root / "prefix")

    @property
    def cache(self) -> Path:
        return self.root / "prefix/cache/sources"

    def with_sources(self, **sources: Any) -> Site:
        policies = {"min_free": 0, "stall_timeout": 60.0, "download_retries": 1}
        file = SiteFile.model_validate({"prefix": str(self.root / "prefix"), "policies": policies, "sources": sources})
        self.site = _resolve(file, self.root / "site.yaml")
        return self.site

    def fetch(self, *files: SourceFile, given: Path | None = None, dry_run: bool = False) -> Fetched:
        how = Fetching(self.site.policies, self.runner, SilentReporter(), "cuda/12.1", dry_run)
        return fetch_sets([source_set(files, self.site, "cuda/12.1")], how, read_given(given) if given else {})

    def cached(self, file: SourceFile) -> Path:
        """Its place in the cache, where it is."""
        path = file.cached(self.prefix)
        assert sha256_file(path) == file.sha256
        return path

    def refused(self, *files: SourceFile) -> str:
        with pytest.raises(EnvmgrError) as caught:
            self.fetch(*files)
        assert self.files() == [], "something was left"
        return caught.value.render().replace(str(self.root), "ROOT")

    def files(self) -> list[str]:
        return sorted(str(p.relative_to(self.cache)) for p in self.cache.rglob("*"))


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


def zlib(server: Server | None = None, *urls: str) -> SourceFile:
    own = (f"{server.url}/zlib-1.3.1.tar.xz",) if server else ()
    return SourceFile("zlib-1.3.1.tar.xz", sha256(ZLIB), (*urls, *own), "z/zlib")


def cuda(*urls: str) -> SourceFile:
    return SourceFile("cuda_12.1.1_linux.run", sha256(CUDA), urls, "c/CUDA")


def outcome(fetched: Fetched) -> list[tuple[str, str, int | None]]:
    return [(f.name, f.state, f.size) for f in fetched.files]


def test_source_from_upstream_then_from_the_cache(scene: Scene, upstream: Server) -> None:
    first = scene.fetch(zlib(upstream))
    assert outcome(first) == [("zlib-1.3.1.tar.xz", "fetched", len(ZLIB))]
    assert (first.fetched, first.present, first.bytes, first.missing) == (1, 0, len(ZLIB), ())
    path = scene.cached(zlib())
    assert path == scene.cache / sha256(ZLIB) / "zlib-1.3.1.tar.xz"
    assert path.read_bytes() == ZLIB
    asked = len(upstream.requests)
    again = scene.fetch(zlib(upstream))
    assert (again.fetched, again.present, again.bytes) == (0, 1, 0)
    assert len(upstream.requests) == asked
    assert scene.files() == [sha256(ZLIB), f"{sha256(ZLIB)}/zlib-1.3.1.tar.xz"]


@pytest.mark.parametrize(
    "below",
    [
        *("z/zlib/zlib-1.3.1.tar.xz", "z/zlib/extensions/zlib-1.3.1.tar.xz", "zlib-1.3.1.tar.xz"),
        f"{sha256(ZLIB)}/zlib-1.3.1.tar.xz",
    ],
)
@pytest.mark.parametrize("http", [False, True])
def test_mirror_in_each_layout_is_asked_before_upstream(scene: Scene, below: str, http: bool) -> None:
    mirror = scene.root / "the mirror"
    (mirror / below).parent.mkdir(parents=True)
    (mirror / below).write_bytes(ZLIB)
    with serve(mirror) as server, serve(scene.root) as upstream:
        scene.with_sources(mirrors=[server.url if http else "the mirror"])
        scene.fetch(zlib(None, f"{upstream.url}/zlib-1.3.1.tar.xz"))
        assert [r for r in upstream.requests if r.method == "GET"] == []
    shutil.rmtree(mirror)
    assert scene.cached(zlib()), "a file in a folder is copied: other nodes need it"


def test_name_with_shell_and_url_characters(scene: Scene) -> None:
    name = "a b+c%20#1.tar.xz"
    mirror = scene.root / "mirror"
    mirror.mkdir()
    (mirror / name).write_bytes(ZLIB)
    file = SourceFile(name, sha256(ZLIB), (), "")
    for number, place in enumerate(("http", "folder")):
        with serve(mirror) as server:
            scene.with_sources(mirrors=[server.url if place == "http" else str(mirror)])
            assert scene.fetch(file).fetched == 1, number
        shutil.rmtree(scene.cache)


@pytest.mark.parametrize("name", ["cuda_12.1.1_linux.run", "renamed by the browser (1).run"])
@pytest.mark.parametrize("folder", [False, True])
def test_given_file_is_taken_by_its_sha256(scene: Scene, name: str, folder: bool) -> None:
    downloads = scene.root / "downloads"
    downloads.mkdir()
    (downloads / name).write_bytes(CUDA)
    (downloads / "holiday.jpg").write_bytes(b"jpg")
    assert outcome(scene.fetch(cuda(), given=downloads if folder else downloads / name)) == [
        ("cuda_12.1.1_linux.run", "fetched", len(CUDA))
    ]
    shutil.rmtree(downloads)
    assert scene.cached(cuda()).name == "cuda_12.1.1_linux.run"


def test_installer_that_no_url_gives_is_told_with_sha256_and_place(scene: Scene) -> None:
    assert scene.refused(cuda()) == (
        "error[source-missing]: cuda/12.1: cuda_12.1.1_linux.run is missing\n"
        f"  sha256 {sha256(CUDA)}\n"
        "  no URL gives it\n"
        "\n"
        "hint: download cuda_12.1.1_linux.run by hand (the vendor's installer), then\n"
        "  run `envmgr fetch cuda/12.1 --file /path/to/cuda_12.1.1_linux.run`\n"
        "  or put it into a folder that sources.mirrors in site.yaml names, as c/CUDA/cuda_12.1.1_linux.run\n"
        f"  or put it at ROOT/prefix/cache/sources/{sha256(CUDA)}/cuda_12.1.1_linux.run"
    )


def test_every_place_that_lacks_a_source_is_told(scene: Scene, upstream: Server) -> None:
    (scene.root / "mirror").mkdir()
    scene.with_sources(mirrors=[upstream.url, "mirror"])
    upstream.faults["*"] = Fault("404")
    assert scene.refused(zlib(None, "http://upstream.invalid/zlib-1.3.1.tar.xz", "ftp://old.invalid/x")).replace(
        upstream.url, "http://MIRROR"
    ) == (
        "error[source-missing]: cuda/12.1: zlib-1.3.1.tar.xz is missing\n"
        f"  sha256 {sha256(ZLIB)}\n"
        "  http://MIRROR/z/zlib/zlib-1.3.1.tar.xz: 404 Not Found\n"
        "  http://MIRROR/z/zlib/extensions/zlib-1.3.1.tar.xz: 404 Not Found\n"
        "  http://MIRROR/zlib-1.3.1.tar.xz: 404 Not Found\n"
        f"  http://MIRROR/{sha256(ZLIB)}/zlib-1.3.1.tar.xz: 404 Not Found\n"
        "  file://ROOT/mirror/z/zlib/zlib-1.3.1.tar.xz: no such file\n"
        "  file://ROOT/mirror/z/zlib/extensions/zlib-1.3.1.tar.xz: no such file\n"
        "  file://ROOT/mirror/zlib-1.3.1.tar.xz: no such file\n"
        f"  file://ROOT/mirror/{sha256(ZLIB)}/zlib-1.3.1.tar.xz: no such file\n"
        f"  http://upstream.invalid/zlib-1.3.1.tar.xz: {NO_NAME}\n"
        "  ftp://old.invalid/x: only http(s):// URLs and folders are fetched from\n"
        "\n"
        "hint: download it on a machine that can, then\n"
        "  run `envmgr fetch cuda/12.1 --file /path/to/zlib-1.3.1.tar.xz`\n"
        "  or put it at ROOT/mirror/z/zlib/zlib-1.3.1.tar.xz\n"
        f"  or put it at ROOT/prefix/cache/sources/{sha256(ZLIB)}/zlib-1.3.1.tar.xz"
    )


def test_each_place_of_the_hint_is_one_that_works(scene: Scene) -> None:
    (scene.root / "mirror").mkdir()
    scene.with_sources(mirrors=["mirror"])
    places = [line.split()[-1] for line in scene.refused(cuda()).splitlines() if "put it at" in line]
    assert len(places) == 2
    for place in places:
        path = Path(place.replace("ROOT", str(scene.root)))
        path.parent.mkdir(parents=True)
        path.write_bytes(CUDA)
        scene.fetch(cuda())
        path.unlink()
        shutil.rmtree(scene.cache, ignore_errors=True)
        scene.refused(cuda())


def test_several_missing_sources_are_one_error_and_the_rest_is_fetched(scene: Scene, upstream: Server) -> None:
    other = SourceFile("blas.tar.gz", "ab" * 32, (f"{upstream.url}/blas.tar.gz",), "b/blas")
    with pytest.raises(EnvmgrError) as caught:
        scene.fetch(cuda(), zlib(upstream), other, other)
    text = caught.value.render().replace(str(scene.root), "ROOT").replace(upstream.url, "http://UPSTREAM")
    assert text == (
        "error[source-missing]: cuda/12.1: blas.tar.gz, cuda_12.1.1_linux.run are missing\n"
        "  blas.tar.gz:\n"
        f"    sha256 {'ab' * 32}\n"
        "    http://UPSTREAM/blas.tar.gz: 404 Not Found\n"
        "  cuda_12.1.1_linux.run:\n"
        f"    sha256 {sha256(CUDA)}\n"
        "    no URL gives it\n"
        "\n"
        "hint: download cuda_12.1.1_linux.run by hand (the vendor's installer), the rest on a machine that can, then\n"
        "  run `envmgr fetch cuda/12.1 --file /path/to/blas.tar.gz --file /path/to/cuda_12.1.1_linux.run`\n"
        "  or put it into a folder that sources.mirrors in site.yaml names, as b/blas/blas.tar.gz\n"
        f"  or put it at ROOT/prefix/cache/sources/{'ab' * 32}/blas.tar.gz\n"
        "  or put it into a folder that sources.mirrors in site.yaml names, as c/CUDA/cuda_12.1.1_linux.run\n"
        f"  or put it at ROOT/prefix/cache/sources/{sha256(CUDA)}/cuda_12.1.1_linux.run"
    )
    assert scene.cached(zlib())
    assert len(scene.files()) == 2


def test_two_sources_of_one_name_are_kept_apart(scene: Scene) -> None:
    files = []
    for content in (b"one", b"two"):
        (scene.root / "mirror" / sha256(content)).mkdir(parents=True)
        (scene.root / "mirror" / sha256(content) / "v1.0.tar.gz").write_bytes(content)
        files.append(SourceFile("v1.0.tar.gz", sha256(content), (), ""))
    scene.with_sources(mirrors=["mirror"])
    assert scene.fetch(*files, files[0]).fetched == 2
    assert [scene.cached(file).read_bytes() for file in files] == [b"one", b"two"]


def test_wrong_checksum_is_refused_with_both(scene: Scene, upstream: Server) -> None:
    upstream.faults["zlib*"] = Fault("corrupt")
    data = bytearray(ZLIB)
    data[len(data) // 2] ^= 0xFF
    assert scene.refused(zlib(upstream)).replace(upstream.url, "http://UPSTREAM") == (
        "error[source-differs]: cuda/12.1: zlib-1.3.1.tar.xz is not what the lock names\n"
        f"  sha256 {sha256(ZLIB)}\n"
        f"  http://UPSTREAM/zlib-1.3.1.tar.xz: sha256 is {sha256(bytes(data))}, the lock says {sha256(ZLIB)}\n"
        "\n"
        "hint: what lies there is damaged or was replaced: compare it with upstream's; of a good copy\n"
        "  run `envmgr fetch cuda/12.1 --file /path/to/zlib-1.3.1.tar.xz`\n"
        "  or put it into a folder that sources.mirrors in site.yaml names, as z/zlib/zlib-1.3.1.tar.xz\n"
        f"  or put it at ROOT/prefix/cache/sources/{sha256(ZLIB)}/zlib-1.3.1.tar.xz"
    )
    upstream.faults.clear()
    assert scene.fetch(zlib(upstream)).fetched == 1


def test_upstream_is_not_asked_where_the_site_says_so(scene: Scene, upstream: Server) -> None:
    scene.with_sources(upstream=False)
    text = scene.refused(zlib(upstream))
    assert f"  {upstream.url}/zlib-1.3.1.tar.xz: not asked, sources.upstream is false\n" in text
    assert upstream.requests == []


@pytest.mark.parametrize("damage", [lambda d: d[: len(d) // 2], lambda _: b"", lambda d: d[:-1] + b"\xff"])
def test_damaged_file_in_the_cache_is_never_used(
    scene: Scene, upstream: Server, damage: Callable[[bytes], bytes]
) -> None:
    scene.fetch(zlib(upstream))
    path = scene.cache / sha256(ZLIB) / "zlib-1.3.1.tar.xz"
    path.write_bytes(damage(ZLIB))
    assert outcome(scene.fetch(zlib(), dry_run=True)) == [("zlib-1.3.1.tar.xz", "missing", None)]
    assert path.read_bytes() == damage(ZLIB), "a dry run changes nothing"
    assert scene.fetch(zlib(upstream)).fetched == 1
    assert scene.cached(zlib()) == path


def test_damaged_file_in_the_cache_that_no_place_has_better_is_told_with_both_sha256(scene: Scene) -> None:
    path = scene.cache / sha256(ZLIB) / "zlib-1.3.1.tar.xz"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"damaged")
    (scene.root / "mirror").mkdir()
    scene.with_sources(mirrors=["mirror"])
    with pytest.raises(EnvmgrError) as caught:
        scene.fetch(zlib())
    assert caught.value.render().replace(str(scene.root), "ROOT") == (
        "error[source-differs]: cuda/12.1: zlib-1.3.1.tar.xz is not what the lock names\n"
        f"  sha256 {sha256(ZLIB)}\n"
        f"  ROOT/prefix/cache/sources/{sha256(ZLIB)}/zlib-1.3.1.tar.xz: "
        f"sha256 is {sha256(b'damaged')}, the lock says {sha256(ZLIB)}\n"
        "  file://ROOT/mirror/z/zlib/zlib-1.3.1.tar.xz: no such file\n"
        "  file://ROOT/mirror/z/zlib/extensions/zlib-1.3.1.tar.xz: no such file\n"
        "  file://ROOT/mirror/zlib-1.3.1.tar.xz: no such file\n"
        f"  file://ROOT/mirror/{sha256(ZLIB)}/zlib-1.3.1.tar.xz: no such file\n"
        "  no URL gives it\n"
        "\n"
        "hint: download zlib-1.3.1.tar.xz by hand (the vendor's installer), then\n"
        "  run `envmgr fetch cuda/12.1 --file /path/to/zlib-1.3.1.tar.xz`\n"
        "  or put it at ROOT/mirror/z/zlib/zlib-1.3.1.tar.xz\n"
        f"  or put it at ROOT/prefix/cache/sources/{sha256(ZLIB)}/zlib-1.3.1.tar.xz"
    )
    assert not path.exists()


def test_two_fetchers_at_once_download_once(scene: Scene, upstream: Server) -> None:
    upstream.faults["zlib*"] = Fault("slow", rate=400_000)
    with ThreadPoolExecutor(2) as pool:
        done = list(pool.map(lambda _: scene.fetch(zlib(upstream)), range(2)))
    assert [d.fetched for d in done] == [1, 1]
    assert len([r for r in upstream.requests if r.method == "GET"]) == 1
    assert len(scene.files()) == 2


@pytest.mark.parametrize("folder", [False, True])
def test_interrupted_fetch_leaves_nothing_half(scene: Scene, upstream: Server, folder: bool) -> None:
    big = zlib(upstream)
    if folder:
        file = scene.root / "mirror/big.run"
        file.parent.mkdir()
        file.touch()
        os.truncate(file, 600_000_000)
        big = SourceFile("big.run", sha256_file(file), (), "")
        scene.with_sources(mirrors=["mirror"])
    else:
        upstream.faults["zlib*"] = Fault("stall")
    part = scene.cache / big.sha256 / f".{big.name}.{host_mark()}.part"
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(scene.fetch, big)
        wait_for(lambda: part.exists() and part.stat().st_size, what="half a file")
        scene.runner.cancel.set()
        with pytest.raises(Interrupted):
            future.result()
    assert scene.files() == []


def test_part_of_a_killed_fetch_is_cleaned_up_and_another_hosts_stays_for_a_day(scene: Scene) -> None:
    """Where locks stay on each client, that one looks as if nobody wrote it."""
    folder = scene.cache / sha256(ZLIB)
    folder.mkdir(parents=True)
    ours, older, theirs, given_up = (
        folder / f".zlib-1.3.1.tar.xz{each}.part" for each in (f".{host_mark()}", "", ".01234567", ".89abcdef")
    )
    for part in (ours, older, theirs, given_up):
        part.write_bytes(b"half")
    os.utime(given_up, (1, 1))
    clean_leftovers(scene.prefix, SilentReporter())
    assert [*folder.iterdir()] == [theirs]


def test_full_disk_is_told_before_the_first_byte(scene: Scene, upstream: Server) -> None:
    scene.site = scene.site.model_copy(
        update={"policies": scene.site.policies.model_copy(update={"min_free": 1 << 60})}
    )
    with pytest.raises(EnvmgrError) as caught:
        scene.fetch(zlib(upstream))
    assert caught.value.reference == "disk-full"
    assert caught.value.message.endswith(f"of which policies.min_free keeps {size_text(1 << 60)}")
    assert [r for r in upstream.requests if r.method == "GET"] == []


class _GzipEncoding(http.server.BaseHTTPRequestHandler):
    """As Apache with `AddEncoding gzip .gz`: what is a file of its own is called an encoding."""

    def do_GET(self) -> None:
        data = gzip.compress(ZLIB, mtime=0)
        self.send_response(200)
        self.send_header("Content-Encoding", "gzip")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(data)

    def do_HEAD(self) -> None:
        self.do_GET()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        pass


def test_archive_that_a_server_calls_an_encoding_is_kept_packed(scene: Scene) -> None:
    data = gzip.compress(ZLIB, mtime=0)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _GzipEncoding) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        file = SourceFile("x.tar.gz", sha256(data), (f"http://127.0.0.1:{server.server_address[1]}/x.tar.gz",), "x/x")
        assert outcome(scene.fetch(file)) == [("x.tar.gz", "fetched", len(data))]
        server.shutdown()


@pytest.mark.parametrize(
    ("name", "digest", "folder"),
    [
        ("../x", "ab" * 32, "x"),
        ("", "ab" * 32, "x"),
        ("x", "ab", "x"),
        ("x", "ab" * 32, "/x"),
        ("x", "ab" * 32, "a/../.."),
    ],
)
def test_source_that_would_leave_the_cache_is_no_source(name: str, digest: str, folder: str) -> None:
    with pytest.raises(ValueError, match="is not"):
        SourceFile(name, digest, (), folder)


def test_given_file_that_is_not_there_or_none(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "nothing.run", tmp_path / "pipe", tmp_path / "pipe/x"):
        with pytest.raises(InputError) as caught:
            read_given(path)
        assert caught.value.render() == f"error[file-missing]: {path} is no file and no folder"


@pytest.mark.parametrize("below", ["", "sources", "cache/sources", "stick/cache/sources"])
def test_given_folder_is_a_cache_or_holds_one_which_is_not_read(tmp_path: Path, below: str) -> None:
    """A carried cache may have a hundred times what an entry needs; its files count as what their folders say."""
    folder = tmp_path / "stick" if below.startswith("stick") else tmp_path
    place = tmp_path / below / ("ab" * 32)
    place.mkdir(parents=True)
    (place / "file.tar.gz").write_bytes(b"something else")
    (place / ".file.tar.gz.01234567.part").write_bytes(b"half")
    (folder / "loose").write_bytes(ZLIB)
    other = folder / "other/deep"
    other.mkdir(parents=True)
    (other / "file").write_bytes(b"not looked at")
    assert read_given(folder) == {"ab" * 32: place / "file.tar.gz", sha256(ZLIB): folder / "loose"}


def test_damaged_file_of_a_carried_cache_is_never_used(scene: Scene, upstream: Server, tmp_path: Path) -> None:
    place = tmp_path / "cache/sources" / sha256(ZLIB)
    place.mkdir(parents=True)
    (place / "zlib-1.3.1.tar.xz").write_bytes(b"damaged")
    (file,) = scene.fetch(zlib(upstream), given=tmp_path).files
    assert (file.state, len(upstream.requests) > 0) == ("fetched", True)
    assert (scene.cache / sha256(ZLIB) / file.name).read_bytes() == ZLIB


# `envmgr fetch`, with packages


@pytest.fixture
def box(sandbox: Sandbox, channel: Channel) -> Iterator[tuple[Sandbox, Server]]:
    """Locked from the channel's folder; packages come from the server."""
    locked(sandbox, "hello/1.0", ["hello-prefix"], tests=[{"name": "runs", "run": "hello-prefix"}])
    with serve(channel.folder) as server:
        use(sandbox, server.url)
        yield sandbox, server


def archives(box: Sandbox) -> list[str]:
    return sorted(p.name for p in box.prefix.glob("cache/conda/*/*"))


def test_fetch_then_a_build_with_the_channel_gone(box: tuple[Sandbox, Server]) -> None:
    sandbox, server = box
    size = (server.folder / "noarch" / HELLO).stat().st_size
    done = sandbox.ok("fetch", "hello/1.0")
    log = done.stdout.splitlines()[-1]
    assert done.stdout == f"hello/1.0: 1 file, 0 there, 1 fetched ({size_text(size)})\n{log}\n"
    assert Path(log.removeprefix("log: ")).is_file()
    assert archives(sandbox) == [HELLO]
    assert not list(sandbox.prefix.glob("store/*"))
    use(sandbox)
    again = sandbox.ok("fetch", "hello/1.0", "--format", "json").data
    assert again.pop("log")
    assert again == {
        "schema": "envmgr.fetch/1",
        "entries": [{"entry": "hello/1.0", "files": 1, "present": 1, "fetched": 0, "bytes": 0, "missing": []}],
        "dry_run": False,
    }
    sandbox.ok("build", "hello/1.0")
    assert sandbox.current() == 1


def test_fetch_of_dependencies_too(box: tuple[Sandbox, Server]) -> None:
    sandbox, _ = box
    locked(sandbox, "top/1.0", ["shared"], depends=["hello/1.0"])
    data = sandbox.ok("fetch", "top/1.0", "--format", "json").data
    assert [e["entry"] for e in data["entries"]] == ["hello/1.0", "top/1.0"]
    use(sandbox)
    sandbox.ok("build", "top/1.0")


def test_dry_run_says_what_is_missing_and_changes_nothing(box: tuple[Sandbox, Server], channel: Channel) -> None:
    sandbox, server = box
    record = channel.records[f"noarch/{HELLO}"]
    before = snapshot(sandbox.root)
    done = sandbox.ok("fetch", "hello/1.0", "--dry-run")
    assert done.stdout == (
        f"hello/1.0: 1 file, 0 there, 1 file to fetch\n  {HELLO}  {size_text(record['size'])}  {record['sha256']}\n"
    )
    data = sandbox.ok("fetch", "hello/1.0", "--dry-run", "--format", "json").data
    assert data == {
        "schema": "envmgr.fetch/1",
        "entries": [
            {
                "entry": "hello/1.0",
                "files": 1,
                "present": 0,
                "fetched": 0,
                "bytes": 0,
                "missing": [
                    {
                        "name": HELLO,
                        "sha256": record["sha256"],
                        "state": "missing",
                        "size": record["size"],
                        "places": [f"{server.url}/noarch/{HELLO}", f"http://channel.invalid/standin/noarch/{HELLO}"],
                    }
                ],
            }
        ],
        "dry_run": True,
        "log": None,
    }
    assert snapshot(sandbox.root) == before
    assert server.requests == []


def test_file_at_hand_in_place_of_the_network(box: tuple[Sandbox, Server], channel: Channel) -> None:
    sandbox, server = box
    locked(sandbox, "other/1.0", ["shared"])
    server.faults["*"] = Fault("404")
    shutil.copy(channel.folder / "noarch" / HELLO, sandbox.root / "from-a-stick.bin")
    shutil.copytree(channel.folder / "noarch", sandbox.root / "stick")
    sandbox.ok("fetch", "hello/1.0", "other/1.0", "--file", "from-a-stick.bin", "--file", "stick")
    sandbox.ok("fetch", "hello/1.0", "--file", "from-a-stick.bin")  # not needed any more, and not wrong
    sandbox.ok("build", "hello/1.0", "other/1.0")


def test_file_that_no_entry_needs_is_refused(box: tuple[Sandbox, Server], channel: Channel) -> None:
    sandbox, server = box
    wanted = channel.records[f"noarch/{HELLO}"]["sha256"]
    (sandbox.root / "installer.run").write_bytes(CUDA)
    done = sandbox.run("fetch", "hello/1.0", "--file", "installer.run")
    assert done.code == 2
    assert error_of(done, sandbox) == (
        "error[source-unexpected]: ROOT/installer.run is not one that hello/1.0 needs\n"
        f"  found     installer.run  sha256 {sha256(CUDA)}\n"
        f"  expected  {HELLO}  sha256 {wanted}\n"
        "\n"
        "hint: files are known by their sha256: name the file that is expected"
    )
    (sandbox.root / "half").mkdir()
    (sandbox.root / "half" / HELLO).write_bytes(b"half of it")
    assert error_of(sandbox.run("fetch", "hello/1.0", "--file", "half", "--dry-run"), sandbox) == (
        "error[source-unexpected]: no file in ROOT/half is one that hello/1.0 needs\n"
        f"  found     {HELLO}  sha256 {sha256(b'half of it')}\n"
        f"  expected  {HELLO}  sha256 {wanted}\n"
        "\n"
        "hint: a file of the right name with another sha256 is damaged, or another release: get it again"
    )
    (sandbox.root / "half" / HELLO).rename(sandbox.root / "half" / "private.key")
    assert "  found     1 file of other names\n  expected" in error_of(
        sandbox.run("fetch", "hello/1.0", "--file", "half"), sandbox
    )
    assert server.requests == []
    assert not sandbox.prefix.exists()
    sandbox.ok("fetch", "hello/1.0")
    assert error_of(sandbox.run("fetch", "hello/1.0", "--file", "half"), sandbox) == (
        "error[source-unexpected]: nothing of ROOT/half is needed: no file of hello/1.0 is missing\n"
        "\n"
        "hint: leave --file out"
    )


def test_all_that_fails_is_one_error_and_the_rest_is_fetched(box: tuple[Sandbox, Server]) -> None:
    sandbox, server = box
    locked(sandbox, "six/1.0", ["shared"])
    locked(sandbox, "zen/1.0", ["hello-activate"])
    server.faults |= {"noarch/hello-prefix*": Fault("404"), "noarch/hello-activate*": Fault("corrupt", times=100)}
    entries = ("hello/1.0", "six/1.0", "zen/1.0")
    done = sandbox.run("fetch", *entries)
    assert done.code == 3
    text = error_of(done, sandbox)
    assert text.startswith(f"error[not-found]: cannot fetch http://MIRROR/noarch/{HELLO}\n"), text
    assert "\n  hello/1.0 was not fetched\n" in text
    assert "\n  zen/1.0: hello-activate-1.0-0.conda: what arrived is not what the lock names\n" in text, text
    assert all("hello" not in name for name in archives(sandbox)), archives(sandbox)
    assert archives(sandbox) != []
    server.faults.clear()
    assert sandbox.ok("fetch", *entries).code == 0


def test_interrupted_fetch_of_packages(box: tuple[Sandbox, Server]) -> None:
    sandbox, server = box
    server.faults["noarch/hello-prefix*"] = Fault("stall")
    process = sandbox.start("fetch", "hello/1.0")
    wait_for(server.stalled.is_set, what="half a download")
    process.send_signal(signal.SIGINT)
    done = finish(process)
    left = "files that arrived whole are kept, and the next run fetches the others"
    assert (done.code, f"error[interrupted]: stopped by a signal; {left}\n" in done.stderr) == (130, True), done.stderr
    assert parts(sandbox) == []
    server.stalled.clear()
    process = sandbox.start("fetch", "hello/1.0")
    wait_for(server.stalled.is_set, what="half a download")
    kill(process)
    no_processes(sandbox)
    server.faults.clear()
    sandbox.ok("fetch", "hello/1.0")
    assert parts(sandbox) == []
    assert archives(sandbox) == [HELLO]
    assert processes(sandbox) == []


def test_fetch_names_something_and_holds_the_licence(box: tuple[Sandbox, Server]) -> None:
    sandbox, _ = box
    assert error_of(sandbox.run("fetch"), sandbox).startswith("error[nothing-named]: ")
    software = sandbox.root / "recipes/hello/software.yaml"
    software.write_text(software.read_text().replace("}", ', "acknowledge": "vendor-eula"}'))
    assert "error[licence-not-acknowledged]: " in error_of(sandbox.run("fetch", "hello/1.0"), sandbox)
    assert not sandbox.prefix.exists()
