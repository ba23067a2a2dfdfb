"""The stand-in channel: real installs with rattler, the same bytes twice, and a server that fails as told."""

from __future__ import annotations

import hashlib
import http.client
import os
import re
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.places import CACHE
from tests.helpers.standin.channel import Channel, build_channel, cached_channel, ensure_channel
from tests.helpers.standin.package import PLACEHOLDER, StandinError
from tests.helpers.standin.rattle import rattle
from tests.helpers.standin.server import Fault, serve
from tests.helpers.standin.wheels import Pin, fetch_wheels
from tests.helpers.waiting import DEADLINE
from tests.helpers.wheelhouse import Wheelhouse


def run(*command: str | Path, **more: Any) -> str:
    """The stdout of a command that runs with an empty environment."""
    done = subprocess.run(
        [*map(str, command)], capture_output=True, text=True, check=False, timeout=DEADLINE, **({"env": {}} | more)
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    return done.stdout


@pytest.fixture(scope="session")
def channel() -> Channel:
    return cached_channel(CACHE)


@pytest.fixture(scope="session")
def small(tmp_path_factory: pytest.TempPathFactory) -> Channel:
    """A few kilobytes of channel, for the server."""
    return build_channel(tmp_path_factory.mktemp("small"), wheels=CACHE / "wheels", packages={"hello-prefix"})


@pytest.fixture(scope="session")
def prefix(channel: Channel, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """python, numpy and others, installed in one place and moved to another."""
    folder = tmp_path_factory.mktemp("install")
    stage, final = folder / "stage", folder / "final"
    specs = ["python", "numpy", "pyyaml", "tabulate", "hello-prefix"]
    answer = rattle(channel.url, specs, folder / "cache", stage=stage, final=final)
    assert [name.rsplit("-", 2)[0] for name in answer.get("packages", [answer])] == sorted(specs)
    stage.rename(final)
    return final


def optional_modules() -> str:
    """Those of the modules with a library behind them that the running interpreter has."""
    names = ("ssl", "sqlite3", "ctypes", "lzma", "bz2", "zlib", "hashlib", "readline", "curses", "uuid", "decimal")
    program = "import importlib\nfor n in %r:\n try: importlib.import_module(n); print(n)\n except ImportError: pass"
    found = run(sys.executable, "-c", program % (names,)).split()
    assert {"ctypes", "zlib"} <= set(found)
    return ", ".join(found)


def test_install_runs_numpy_from_final_path_with_empty_environment(prefix: Path, channel: Channel) -> None:
    program = (
        f"import {optional_modules()}, numpy, yaml, sys, sysconfig\n"
        "print(sys.prefix, numpy.__version__, numpy.linalg.inv(numpy.eye(2) * 4)[0, 0])\n"
        "print(sysconfig.get_path('purelib'), numpy.__file__)\n"
        "print(open('/proc/self/maps').read())"
    )
    first, second, *maps = run(prefix / "bin/python", "-c", program).splitlines()
    site = f"{prefix}/lib/python{sys.version_info[0]}.{sys.version_info[1]}/site-packages"
    assert first == f"{prefix} {channel.versions('numpy')[-1]} 0.25"
    assert second == f"{site} {site}/numpy/__init__.py"
    mapped = {line.split(maxsplit=5)[5] for line in maps if ".so" in line}
    host = r"lib(c|m|dl|rt|pthread|util|resolv|gcc_s|stdc\+\+)\.so|ld-linux"
    foreign = [path for path in mapped if not path.startswith(f"{prefix}/")]
    outside = [path for path in foreign if not re.match(host, Path(path).name)]
    assert mapped - set(foreign)
    assert outside == []


def test_install_writes_prefix_everywhere(prefix: Path) -> None:
    share = prefix / "share/hello-prefix"
    assert run(prefix / "bin/hello-prefix") == f"hello from {prefix}\n"
    assert (share / "config.txt").read_text() == f"prefix = {prefix}\nlib = {prefix}/lib\n"
    assert (share / "current").readlink() == Path("config.txt")
    blob = (share / "blob.bin").read_bytes()
    assert blob.startswith(b"\x7fBLOB\0" + os.fsencode(prefix) + b"/share\0")
    assert len(blob) == len(b"\x7fBLOB\0" + PLACEHOLDER.encode() + b"/share\0end\0")
    assert PLACEHOLDER not in run("/bin/sh", "-c", f"/bin/grep -rl _placehold_placehold {prefix}/lib || :")
    program = "import sysconfig; print(*[sysconfig.get_config_var(n) for n in ('prefix', 'LIBDEST', 'INCLUDEPY')])"
    values = run(prefix / "bin/python", "-c", program).split()
    assert all(value.startswith(str(prefix)) for value in values), values


def test_install_makes_commands(prefix: Path) -> None:
    assert "Usage: tabulate" in run(prefix / "bin/tabulate", "--help")
    assert "Usage" in run(prefix / "bin/f2py", "-h")
    assert (prefix / "bin/python3").readlink() == Path(f"python3.{sys.version_info[1]}")


def test_activation_scripts_undo_themselves(channel: Channel, tmp_path: Path) -> None:
    final = tmp_path / "final"
    rattle(channel.url, ["hello-activate"], tmp_path / "cache", stage=final, final=final)
    show = 'echo "${HELLO_HOME-} ${HELLO_PATH-} ${HELLO_CATALOG_FILES-} ${HELLO_CERT_FILE-}"\n'
    scripts = [f". {final}/etc/conda/{kind}.d/hello-activate.sh\n" for kind in ("activate", "deactivate")]
    program = show + scripts[0] + show + scripts[1] + show
    for before in ({}, {"HELLO_PATH": "/a", "HELLO_CATALOG_FILES": "/b /c", "HELLO_CERT_FILE": "/d"}):
        lines = run("/bin/sh", "-c", program, env={"CONDA_PREFIX": str(final)} | before).splitlines()
        share, own = f"{final}/share/hello-activate", f"file://{final}/etc/hello/catalog"
        path, catalogs = (f"{share}/bin:/a", f"/b /c {own}") if before else (f"{share}/bin", own)
        assert lines[1] == f"{share} {path} {catalogs} {before.get('HELLO_CERT_FILE', f'{share}/cert.pem')}"
        assert lines[2] == lines[0] == (" /a /b /c /d" if before else "   ")


def test_venv_sees_packages_only_with_system_site_packages(prefix: Path, tmp_path: Path) -> None:
    python = prefix / "bin/python"
    see = "import importlib.util as u, sys; print(sys.prefix, u.find_spec('numpy') is not None)"
    run(python, "-m", "venv", "--without-pip", "--system-site-packages", tmp_path / "with")
    run(python, "-m", "venv", "--without-pip", tmp_path / "bare")
    assert run(tmp_path / "with/bin/python", "-c", see) == f"{tmp_path}/with True\n"
    assert run(tmp_path / "bare/bin/python", "-c", see) == f"{tmp_path}/bare False\n"


def test_solve_fails_when_specs_conflict(channel: Channel, tmp_path: Path) -> None:
    answer = rattle(channel.url, ["left", "right"], tmp_path)
    assert answer["error"].startswith("SolverError: ")
    assert "shared" in answer["error"]
    assert rattle(channel.url, ["left"], tmp_path) == {"packages": ["left-1.0-0", "shared-1.0-0"]}


def test_solve_needs_declared_cuda(channel: Channel, tmp_path: Path) -> None:
    assert "__cuda" in rattle(channel.url, ["needs-cuda"], tmp_path)["error"]
    answer = rattle(channel.url, ["needs-cuda", "cuda-version"], tmp_path, virtual={"__cuda": "11.8"})
    assert answer == {"packages": ["cuda-version-11.8-0", "needs-cuda-1.0-0"]}


def test_records_carry_hashes_of_files(channel: Channel) -> None:
    for name, record in channel.records.items():
        data = (channel.folder / name).read_bytes()
        assert record["size"] == len(data)
        assert record["sha256"] == hashlib.sha256(data).hexdigest()
        assert record["md5"] == hashlib.md5(data).hexdigest()
        assert record["timestamp"] > 0


def test_build_gives_same_bytes_twice(tmp_path: Path) -> None:
    some = {"hello-prefix", "six", "left", "python"}
    digests = []
    for folder in (tmp_path / "one", tmp_path / "two"):
        build_channel(folder, wheels=CACHE / "wheels", packages=some)
        files = sorted(path for path in folder.rglob("*") if path.is_file())
        digests.append([(str(path.relative_to(folder)), hashlib.sha256(path.read_bytes()).digest()) for path in files])
    assert len(digests[0]) == len(some) + 2
    assert digests[0] == digests[1]


def test_ensure_builds_once_and_again_when_selection_changes(tmp_path: Path) -> None:
    folder, wheels = tmp_path / "channel", CACHE / "wheels"
    package = folder / "noarch/left-1.0-0.conda"
    ensure_channel(folder, wheels=wheels, packages={"left"})
    package.write_bytes(b"still here")
    ensure_channel(folder, wheels=wheels, packages={"left"})
    assert package.read_bytes() == b"still here"
    again = ensure_channel(folder, wheels=wheels, packages={"left", "right"})
    assert package.stat().st_size == again.records["noarch/left-1.0-0.conda"]["size"]


def test_build_refuses_unknown_package(tmp_path: Path) -> None:
    with pytest.raises(StandinError, match=r"^no such stand-in package: nunpy$"):
        build_channel(tmp_path / "channel", wheels=CACHE / "wheels", packages={"nunpy", "six"})
    assert not (tmp_path / "channel").exists()


def test_command_prints_folder_to_stdout_and_progress_to_stderr(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.helpers.standin", str(tmp_path / "c"), "--wheels", str(CACHE / "wheels")]
    command += ["--package", "left"]
    results = [
        subprocess.run(command, capture_output=True, text=True, check=True, cwd=CACHE.parent.parent) for _ in range(2)
    ]
    size = (tmp_path / "c/noarch/left-1.0-0.conda").stat().st_size
    assert [done.stdout for done in results] == [f"{tmp_path}/c\n"] * 2
    assert results[0].stderr == f"standin: noarch/left-1.0-0.conda  {size} bytes\n"
    assert results[1].stderr == f"standin: {tmp_path}/c is up to date\n"


NAME = "noarch/hello-prefix-1.0-0.conda"


def get(url: str, timeout: float = 10) -> bytes:
    with urllib.request.urlopen(f"{url}/{NAME}", timeout=timeout) as answer:
        data: bytes = answer.read()
        return data


def test_server_serves_and_records(small: Channel) -> None:
    data = (small.folder / NAME).read_bytes()
    with serve(small.folder) as server:
        assert get(server.url) == data
        connection = http.client.HTTPConnection("127.0.0.1", server.server_address[1])
        for path, status in ((f"/{NAME}", 200), ("/noarch/nothing.conda", 404), ("/../package.py", 404)):
            connection.request("HEAD", path)
            answer = connection.getresponse()
            assert (answer.status, answer.read()) == (status, b"")
        connection.close()
        assert [(row.method, row.status, row.sent) for row in server.requests] == [
            ("GET", 200, len(data)),
            ("HEAD", 200, 0),
            ("HEAD", 404, 0),
            ("HEAD", 404, 0),
        ]


def test_server_cut_closes_in_the_middle(small: Channel) -> None:
    with serve(small.folder, {"*/hello-*": Fault("cut", at=100, times=1)}) as server:
        with pytest.raises(http.client.IncompleteRead) as error:
            get(server.url)
        assert len(error.value.partial) == 100
        assert get(server.url) == (small.folder / NAME).read_bytes()
        assert [row.fault for row in server.requests] == ["cut", None]


def test_server_corrupt_flips_one_byte(small: Channel) -> None:
    data = (small.folder / NAME).read_bytes()
    with serve(small.folder, {NAME: Fault("corrupt")}) as server:
        wrong = get(server.url)
    assert [at for at, (a, b) in enumerate(zip(data, wrong, strict=True)) if a != b] == [len(data) // 2]


def test_server_404_hides_file(small: Channel) -> None:
    with serve(small.folder, {"*.conda": Fault("404")}) as server:
        with pytest.raises(urllib.error.HTTPError, match="404"):
            get(server.url)
        server.faults.clear()
        assert get(server.url)


def test_server_503_ends_after_given_times(small: Channel) -> None:
    with serve(small.folder, {NAME: Fault("503-then-ok", times=3)}) as server:
        for _ in range(3):
            with pytest.raises(urllib.error.HTTPError, match="503"):
                get(server.url)
        assert get(server.url)
        assert [row.status for row in server.requests] == [503, 503, 503, 200]


def in_thread(work: Callable[[], bytes]) -> tuple[threading.Thread, list[bytes | Exception]]:
    """Run `work` beside the test; the list gets its result or its exception."""
    results: list[bytes | Exception] = []

    def collect() -> None:
        try:
            results.append(work())
        except (OSError, http.client.HTTPException) as error:
            results.append(error)

    thread = threading.Thread(target=collect)
    thread.start()
    return thread, results


def test_server_stall_hangs_until_released(small: Channel) -> None:
    with serve(small.folder, {NAME: Fault("stall", at=10)}) as server:
        thread, results = in_thread(lambda: get(server.url))
        assert server.stalled.wait(DEADLINE)
        thread.join(0.2)
        assert (thread.is_alive(), results, server.requests[0].sent) == (True, [], 10)
        server.release()
        thread.join(DEADLINE)
    assert results == [(small.folder / NAME).read_bytes()]


def test_server_stall_is_cut_when_server_closes(small: Channel) -> None:
    with serve(small.folder, {NAME: Fault("stall", at=10)}) as server:
        thread, results = in_thread(lambda: get(server.url))
        assert server.stalled.wait(DEADLINE)
    thread.join(DEADLINE)
    assert [type(result) for result in results] == [http.client.IncompleteRead]


def test_server_slow_keeps_to_rate(small: Channel) -> None:
    size = (small.folder / NAME).stat().st_size
    with serve(small.folder, {NAME: Fault("slow", rate=size * 2)}) as server:
        begun = time.monotonic()
        assert len(get(server.url)) == size
        # Only a lower bound: a busy machine is slower, never faster.
        assert time.monotonic() - begun >= 0.4


@pytest.mark.parametrize("kind", ["cut", "corrupt"])
def test_install_from_server_refuses_wrong_bytes(channel: Channel, tmp_path: Path, kind: Any) -> None:
    where: dict[str, Any] = {"stage": tmp_path / "stage", "final": tmp_path / "final"}
    with serve(channel.folder, {"*/left-*": Fault(kind)}) as server:
        assert rattle(server.url, ["left"], tmp_path / "a", **where)["error"].startswith("InstallerError: ")
        server.faults.clear()
        answer = rattle(server.url, ["left"], tmp_path / "b", **where)
    assert answer == {"packages": ["left-1.0-0", "shared-1.0-0"]}
    assert (tmp_path / "stage/share/left/version.txt").read_text() == "left 1.0\n"


def test_wheel_of_other_bytes_than_the_lock_names_is_not_fetched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    house, wheels = Wheelhouse(tmp_path / "index"), tmp_path / "wheels"
    house.wheel("six", "1.17.0")
    for name, value in (("CONFIG_FILE", os.devnull), ("INDEX_URL", house.simple.as_uri())):
        monkeypatch.setenv(f"PIP_{name}", value)
    six = Pin("six", "1.17.0")
    with pytest.raises(StandinError):
        fetch_wheels([six], wheels)
    assert list(wheels.glob("*.whl")) == []
    (real,) = fetch_wheels([six], CACHE / "wheels")
    house.add(real)
    assert [path.name for path in fetch_wheels([six], wheels)] == [real.name]
    with pytest.raises(StandinError, match=r"has no six 1\.16\.0"):
        fetch_wheels([Pin("six", "1.16.0")], wheels)
