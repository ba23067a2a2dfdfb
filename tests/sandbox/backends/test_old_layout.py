"""A Python that an envmgr before the mark of PEP 668 built: it stays in use until its lock changes, and `list` says so."""

from __future__ import annotations

import json
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

ENTRY, OTHER = "py/1.0", "hello/1.0"
SPECS = [f"python {PYTHON}.*", "pip"]
MARK = f"lib/python{PYTHON}/EXTERNALLY-MANAGED"
NOTE = "of an older layout, in use until its lock changes"


@dataclass
class Upgraded(Sandbox):
    """A sandbox whose envmgr is `older`, as long as that is set."""

    older: Path | None = None

    def environ(self, **extra: str) -> dict[str, str]:
        return super().environ(**({"PYTHONPATH": str(self.older)} if self.older else {}), **extra)


@pytest.fixture
def box(tmp_path: Path, channel: Channel) -> Iterator[Upgraded]:
    """Two entries, with Python and without, built by an envmgr whose conda backend has the first layout."""
    made = Upgraded(tmp_path / "box", str(channel.folder), older=tmp_path / "older")
    made.root.mkdir()
    made.policies |= {"keep_days": 0, "keep_generations": 1}
    made.write_site()
    copy_with(tmp_path / "older", "nothing/")
    backend = tmp_path / "older/envmgr/backends/conda/backend.py"
    text = backend.read_text()
    assert text.count("    layout = MARKED\n") == 1
    backend.write_text(text.replace("    layout = MARKED\n", "    layout = 1\n"))
    locked(made, ENTRY, SPECS)
    locked(made, OTHER, ["hello-prefix"])
    made.ok("build", ENTRY, OTHER)
    made.older = None
    yield made
    made.clear()


def installs(box: Sandbox) -> set[str]:
    return {str(p.relative_to(box.prefix)) for p in box.prefix.glob("store/*/*") if p.is_dir()}


def notes(box: Sandbox) -> dict[str, list[str]]:
    entries = box.ok("list", "--format", "json").data["entries"]
    return {e["entry"]: [n for n in e["notes"] if n == NOTE] for e in entries if not e["shipped"]}


def test_it_stays_in_use_until_its_lock_changes(box: Upgraded) -> None:
    before = installs(box)
    assert [path for path in before if (box.prefix / path / MARK).exists()] == []
    assert notes(box) == {ENTRY: [NOTE], OTHER: []}
    assert NOTE in box.ok("list", ENTRY).stdout
    plan = box.ok("build", "--dry-run", ENTRY, OTHER, "--format", "json").data
    assert [(s["build"], s["publish"]) for s in plan["steps"]] == [("reuse", "unchanged")] * 2
    assert "nothing to do" in box.ok("build", ENTRY, OTHER).stdout
    assert box.ok("gc", "--format", "json").data["installs"] == []
    assert box.ok("verify").stdout == (
        "1 generation verified, 0 differ from their record\n2 installs verified, 0 differ from their manifest\n"
    )
    assert installs(box) == before

    locked(box, ENTRY, [*SPECS, "six"])
    box.ok("build", ENTRY)
    (new,) = installs(box) - before
    assert (box.prefix / new / MARK).is_file()
    rows = json.loads((box.prefix / f"{new}.manifest.json").read_text())["paths"]
    assert [row[1:3] for row in rows if row[0] == MARK] == [["file", "0444"]]
    assert notes(box) == {ENTRY: [], OTHER: []}
    assert box.ok("gc", "--format", "json").data["installs"] == [
        path for path in before if path.startswith("store/py/")
    ]
    assert box.ok("verify").stdout == (
        "1 generation verified, 0 differ from their record\n2 installs verified, 0 differ from their manifest\n"
    )


def test_its_pip_which_no_mark_stops_is_stopped_by_a_setting_of_pip(box: Upgraded) -> None:
    """A pip before 23.0 is as good as one without the mark: it does not read it. Its venvs, and other places, take packages."""
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


def test_no_spelling_brings_a_change_of_it_past_the_shim(box: Upgraded) -> None:
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
