"""A prefix knows the path that it was made for: under another one nothing proves or publishes it, and modules say so."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.helpers.sandbox import Sandbox
from tests.helpers.scenes import locked
from tests.helpers.standin.channel import Channel

ENTRY = "hello/1.0"


@pytest.fixture
def box(tmp_path: Path, channel: Channel) -> Iterator[Sandbox]:
    made = Sandbox(tmp_path, str(channel.folder))
    made.write_site()
    locked(made, ENTRY, ["hello-prefix"])
    made.ok("build", ENTRY)
    yield made
    made.clear()


def name_in_site(box: Sandbox, prefix: Path) -> None:
    box.settings["prefix"] = str(prefix)
    box.write_site()


def by_record(box: Sandbox) -> None:
    """As it was written down."""


def by_modules(box: Sandbox) -> None:
    (box.prefix / "prefix.json").unlink()


def by_manifests(box: Sandbox) -> None:
    by_modules(box)
    specs = box.prefix / "generations/0001/modules.json"
    specs.parent.chmod(0o755)
    specs.unlink()


def by_what_is_left_of_it(box: Sandbox) -> None:
    path = box.prefix / "prefix.json"
    path.chmod(0o644)
    path.write_text("")


REFUSED = [
    ("verify",),
    ("verify", "--all"),
    ("test",),
    ("rollback", "1"),
    ("build", ENTRY),
    ("build", "--dry-run", ENTRY),
    ("build", "--again", ENTRY),
    ("publish",),
    ("publish", "--remove", ENTRY),
    ("gc",),
    ("gc", "--dry-run"),
    ("fetch", ENTRY),
    ("shell-init", "bash"),
    ("job", ENTRY),
    ("node-setup",),
]


@pytest.mark.parametrize("lost", [by_record, by_modules, by_manifests, by_what_is_left_of_it])
def test_every_verb_that_publishes_or_proves_refuses_a_moved_prefix(
    box: Sandbox, lost: Callable[[Sandbox], None]
) -> None:
    old, new = box.prefix, box.root / "moved"
    lost(box)
    old.rename(new)
    name_in_site(box, new)
    try:
        for verb in REFUSED if lost is by_record else REFUSED[:1]:
            done = box.run(*verb)
            assert (done.code, done.stderr.splitlines()[0].split(":")[0]) == (3, "error[prefix-moved]"), (
                verb,
                done.stderr,
            )
            assert f"was made for {old}" in done.stderr
        if lost is by_manifests:
            return  # nothing reads that generation any more
        for verb in ("list",), ("history",), ("check", ENTRY):
            box.ok(*verb)
        assert f"was made for {old}" in box.run("check").stdout
        # The hint, by a link: what the installs have in them is what counts.
        old.symlink_to(new)
        name_in_site(box, old)
        if lost is by_record:
            assert "0 differ from their manifest" in box.ok("verify").stdout
        assert box.ok("test", ENTRY).code == 0
        old.unlink()
    finally:
        new.rename(old)


def test_copy_of_a_prefix_is_refused_beside_the_first(box: Sandbox) -> None:
    copied = box.root / "copied"
    shutil.copytree(box.prefix, copied, symlinks=True)
    name_in_site(box, copied)
    try:
        assert "error[prefix-moved]" in box.run("publish").stderr
        new = box.root / "new"
        name_in_site(box, new)
        box.ok("build", ENTRY)
        assert json.loads((new / "prefix.json").read_text()) == {"schema": 1, "path": str(new)}
    finally:
        name_in_site(box, box.prefix)


def test_path_is_written_once_and_again_when_it_was_lost(box: Sandbox) -> None:
    place = box.prefix / "prefix.json"
    assert json.loads(place.read_text()) == {"schema": 1, "path": str(box.prefix)}
    before = place.stat().st_ino
    box.ok("build", ENTRY)
    box.ok("publish", "--remove", ENTRY)
    assert place.stat().st_ino == before
    place.unlink()
    box.ok("build", ENTRY)
    assert json.loads(place.read_text())["path"] == str(box.prefix)


def test_module_of_a_moved_prefix_does_not_load(box: Sandbox) -> None:
    new = box.root / "moved"
    init = box.ok("shell-init", "bash").stdout.replace(str(box.prefix), str(new))
    box.prefix.rename(new)
    try:
        script = f"{init}\nmodule load {ENTRY}; echo $?; type -t hello-prefix"
        done = subprocess.run(
            ["bash", "--noprofile", "--norc"],
            input=script,
            capture_output=True,
            text=True,
            check=False,
            env={"PATH": "/usr/bin:/bin", "HOME": str(box.root)},
            cwd=box.root,
        )
        assert done.stdout == "1\n", done.stderr
        assert f"its modules were moved to {new}" in " ".join(done.stderr.split())
    finally:
        new.rename(box.prefix)
