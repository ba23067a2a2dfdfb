"""What a source says of itself, in its files or by its hooks, is refused where it is more than requirements."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from tests.helpers.builders import builders, pure
from tests.helpers.sandbox import Sandbox
from tests.helpers.wheel_scene import WheelBox, make_wheel_box

ENTRY = "some/1.0"
BACKEND = """\
import os, pathlib
from flit_core.buildapi import *

def get_requires_for_build_wheel(config_settings=None):
    return {requires!r}

def prepare_metadata_for_build_wheel(folder, config_settings=None):
    place = pathlib.Path(folder, "here-1.0.dist-info")
    place.mkdir()
    place.joinpath("METADATA").write_text({metadata!r})
    return place.name
"""
METADATA = "Metadata-Version: 2.1\nName: here\nVersion: 1.0\n"


@pytest.fixture
def scene(sandbox: Sandbox) -> WheelBox:
    return make_wheel_box(sandbox, *builders())


@pytest.fixture
def stranger() -> Iterator[tuple[str, list[str]]]:
    """An index that nobody named, and what it was asked."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_error(404)

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/simple", asked
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def project(requires: object = ("flit_core>=3",), **more: object) -> dict[str, str]:
    rows = (
        {"requires": [*requires], "build-backend": "flit_core.buildapi", **more} if isinstance(requires, tuple) else {}
    )
    table = "".join(f"{key} = {json.dumps(value)}\n" for key, value in rows.items())
    text = f"[build-system]\n{table}" if rows else f"build-system = {json.dumps(requires)}\n"
    return {**pure("here"), "pyproject.toml": f'{text}[project]\nname = "here"\nversion = "1.0"\ndescription = "x"\n'}


def hooks(requires: tuple[str, ...] = (), metadata: str = METADATA) -> dict[str, str]:
    backend = BACKEND.format(requires=[*requires], metadata=metadata)
    return {**project(**{"build-backend": "own", "backend-path": ["."]}), "own.py": backend}


CASES = {
    "an option in a row": lambda url: project((f"flit_core\n--extra-index-url {url}",)),
    "a place": lambda url: project((f"flit_core @ {url}/flit_core.whl",)),
    "a row of a hook": lambda url: hooks((f"wheel\n--extra-index-url {url}",)),
    "a file of a hook": lambda _: hooks(("-r /etc/shadow",)),
    "a need": lambda url: hooks(metadata=f"{METADATA}Requires-Dist: dep @ {url}/dep.whl\n"),
    "a folded need": lambda url: hooks(metadata=f"{METADATA}Requires-Dist: dep\n\t--index-url {url}\n"),
    "a version": lambda _: hooks(metadata=METADATA.replace("1.0", "1.0;x")),
}


@pytest.mark.parametrize("case", CASES)
def test_what_is_no_requirement_is_refused_and_nobody_is_asked(
    scene: WheelBox, stranger: tuple[str, list[str]], case: str
) -> None:
    url, asked = stranger
    scene.house.sdist("here", "1.0", CASES[case](url))
    folder = scene.entry(ENTRY, "here", build=["here"])
    told = scene.refused("lock", ENTRY).stderr
    assert "error[sdist-invalid]: what here 1.0 says of itself is refused\n" in told
    assert "Traceback" not in told
    assert asked == []
    assert not (folder / "wheels.lock").exists()


@pytest.mark.parametrize(
    ("files", "told"),
    [
        (project(**{"backend-path": ["../.."]}), "paths must be inside source tree\n"),
        (project("a text"), "Failed to validate `build-system` in pyproject.toml: `build-system` must be a table\n"),
        ({**pure("here"), "pyproject.toml": "a = " + "[" * 5000}, "maximum recursion depth exceeded"),
    ],
)
def test_project_file_that_is_none(scene: WheelBox, files: dict[str, str], told: str) -> None:
    scene.house.sdist("here", "1.0", files)
    scene.entry(ENTRY, "here", build=["here"])
    head = "error[sdist-invalid]: the pyproject.toml of here-1.0 cannot be read\n  entry some/1.0\n"
    assert f"{head}  {told}" in scene.refused("lock", ENTRY).stderr


def test_answer_and_log_that_the_source_writes_itself(scene: WheelBox, tmp_path: Path) -> None:
    """A hook that puts links in place of both, and floods what it can open of its parents, has nothing read or kept of that."""
    (secret := tmp_path / "secret").write_text("kept secret\n")
    spoil = (
        "import os\n"
        "for name in ('answer.json', 'log'):\n"
        "    place = os.path.join(os.environ['HOME'], '..', name)\n"
        "    if os.path.lexists(place): os.unlink(place)\n"
        f"    os.symlink({str(secret)!r}, place)\n"
        "for number in os.listdir('/proc'):\n"
        "    try:\n"
        "        if number.isdigit() and b'source.child' in open(f'/proc/{number}/cmdline', 'rb').read():\n"
        "            open(f'/proc/{number}/fd/1', 'w').write('{\"requires\": [\"evil\"]}\\n' * 1000)\n"
        "    except OSError: pass\n"
    )
    files = hooks()
    scene.house.sdist("here", "1.0", {**files, "own.py": spoil + files["own.py"]})
    scene.entry(ENTRY, "here", build=["here"])
    told = scene.refused("lock", ENTRY)
    assert "error[build-failed]: here 1.0 did not say" in told.stderr
    assert "kept secret" not in told.stdout + told.stderr
    assert "evil" not in told.stderr
