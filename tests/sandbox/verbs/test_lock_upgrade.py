"""`envmgr lock --upgrade PACKAGE`: one package and what it needs move, and the lock keeps the others."""

from __future__ import annotations

import re

import pytest

from envmgr.backends.conda.lockfile import LOCK_NAME
from tests.helpers.builders import builders, pure
from tests.helpers.sandbox import PYTHON, Sandbox
from tests.helpers.standin.records import write_channel
from tests.helpers.wheel_scene import WheelBox, make_wheel_box

ENTRY = "some/1.0"
REFUSED = {
    ("shared", "demo/1", "--check"): """\
error[lock-options]: --check writes nothing, and --upgrade changes locks: give one of them
""",
    ("shard", "demo/1"): """\
error[lock-lacks]: the lock of demo/1 has no `shard`
  entry demo/1

hint: did you mean shared?
""",
    ("nothing-like-it", "demo/1"): """\
error[lock-lacks]: the lock of demo/1 has no `nothing-like-it`
  entry demo/1

hint: `envmgr list demo/1` shows what there is
""",
    ("shared", "demo/2"): """\
error[lock-missing]: demo/2 has no lock
  entry demo/2
  {recipes}/demo/2/conda-lock.yml

hint: run `envmgr lock demo/2` and commit the result
""",
    ("shared", "demo/3"): """\
error[upgrade-whole]: the backend existing cannot move one package and keep the others
  entry demo/3

hint: `envmgr lock demo/3` locks all of it again; a version that recipe.yaml names is changed there
""",
    ("shared", "demo/1", "--solver", "conda-lock"): """\
error[upgrade-whole]: conda-lock cannot move one package and keep the others
  entry demo/1

hint: leave --solver out
""",
}


@pytest.fixture
def scene(sandbox: Sandbox) -> WheelBox:
    return make_wheel_box(sandbox)


def upgraded(box: Sandbox, package: str, *argv: str) -> str:
    """What is said, up to the notes."""
    return box.ok("lock", "--upgrade", package, ENTRY, *argv).stdout.partition("  note: ")[0]


def publish_newer(scene: WheelBox) -> None:
    """alpha 2 needs a newer beta, and not gamma; delta and beta have newer versions, and delta one more file."""
    for name in ("beta", "delta", "gamma"):
        scene.house.wheel(name, "2.0")
    scene.house.wheel("beta", "3.0")
    scene.house.wheel("alpha", "2.0", requires=["beta>=2", "gamma"])
    scene.house.wheel("delta", "1.0", {"more.py": ""}, build="1")


def test_wheel_moves_with_what_it_needs_and_the_others_keep_their_files(scene: WheelBox) -> None:
    scene.house.wheel("alpha", "1.0", requires=["beta", "gamma"])
    for name in ("beta", "delta", "gamma"):
        scene.house.wheel(name, "1.0")
    folder = scene.entry(ENTRY, "beta", "delta", "alpha")
    scene.lock(ENTRY)
    rows = (folder / "wheels.lock").read_text().splitlines()
    publish_newer(scene)

    said = re.sub(" [0-9a-f]{8}", "", upgraded(scene.box, "Alpha"))
    assert said == f"{ENTRY}: written  4 packages\n  ~ alpha 1.0 -> 2.0\n  ~ beta 1.0 -> 3.0\n"
    kept = [row for row in rows if row.startswith(("delta", "gamma"))]
    assert [row for row in (folder / "wheels.lock").read_text().splitlines() if row in kept] == kept
    assert scene.box.run("lock", "--check", ENTRY).code == 0
    assert f"{ENTRY}: written  4 packages\n  ~ gamma 1.0" in upgraded(scene.box, "gamma")
    assert upgraded(scene.box, "gamma") == f"{ENTRY}: unchanged  4 packages\n"
    assert re.search(
        "  note: gamma stays at 2.0 [0-9a-f]{8}: the recipe, and what there is, allow no other\n",
        scene.box.ok("lock", "--upgrade", "gamma", ENTRY).stdout,
    )


def test_source_moves_only_if_it_is_named_and_is_built_with_what_built_it(scene: WheelBox) -> None:
    scene.house.add(*builders())
    scene.house.wheel("here", "0.5")
    scene.house.sdist("here", "1.0", pure("here"))
    scene.house.wheel("alpha", "1.0")
    scene.entry(ENTRY, "here", "alpha", build=["here"])
    scene.box.ok("lock", ENTRY)
    built_with = scene.files(f"{ENTRY}/wheels.build/here.lock")
    scene.house.sdist("here", "2.0", pure("here", "2.0"))
    scene.house.wheel("alpha", "2.0")
    scene.house.wheel("flit-core", "99.0")

    assert re.match(f"{ENTRY}: written  2 packages\n  ~ alpha 1.0 .* -> 2.0 .*\n$", upgraded(scene.box, "alpha"))
    assert re.search("  ~ here 1.0 .* -> 2.0 .*\n$", upgraded(scene.box, "here"))
    assert scene.files(f"{ENTRY}/wheels.build/here.lock") == built_with


def test_conda_s_package_moves_with_what_it_needs(sandbox: Sandbox) -> None:
    old = [
        {"is": "ssl 3.0.13 0"},
        {"is": "certs 1.0 0"},
        {"is": "tool 1.0 0", "depends": ["ssl", "certs"]},
        {"is": "zed 1.0 0"},
    ]
    new = [
        {"is": "ssl 3.0.15 0", "depends": ["certs >=2"]},
        *({"is": f"{name} {version} 0"} for name in ("certs", "zed") for version in ("2.0", "3.0")),
    ]
    channel = sandbox.root / "channel"
    sandbox.mirror = str(write_channel(channel, old))
    sandbox.write_site()
    folder = sandbox.recipe(ENTRY, ["zed", "certs", "tool"])
    sandbox.ok("lock", ENTRY)
    write_channel(channel, [*old, *new])

    assert upgraded(sandbox, "ssl", "--dry-run").startswith(f"{ENTRY}: would write  4 packages\n  ~ certs")
    assert upgraded(sandbox, "ssl") == (
        f"{ENTRY}: written  4 packages\n  ~ certs 1.0 0 -> 3.0 0\n  ~ ssl 3.0.13 0 -> 3.0.15 0\n"
    )
    sandbox.recipe(ENTRY, ["zed >=1", "certs", "tool"])  # the lock is stale, and is still what is kept
    assert upgraded(sandbox, "certs") == f"{ENTRY}: written  4 packages\n"
    assert sandbox.run("lock", "--check", ENTRY).code == 0
    assert (folder / LOCK_NAME).read_text().count("zed-1.0-0") == 1


def test_wheel_beside_conda_s_packages_moves_alone(scene: WheelBox) -> None:
    scene.house.wheel("alpha", "1.0", requires=["beta", "six"])
    scene.house.wheel("beta", "1.0")
    scene.conda(ENTRY, [f"python {PYTHON}.*", "six", "numpy"], "alpha")
    scene.box.ok("lock", ENTRY)
    for name in ("alpha", "beta"):
        scene.house.wheel(name, "2.0")
    assert re.search(r"  ~ beta 1\.0 [0-9a-f]{8} -> 2\.0 [0-9a-f]{8}\n", upgraded(scene.box, "beta"))
    changes = [line for line in upgraded(scene.box, "numpy").splitlines() if line[2] in "~+-"]
    assert changes == []


def test_all_takes_the_entries_that_have_the_package(sandbox: Sandbox) -> None:
    for entry, spec in (("demo/1", "shared"), ("demo/2", "left"), ("demo/3", "six")):
        sandbox.recipe(entry, [spec])
    sandbox.ok("lock", "demo/1", "demo/3")
    outcomes = sandbox.ok("lock", "--all", "--upgrade", "shared", "--format", "json").data["outcomes"]
    assert [(each["entry"], each["status"]) for each in outcomes] == [("demo/1", "unchanged")]
    assert sandbox.run("lock", "--all", "--upgrade", "shraed").stderr == (
        "error[lock-lacks]: no lock of your entries has `shraed`\n\nhint: did you mean shared?\n"
    )


def test_what_cannot_move_is_refused(sandbox: Sandbox) -> None:
    sandbox.recipe("demo/1", ["shared"])
    sandbox.ok("lock", "demo/1")
    sandbox.recipe("demo/2", ["shared"])
    sandbox.recipe("demo/3", [], backend="existing", input={"path": str(sandbox.root)})
    recipes = sandbox.root / "recipes"
    before = {path: path.read_bytes() for path in recipes.rglob("*") if path.is_file()}
    for argv, told in REFUSED.items():
        done = sandbox.run("lock", "--upgrade", *argv)
        assert (done.code != 0, done.stderr) == (True, told.format(recipes=recipes))
    assert {path: path.read_bytes() for path in recipes.rglob("*") if path.is_file()} == before
