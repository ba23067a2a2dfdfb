"""Wheels are locked for the site's target, from the site's indexes, and every trap of a resolution is refused."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Literal

import pytest

from envmgr.system.run import Runner
from envmgr.wheels.index import IndexPlace, look
from envmgr.wheels.lockfile import LockedRow, read_wheels
from tests.helpers.sandbox import PYTHON, Sandbox
from tests.helpers.standin.records import write_channel
from tests.helpers.standin.server import Fault, serve
from tests.helpers.wheel_scene import WheelBox, make_wheel_box
from tests.helpers.wheelhouse import Wheelhouse


@pytest.fixture
def scene(sandbox: Sandbox) -> WheelBox:
    return make_wheel_box(sandbox)


def test_lock_is_one_wheel_a_package_for_the_platform_and_never_for_this_host(scene: WheelBox) -> None:
    for tag in ("manylinux_2_34_x86_64", "manylinux_2_17_x86_64", "win_amd64"):
        scene.house.wheel("chosen", tag=f"cp{sys.version_info[0]}{sys.version_info[1]}-abi3-{tag}")
    scene.house.wheel("plain", tag="py3-none-manylinux_2_35_x86_64")
    scene.house.wheel("plain")
    scene.house.wheel("plain", files={"more.py": ""}, build="1")
    scene.entry("some/1.0", "chosen", "plain")
    scene.lock("some/1.0")
    files = scene.files("some/1.0/wheels.lock")
    minor = f"cp{sys.version_info[0]}{sys.version_info[1]}"
    assert files == {
        "chosen": f"chosen-1.0-{minor}-abi3-manylinux_2_17_x86_64.whl",
        "plain": "plain-1.0-1-py3-none-any.whl",  # the higher build tag
    }
    text = (scene.box.root / "recipes/some/1.0/wheels.lock").read_text()
    assert "://" not in text
    assert text.count(" --hash=sha256:") == 2


def test_pip_and_uv_install_by_the_lock(scene: WheelBox) -> None:
    scene.house.wheel("dep")
    scene.house.wheel("top", requires=["dep"])
    scene.entry("some/1.0", "top")
    scene.lock("some/1.0")
    lock = scene.box.root / "recipes/some/1.0/wheels.lock"
    words = ["--require-hashes", "--no-index", "--find-links", str(scene.house.files), "-r", str(lock), "--target"]
    for number, tool in enumerate((["-m", "pip", "install", "--quiet"], ["-m", "uv", "pip", "install", "--quiet"])):
        subprocess.run([sys.executable, *tool, *words, str(scene.box.root / f"made{number}")], check=True, timeout=300)
        assert (scene.box.root / f"made{number}/dep.py").is_file()


def test_header_says_what_the_lock_is_for_and_how_large_it_is(scene: WheelBox) -> None:
    size = sum(scene.house.wheel(name).stat().st_size for name in ("one", "two"))
    folder = scene.entry("some/1.0", "one", "two", exclude_newer="2025-01-01")

    def header() -> list[str]:
        lines = (folder / "wheels.lock").read_text().splitlines()
        return [line for line in lines if line.startswith(("# platform", "# indexes", "# exclude", "# files"))]

    said = ["# platform: x86_64-manylinux_2_28", "# indexes: house", "# exclude-newer: 2025-01-01"]
    with scene.served():
        scene.lock("some/1.0")
        assert header() == [*said, f"# files: 2, {size} bytes"]
        scene.house.rich = False
        scene.house.write()
        scene.entry("some/1.0", "one", "two")
        scene.lock("some/1.0")
        assert header()[-1] == "# files: 2"  # this index does not tell their sizes
    scene.index(house=scene.house.files.as_uri())
    scene.lock("some/1.0")
    assert header()[-1] == f"# files: 2, {size} bytes"


def test_requirements_may_be_a_file_beside_the_recipe_and_the_lock_is_stale_when_it_changes(scene: WheelBox) -> None:
    scene.house.wheel("one")
    scene.house.wheel("two")
    folder = scene.entry("some/1.0", requirements="requirements.txt")
    missing = scene.refused("lock", "some/1.0")
    assert missing.stderr.startswith(f"error[requirements-missing]: {folder}/requirements.txt does not exist")
    (folder / "requirements.txt").write_text("# what we want\none  # the first\n")
    assert scene.lock("some/1.0") == {"one": "1.0"}
    (folder / "requirements.txt").write_text("one\ntwo==1.0\n")
    assert "does not match recipe.yaml" in scene.box.run("lock", "--check", "some/1.0").stdout
    assert scene.lock("some/1.0") == {"one": "1.0", "two": "1.0"}


def test_constraints_limit_what_others_ask_for(scene: WheelBox) -> None:
    scene.house.wheel("dep", "1.0")
    scene.house.wheel("dep", "2.0")
    scene.house.wheel("top", requires=["dep"])
    scene.entry("some/1.0", "top", constraints=["dep<2", "absent==3"])
    assert scene.lock("some/1.0") == {"dep": "1.0", "top": "1.0"}
    scene.entry("some/1.0", "top")
    assert scene.lock("some/1.0")["dep"] == "2.0"  # uv would have kept what is in the lock


def test_date_makes_a_lock_again_the_same_and_needs_upload_times(scene: WheelBox) -> None:
    scene.house.wheel("one", "1.0")
    scene.house.wheel("one", "2.0", uploaded="2025-06-01T00:00:00Z")
    scene.entry("some/1.0", "one", exclude_newer="2025-01-01")
    with scene.served():
        assert scene.lock("some/1.0") == {"one": "1.0"}
        scene.house.rich = False
        scene.house.write()
        poor = scene.refused("lock", "some/1.0")
    assert poor.stderr.startswith("error[unsolvable]: the requirements have no solution in wheels")
    assert "hint: files without an upload time are never old enough" in poor.stderr


def test_last_moment_of_the_day_is_not_too_new(scene: WheelBox) -> None:
    scene.house.wheel("alpha", uploaded="2024-06-01T23:59:59.000000Z")
    with scene.served():
        scene.entry("some/1.0", "alpha", exclude_newer="2024-06-01")
        assert scene.lock("some/1.0") == {"alpha": "1.0"}


def test_two_cudas_in_one_lock_are_refused(scene: WheelBox) -> None:
    scene.house.wheel("nvidia-cublas-cu12", "12.1.3")
    scene.house.wheel("nvidia-cuda-runtime", "13.0.1")
    scene.house.wheel("torch", "2.1", requires=["nvidia-cublas-cu12"])
    scene.house.wheel("tensor", "2.1", requires=["nvidia-cuda-runtime"])
    scene.entry("some/1.0", "torch", "tensor")
    told = scene.refused("lock", "some/1.0").stderr
    assert "  cuda-majors: CUDA 12: nvidia-cublas-cu12 12.1.3; CUDA 13: nvidia-cuda-runtime 13.0.1\n" in told
    assert "CUDA 12: nvidia-cublas-cu12 12.1.3" in told


def test_cuda_of_the_base_and_of_the_wheels_are_one(scene: WheelBox) -> None:
    channel = write_channel(
        scene.box.root / "cuda", [{"is": f"python {PYTHON}.9 h1_0"}, {"is": "cudatoolkit 11.8.0 h1_0"}]
    )
    scene.box.settings["channels"] = {"cuda": {"url": "http://channel.invalid/cuda", "mirrors": [str(channel)]}}
    scene.index(house=scene.house.simple.as_uri())
    wanted = {"channels": ["cuda"], "specs": ["python", "cudatoolkit"], "virtual_packages": {"__cuda": "11.8"}}
    scene.box.recipe("base/1.0", [], input=wanted, requires={"nvidia_driver": "450.80.02"})
    scene.box.ok("lock", "base/1.0")
    scene.house.wheel("nvidia-cuda-runtime-cu12", "12.1.105")
    scene.house.wheel("plain")
    driver = {"nvidia_driver": "525.60.13"}
    given = {"python": "base/1.0", "requirements": ["nvidia-cuda-runtime-cu12"], "indexes": ["house"]}
    scene.box.recipe("some/1.0", [], backend="wheels", input=given, requires=driver)
    told = "cuda-majors: CUDA 11: cudatoolkit 11.8.0 (of base/1.0); CUDA 12: nvidia-cuda-runtime-cu12 12.1.105"
    assert told in scene.refused("lock", "some/1.0").stderr
    scene.box.recipe("some/1.0", [], backend="wheels", input={**given, "requirements": ["plain"]})
    scene.lock("some/1.0")  # without CUDA of its own
    base = scene.box.root / "recipes/base/1.0/conda-lock.yml"
    base.write_text(base.read_text().replace("optional: false", "optional: true", 1))
    for verb in (
        ("lock", "some/1.0"),
        ("lock", "--check", "some/1.0"),
        ("check", "some/1.0"),
        ("build", "some/1.0"),
        ("list", "some/1.0"),
    ):
        done = scene.box.run(*verb)
        assert "was changed after it was written" in done.stdout + done.stderr, verb
        assert verb[0] == "list" or done.code in (1, 2)


def test_driver_floor_and_glibc_follow_from_the_wheels(scene: WheelBox) -> None:
    scene.house.wheel("nvidia-cuda-runtime-cu12", "12.1.105")
    scene.house.wheel("low", tag="py3-none-manylinux_2_17_x86_64.manylinux_2_28_x86_64")
    folder = scene.entry("some/1.0", "nvidia-cuda-runtime-cu12", "low")
    told = "the lock has CUDA 12.1, which needs a driver >= 525.60.13"
    assert told in scene.refused("lock", "some/1.0").stderr
    assert not (folder / "wheels.lock").exists()
    given = {"python": "system", "requirements": ["nvidia-cuda-runtime-cu12", "low"], "indexes": ["house"]}
    scene.box.recipe("some/1.0", [], backend="wheels", input=given, requires={"nvidia_driver": "525.60.13"})
    scene.lock("some/1.0")
    scene.box.recipe("some/1.0", [], backend="wheels", input=given)
    checked = scene.box.run("lock", "--check", "some/1.0")
    assert checked.code == 1
    assert told in checked.stdout
    for glibc, code in (("2.28", 0), ("2.17", 1)):
        requires = {"nvidia_driver": "525.60.13", "glibc": glibc}
        scene.box.recipe("some/1.0", [], backend="wheels", input=given, requires=requires)
        assert scene.box.run("lock", "--check", "some/1.0").code == code


def test_file_that_the_index_replaced_is_refused(scene: WheelBox) -> None:
    wheel = scene.house.wheel("one")
    folder = scene.entry("some/1.0", "one")
    with scene.served():
        scene.lock("some/1.0")
        assert (
            f"one==1.0 --hash=sha256:{hashlib.sha256(wheel.read_bytes()).hexdigest()}\n"
            in (folder / "wheels.lock").read_text()
        )
        scene.house.wheel("one", files={"more.py": ""})
        told = scene.refused("build", "some/1.0").stderr
    assert "error[not-found]: one 1.0 is not at " in told


@pytest.mark.parametrize("row", ["git+https://example.org/x.git", "x @ https://example.org/x.whl", "./x", "-e ."])
def test_what_no_index_answers_is_refused_and_git_is_not_started(scene: WheelBox, row: str) -> None:
    scene.entry("some/1.0", row)
    told = scene.refused("lock", "some/1.0").stderr
    assert told.startswith("error[recipe-invalid]: the wheels input of some/1.0 has faults\n")
    folder = scene.entry("other/1.0", requirements="requirements.txt")
    (folder / "requirements.txt").write_text(f"# one\n{row}\n")
    told = scene.refused("lock", "other/1.0").stderr
    assert told.startswith(f"error[requirement-invalid]: {folder}/requirements.txt:2: `")


def test_wheel_that_no_index_has_comes_from_its_url(scene: WheelBox, tmp_path: Path) -> None:
    """With what it needs from the index; its sum is held at `fetch`."""
    elsewhere = Wheelhouse(tmp_path / "elsewhere")
    wheel = elsewhere.wheel("flash-attn", "2.8+own1", requires=["dep"])
    scene.house.wheel("dep")
    sha256 = hashlib.sha256(wheel.read_bytes()).hexdigest()
    with serve(elsewhere.folder) as server:
        url = f"{server.url}/files/{wheel.name}"
        folder = scene.entry("some/1.0", f"flash-attn @ {url} --hash=sha256:{sha256}")
        assert scene.lock("some/1.0") == {"dep": "1.0", "flash-attn": "2.8+own1"}
        text = (folder / "wheels.lock").read_text()
        assert text.endswith(f"\nflash-attn @ {url} --hash=sha256:{sha256}\n")
        scene.box.ok("lock", "--check", "some/1.0")
        scene.box.ok("build", "some/1.0")
        assert scene.box.shell("module load some/1.0; python -c 'import flash_attn, dep'").returncode == 0

        (folder / "wheels.lock").write_text(text.replace("/files/", "/other/"))
        assert scene.refused("build", "some/1.0").stderr.startswith(
            f"error[lock-foreign]: {folder}/wheels.lock: flash-attn comes from no channel or index that is allowed\n"
            f"  {url.replace('/files/', '/other/')}\n  allowed: {url}\n"
        )
        scene.entry("some/1.0", f"flash-attn @ {url} --hash=sha256:{'f' * 64}")
        scene.lock("some/1.0")
        said = scene.refused("fetch", "some/1.0").stderr
    assert f"error[wrong-sha256]: {wheel.name}: what arrived is not what the lock names\n" in said
    assert f"  {url}: sha256 is {sha256}, the lock says {'f' * 64}\n" in said


def test_first_index_that_has_a_name_gives_it_and_settings_of_uv_and_pip_do_not_matter(
    scene: WheelBox, tmp_path: Path
) -> None:
    from tests.helpers.wheelhouse import Wheelhouse

    own = Wheelhouse(tmp_path / "own")
    own.wheel("one", "1.0")
    scene.house.wheel("one", "9.0")
    scene.house.wheel("two", "1.0")
    scene.index(own=own.simple.as_uri(), house=scene.house.simple.as_uri())
    scene.entry("some/1.0", "one", "two", indexes=["own", "house"])
    (scene.box.root / "uv.toml").write_text('index-strategy = "unsafe-best-match"\n')
    wrong = {
        "UV_INDEX_STRATEGY": "unsafe-best-match",
        "UV_DEFAULT_INDEX": "http://127.0.0.1:9",
        "PIP_INDEX_URL": "http://127.0.0.1:9",
    }
    scene.box.ok("lock", "some/1.0", **wrong)
    text = (scene.box.root / "recipes/some/1.0/wheels.lock").read_text()
    assert read_wheels(text, "it")[0].versions == {"one": "1.0", "two": "1.0"}
    scene.box.ok("fetch", "some/1.0")
    assert sorted(path.name for path in scene.box.prefix.glob("cache/wheels/*/*")) == [
        "one-1.0-py3-none-any.whl",
        "two-1.0-py3-none-any.whl",
    ]


def test_another_place_of_an_index_once_and_a_mirror_that_does_not_answer(scene: WheelBox) -> None:
    scene.house.wheel("one")
    folder = scene.entry("some/1.0", "one")
    scene.index(house="http://127.0.0.1:9/simple")
    told = scene.refused("lock", "some/1.0")
    assert told.stderr.startswith("error[no-network]: an index of house does not answer\n")
    assert scene.refused("lock", "some/1.0", "--channel", "hause=/tmp").stderr.startswith("error[unknown-channel]: ")
    scene.box.ok("lock", "some/1.0", "--index", f"house={scene.house.files}")
    text = (folder / "wheels.lock").read_text()
    scene.index(house={"url": scene.house.simple.as_uri(), "mirrors": ["http://127.0.0.1:9/simple"]})
    done = scene.box.ok("lock", "some/1.0")
    assert (folder / "wheels.lock").read_text() == text
    assert "does not answer: asking the next place of the index" in done.stderr


def test_index_that_is_unavailable_twice_is_asked_again(scene: WheelBox) -> None:
    scene.house.wheel("one")
    scene.entry("some/1.0", "one")
    with scene.served() as server:
        server.faults["simple/one/"] = Fault("503-then-ok")
        assert scene.lock("some/1.0") == {"one": "1.0"}


@pytest.mark.parametrize("kind", ["cut", "stall", "404"])
def test_page_of_an_index_that_does_not_come_whole_is_told_and_nothing_is_written(
    scene: WheelBox, kind: Literal["cut", "stall", "404"]
) -> None:
    scene.house.wheel("one")
    folder = scene.entry("some/1.0", "one")
    with scene.served() as server:
        server.faults["simple/one/"] = Fault(kind, at=20)
        done = scene.box.run("lock", "some/1.0", UV_HTTP_TIMEOUT="2", UV_HTTP_RETRIES="0")
    assert done.code != 0
    told = "unsolvable" if kind == "404" else "no-network"
    assert done.stderr.startswith(f"error[{told}]: "), done.stderr
    assert "entry some/1.0" in done.stderr
    assert not (folder / "wheels.lock").exists()


def test_unsolvable_says_uvs_conclusion(scene: WheelBox) -> None:
    scene.house.wheel("one", "1.0")
    scene.entry("some/1.0", "one>=2")
    told = scene.refused("lock", "some/1.0").stderr
    assert told.startswith("error[unsolvable]: the requirements have no solution in wheels\n  entry some/1.0\n")
    assert "asked: one>=2" in told
    assert "requirements are unsatisfiable" in told


def test_lock_that_was_edited_is_refused(scene: WheelBox) -> None:
    scene.house.wheel("one")
    folder = scene.entry("some/1.0", "one")
    scene.lock("some/1.0")
    lock = folder / "wheels.lock"
    text = lock.read_text()
    for changed, reference in (
        (text.replace("one==1.0", "one>=1.0"), "lock-invalid"),
        (text.partition(" --hash")[0] + "\n", "lock-unhashed"),
        (text.rstrip() + " --hash=sha256:" + "0" * 64 + "\n", "lock-unhashed"),
    ):
        lock.write_text(changed)
        assert scene.refused("build", "some/1.0").stderr.startswith(f"error[{reference}]: ")


@pytest.mark.parametrize("rich", [True, False])
@pytest.mark.parametrize("file", ["dep-1.0-py3-none-any.whl", "sourced-1.0.tar.gz", "maker-1.0-py3-none-any.whl"])
def test_index_without_hashes_is_refused(scene: WheelBox, rich: bool, file: str) -> None:
    """A wheel, a source, what builds it: uv would download the file, and lock what it was sent."""
    scene.house.rich = rich
    scene.house.wheel("dep")
    scene.house.wheel("top", requires=["dep"])
    scene.house.wheel("maker")
    system = '[build-system]\nrequires = ["maker"]\nbuild-backend = "own"\nbackend-path = ["."]\n'
    scene.house.sdist("sourced", "1.0", {"pyproject.toml": system, "own.py": ""})
    for page in (scene.house.simple / file.partition("-")[0]).iterdir():
        page.write_text(re.sub(r'"sha256": "[^"]*"|#sha256=[0-9a-f]*', "", page.read_text()))
    more = {"build": ["sourced"]} if file.startswith(("sourced", "maker")) else {}
    scene.entry("some/1.0", *(["sourced"] if more else ["top"]), **more)
    with scene.served():
        done = scene.refused("lock", "some/1.0")
    assert f"error[wheel-unhashed]: the index gives no sha256 of {file}\n" in done.stderr
    assert not (scene.box.root / "recipes/some/1.0/wheels.lock").exists()
    if not more:
        scene.box.ok("lock", "some/1.0", "--index", f"house={scene.house.files}")  # the hint


def test_password_of_an_index_goes_to_no_other_host(tmp_path: Path) -> None:
    """A page that has moved is read where it is now, without it."""
    house = Wheelhouse(tmp_path / "house")
    house.wheel("one")
    page, seen = house.simple / "one/index.html", []

    class Index(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            seen.append((self.path, self.headers["Authorization"]))
            moved = self.path == "/one/"
            self.send_response(302 if moved else 200)
            self.send_header(
                "Location" if moved else "Content-Type", f"http://localhost:{port}/moved" if moved else "text/html"
            )
            self.end_headers()
            self.wfile.write(b"" if moved else page.read_bytes())

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name is the base class's
            """Nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Index) as server:
        port = server.server_address[1]
        threading.Thread(target=server.serve_forever, daemon=True).start()
        row = LockedRow(name="one", version="1.0", sha256="0" * 64)
        told = look([row], IndexPlace("house", f"http://me:secret@127.0.0.1:{port}"), Runner())["one"]
        server.shutdown()
    assert not isinstance(told, Exception)
    assert [(each.file, each.url) for each in told] == [
        ("one-1.0-py3-none-any.whl", f"http://localhost:{port}/files/one-1.0-py3-none-any.whl")
    ]
    assert seen == [("/one/", "Basic " + base64.b64encode(b"me:secret").decode()), ("/moved", None)]


def test_index_in_files_without_hashes_is_refused(scene: WheelBox) -> None:
    scene.house.hashes = False
    scene.house.wheel("top")
    scene.entry("some/1.0", "top")
    assert "error[wheel-unhashed]" in scene.refused("lock", "some/1.0").stderr


def test_credentials_of_an_index_are_for_its_hashes_too(scene: WheelBox) -> None:
    """Else the page that was read by uv could not be read, which is said, and no more than that."""
    scene.house.wheel("top")
    scene.entry("some/1.0", "top")
    with scene.served() as server:
        server.login = "Basic " + base64.b64encode(b"me:it's").decode()
        assert (
            "was not seen"
            not in scene.box.ok("lock", "some/1.0", UV_INDEX_HOUSE_USERNAME="me", UV_INDEX_HOUSE_PASSWORD="it's").stderr
        )


def test_login_of_a_download_is_the_one_in_rattlers_file(scene: WheelBox, tmp_path: Path) -> None:
    scene.house.wheel("top")
    scene.entry("some/1.0", "top")
    logins = tmp_path / "logins.json"
    logins.write_text(json.dumps({"127.0.0.1": {"BasicHTTP": {"username": "me", "password": "it's"}}}))
    with scene.served() as server:
        server.login = "Basic " + base64.b64encode(b"me:it's").decode()
        own = {"UV_INDEX_HOUSE_USERNAME": "me", "UV_INDEX_HOUSE_PASSWORD": "it's"}
        scene.box.ok("lock", "some/1.0", **own)
        scene.refused("fetch", "some/1.0", **own)
        scene.box.ok("fetch", "some/1.0", RATTLER_AUTH_FILE=str(logins), **own)


def test_page_on_the_network_lists_no_file_of_this_machine(scene: WheelBox) -> None:
    other = scene.house.wheel("top").rename(scene.house.folder / "top-1.0-py3-none-any.whl")
    scene.entry("some/1.0", "top")
    for page in (scene.house.simple / "top").iterdir():
        page.write_text(page.read_text().replace("../../files/top-1.0-py3-none-any.whl", other.as_uri()))
    with scene.served():
        text = scene.refused("lock", "some/1.0").stderr
    assert f"error[index-foreign]: the index lists {other.as_uri()} for top" in text
