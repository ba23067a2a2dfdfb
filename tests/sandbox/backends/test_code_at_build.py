"""Code of a package does not run before its install is there, and its programs do not hide those of the system without a word."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.helpers.sandbox import Sandbox
from tests.helpers.wheel_scene import WheelBox, make_wheel_box

ENTRY = "some/1.0"


@pytest.fixture
def scene(sandbox: Sandbox) -> WheelBox:
    return make_wheel_box(sandbox)


@pytest.mark.parametrize("backend", ["wheels", "wheels-on-entry", "conda"])
def test_start_up_files_of_a_wheel_do_not_run_at_a_build(scene: WheelBox, tmp_path: Path, backend: str) -> None:
    """Of every kind that Python reads at its start."""
    ran = tmp_path / "ran"
    ran.mkdir()

    def code(name: str) -> str:
        return f"import pathlib; pathlib.Path({str(ran)!r}, {name!r}).touch()"

    files = {f"{name}.py": code(name) for name in ("sitecustomize", "usercustomize", "compileall", "marshal")}
    scene.house.wheel("evil", files={"evil.pth": code("pth") + "\n", **files})
    if backend == "conda":
        scene.conda(ENTRY, ["python"], "evil")
    else:
        base = {"python": scene.base()} if backend == "wheels-on-entry" else {}
        scene.entry(ENTRY, "evil", **base)
    scene.box.ok("lock", ENTRY)
    scene.box.ok("build", "--no-publish", ENTRY)
    assert [path.name for path in ran.iterdir()] == []
    (site,) = scene.install(ENTRY).glob("lib/python3*/site-packages")
    assert (site / "evil.pth").is_file()
    assert list((site / "__pycache__").glob("sitecustomize.*.pyc"))


def test_programs_that_hide_commands_are_refused_and_may_be_accepted_by_name(scene: WheelBox) -> None:
    """A script and an entry point; nothing stays after the refusal."""
    files = {"tool-1.0.data/scripts/sudo": "#!python\n", "tool-1.0.data/scripts/tool": "#!python\n"}
    scene.house.wheel("tool", files=files, scripts={"ssh": "tool:main"})
    scene.entry(ENTRY, "tool")
    scene.lock(ENTRY)
    told = scene.refused("build", ENTRY).stderr
    assert f"error[commands-hidden]: {ENTRY} hides commands of the system or of shells: ssh, sudo\n" in told
    assert 'say so in recipe.yaml: `accept: {hidden-commands: "ssh, sudo: why"}`' in told
    assert not list(scene.box.prefix.glob("store/some/*"))
    wanted = {"python": "system", "requirements": ["tool"], "indexes": ["house"]}
    for reason, ok in (("sudo: it is a tool for it", False), ("ssh, sudo: why", True)):
        scene.box.recipe(ENTRY, [], backend="wheels", input=wanted, accept={"hidden-commands": reason})
        scene.lock(ENTRY)
        done = scene.box.run("build", "--no-publish", ENTRY)
        assert (done.code == 0) is ok, done.stderr
        if not ok:
            assert "of shells: ssh\n" in done.stderr
    assert "there is no such fault any more" not in scene.box.ok("lock", "--check", ENTRY).stderr
    scene.box.recipe(
        ENTRY, [], backend="wheels", input=wanted
    )  # an install that is there passes no more than a new one
    assert "error[commands-hidden]: " in scene.refused("build", ENTRY).stderr
