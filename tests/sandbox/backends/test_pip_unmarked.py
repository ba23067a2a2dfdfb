"""A Python whose pip no mark stops, as one before 23.0, which reads none: what keeps it from the install then."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.helpers.contributing import copy_with
from tests.helpers.places import CACHE
from tests.helpers.sandbox import PYTHON, Sandbox
from tests.helpers.scenes import locked
from tests.helpers.standin.channel import Channel
from tests.helpers.waiting import HANGS

ENTRY = "py/1.0"


@dataclass
class Unmarked(Sandbox):
    """A sandbox whose envmgr is `copy`, as long as that is set."""

    copy: Path | None = None

    def environ(self, **extra: str) -> dict[str, str]:
        return super().environ(**({"PYTHONPATH": str(self.copy)} if self.copy else {}), **extra)


@pytest.fixture
def box(tmp_path: Path, channel: Channel) -> Iterator[Unmarked]:
    """An entry with Python, built by an envmgr that marks none."""
    made = Unmarked(tmp_path / "box", str(channel.folder), copy=tmp_path / "copy")
    made.root.mkdir()
    made.write_site()
    copy_with(tmp_path / "copy", "nothing/")
    file = tmp_path / "copy/envmgr/system/pythons.py"
    text = file.read_text()
    marks = "    marks = [folder / MARK for folder in standard_libraries(root)]\n"
    assert text.count(marks) == 1
    file.write_text(text.replace(marks, "    marks: list[Path] = []\n"))
    locked(made, ENTRY, [f"python {PYTHON}.*", "pip"])
    made.ok("build", ENTRY)
    made.copy = None
    yield made
    made.clear()


def test_its_pip_which_no_mark_stops_is_stopped_by_a_setting_of_pip(box: Unmarked) -> None:
    """Its venvs, and other places, take packages."""
    wheels = f"--quiet --no-index --find-links {CACHE / 'wheels'}"
    done = box.shell(
        f"""
        module load {ENTRY}
        python -m pip install {wheels} tabulate; echo $?
        python -m pip install --user {wheels} tabulate; echo $?
        pip install {wheels} --target there tabulate && ls -d there/tabulate
        pip download {wheels} -d down tabulate && ls down
        python -m pip list >/dev/null && echo listed
        python -m venv --system-site-packages own && own/bin/python -m pip install {wheels} tabulate && echo own
        PIP_REQUIRE_VIRTUALENV=0 python -m pip install --dry-run {wheels} tabulate && echo as said
        module unload {ENTRY}; env | grep -c PIP_
        export PIP_REQUIRE_VIRTUALENV=0; module load {ENTRY}; echo $PIP_REQUIRE_VIRTUALENV
        module unload {ENTRY}; echo $PIP_REQUIRE_VIRTUALENV
        """,
        timeout=HANGS,
    )
    wheel = "tabulate-0.9.0-py3-none-any.whl"
    said = ["3", "3", "there/tabulate", wheel, "listed", "own", "as said", "0", "0", "0"]
    assert done.stdout.splitlines() == said, done.stdout + done.stderr
    assert done.stderr.count("Could not find an activated virtualenv (required).") == 2
    assert "0 differ from their manifest" in box.ok("verify").stdout


def test_no_spelling_brings_a_change_of_it_past_the_shim(box: Unmarked) -> None:
    """Root may write the install, and this pip is not kept from it: the shim alone is what stops it."""
    wheels = f"--quiet --no-index --find-links {CACHE / 'wheels'}"
    refused = [
        "pip --python $(command -v python) install {W} tabulate",
        "pip --python=link install --user {W} tabulate",
        "pip --log list install {W} tabulate",
        "pip install {W} --log -t tabulate",
        "pip install {W} --prefix= tabulate",
        "pip install {W} --root / tabulate",
        "pip install {W} -qt $(dirname $(command -v python))/../lib tabulate",
        "pip config --site set global.index-url http://x.invalid",
        "PIP_SITE=1 pip config set global.index-url http://x.invalid",
        "PIP_REQUIRE_VIRTUALENV=0 pip install {W} tabulate",
        "PIP_TARGET=x pip --isolated install {W} tabulate",
    ]
    done = [
        "pip install {W} -qt one tabulate && ls -d one/tabulate",
        "pip install {W} --targ two tabulate && ls -d two/tabulate",
        "PIP_TARGET=three pip install {W} tabulate && ls -d three/tabulate",
        "pip config --user set global.timeout 9 && echo set",
        "pip install {W} --prefix four --no-deps setuptools 2>&1 | grep -i uninstall || echo alone",
        "python -m venv own && pip --python own install {W} tabulate && echo own",
    ]
    script = [f"{command.replace('{W}', wheels)}; echo $?" for command in refused]
    script += [command.replace("{W}", wheels) for command in done]
    ran = box.shell("\n".join([f"module load {ENTRY}; ln -s $(command -v python) link", *script]), timeout=HANGS)
    said = ["one/tabulate", "two/tabulate", "three/tabulate", "set", "alone", "own"]
    lines = [line for line in ran.stdout.splitlines() if not line.startswith("Writing to ")]
    assert lines == ["1"] * len(refused) + said, ran.stdout + ran.stderr
    assert ran.stderr.count("all users share it, and it never changes") == len(refused)
    assert "0 differ from their manifest" in box.ok("verify").stdout
