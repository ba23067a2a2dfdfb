"""`envmgr lock` as a user runs it: what it writes, what it says, what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import yaml

from envmgr.backends.conda.client import UNSOLVABLE
from envmgr.backends.conda.lockfile import LOCK_NAME, SIDECAR_NAME, read_lock
from envmgr.wording import counted
from tests.helpers.sandbox import Sandbox
from tests.helpers.standin.channel import Channel
from tests.helpers.standin.records import write_channel


def contents(folder: Path) -> dict[str, tuple[bytes, int]]:
    """Every file with its bytes and its time in nanoseconds: equal means untouched."""
    return {
        str(p.relative_to(folder)): (p.read_bytes(), p.stat().st_mtime_ns) for p in folder.rglob("*") if p.is_file()
    }


def texts(folder: Path) -> dict[str, bytes]:
    return {name: (folder / name).read_bytes() for name in (LOCK_NAME, SIDECAR_NAME)}


def builds(channel: Channel, name: str) -> list[str]:
    """`version build` of a stand-in package, oldest version first."""
    found = {r["version"]: r["build"] for r in channel.records.values() if r["name"] == name}
    return [f"{version} {found[version]}" for version in channel.versions(name)]


def test_lock_writes_lock_and_sidecar_and_names_what_is_new(sandbox: Sandbox, channel: Channel) -> None:
    (old, _), (python,) = builds(channel, "numpy"), builds(channel, "python")
    folder = sandbox.recipe("demo/1", [f"numpy {old.split()[0]}"])

    done = sandbox.ok("lock", "demo/1")

    assert done.stdout == f"demo/1: written  2 packages\n  + numpy {old}\n  + python {python}\n"
    assert sorted(p.name for p in folder.iterdir()) == [SIDECAR_NAME, LOCK_NAME, "recipe.yaml"]
    numpy = next(each for each in read_lock(folder)[0].packages if each.name == "numpy").to_json()
    (original,) = (
        r for r in channel.records.values() if f"{r['version']} {r['build']}" == old and r["name"] == "numpy"
    )
    for field in ("md5", "sha256", "size", "timestamp", "license"):
        assert numpy[field] == original[field]
    assert [*numpy["depends"]] == original["depends"]


def test_lock_again_writes_nothing_when_nothing_changed(sandbox: Sandbox) -> None:
    folder = sandbox.recipe("demo/1", ["numpy", "tabulate"])
    sandbox.ok("lock", "demo/1")
    before = contents(folder)

    done = sandbox.ok("lock", "demo/1")

    assert done.stdout == "demo/1: unchanged  3 packages\n"
    assert contents(folder) == before


def test_lock_is_the_same_whatever_the_order_of_the_channels_records(sandbox: Sandbox, channel: Channel) -> None:
    folder = sandbox.recipe("demo/1", ["numpy", "tabulate", "pyyaml", "hello-prefix"])
    sandbox.ok("lock", "demo/1")
    first = texts(folder)
    other = sandbox.root / "other"
    for subdir in ("linux-64", "noarch"):
        (other / subdir).mkdir(parents=True)
        for package in (channel.folder / subdir).glob("*.conda"):
            (other / subdir / package.name).symlink_to(package)
        data = json.loads((channel.folder / subdir / "repodata.json").read_bytes())
        data["packages.conda"] = dict(reversed(data["packages.conda"].items()))
        (other / subdir / "repodata.json").write_text(json.dumps(data))
    sandbox.mirror = str(other)
    sandbox.write_site()

    assert sandbox.ok("lock", "demo/1").stdout == "demo/1: unchanged  5 packages\n"
    assert texts(folder) == first


def test_lock_tells_changed_and_removed_packages_after_a_change_of_the_recipe(
    sandbox: Sandbox, channel: Channel
) -> None:
    (old, new), (six,) = builds(channel, "numpy"), builds(channel, "six")
    sandbox.recipe("demo/1", [f"numpy {old.split()[0]}", "six"])
    sandbox.ok("lock", "demo/1")
    sandbox.recipe("demo/1", [f"numpy {new.split()[0]}"])

    done = sandbox.ok("lock", "demo/1")

    assert done.stdout == f"demo/1: written  2 packages\n  ~ numpy {old} -> {new}\n  - six {six}\n"


def test_lock_as_json_has_status_and_changes(sandbox: Sandbox, channel: Channel) -> None:
    sandbox.recipe("demo/1", ["shared <2"])

    data = sandbox.ok("lock", "demo/1", "--format", "json").data

    change = {"name": "shared", "old": "", "new": "1.0 0"}
    outcome = {
        "entry": "demo/1",
        "status": "written",
        "packages": 1,
        "changes": [change],
        "notes": [],
        "reason": "",
        "mends": [],
    }
    assert data == {"schema": "envmgr.lock/1", "outcomes": [outcome], "check": False, "dry_run": False}


def test_dry_run_shows_the_change_and_writes_nothing(sandbox: Sandbox) -> None:
    folder = sandbox.recipe("demo/1", ["shared"])

    done = sandbox.ok("lock", "demo/1", "--dry-run")

    assert done.stdout == "demo/1: would write  1 package\n  + shared 2.0 0\n"
    assert [p.name for p in folder.iterdir()] == ["recipe.yaml"]


def test_check_exits_1_for_a_missing_and_a_stale_lock_and_writes_nothing(sandbox: Sandbox) -> None:
    folder = sandbox.recipe("demo/1", ["shared 1.*"])
    before = contents(sandbox.root)
    missing = sandbox.run("lock", "demo/1", "--check")
    assert (missing.code, missing.stdout) == (1, "demo/1: stale  (demo/1 has no lock)\n")
    assert contents(sandbox.root) == before

    sandbox.ok("lock", "demo/1")
    assert sandbox.ok("lock", "demo/1", "--check").stdout == "demo/1: fresh  1 package\n"

    sandbox.recipe("demo/1", ["shared 2.*"])
    before = contents(sandbox.root)
    stale = sandbox.run("lock", "demo/1", "--check")
    assert (stale.code, stale.stdout) == (1, f"demo/1: stale  ({folder / LOCK_NAME} does not match recipe.yaml)\n")
    assert contents(sandbox.root) == before


def test_lock_stays_fresh_when_only_tests_and_texts_of_the_recipe_change(sandbox: Sandbox) -> None:
    folder = sandbox.recipe("demo/1", ["shared"])
    sandbox.ok("lock", "demo/1")

    recipe = {"schema": 1, "backend": "conda", "input": {"specs": ["shared"], "channels": ["standin"]}, "help": "More."}
    (folder / "recipe.yaml").write_text("# the same input\n" + yaml.safe_dump(recipe))

    assert sandbox.run("lock", "demo/1", "--check").code == 0


def test_stale_lock_is_refused_with_both_digests(sandbox: Sandbox) -> None:
    folder = sandbox.recipe("demo/1", ["shared 1.*"])
    sandbox.ok("lock", "demo/1")
    old = yaml.safe_load((folder / LOCK_NAME).read_text())["metadata"]["custom_metadata"]["envmgr_recipe_digest"]
    sandbox.recipe("demo/1", ["shared 2.*"])
    sandbox.ok("lock", "demo/1", "--dry-run")

    done = sandbox.run("build", "demo/1")

    sandbox.ok("lock", "demo/1")
    new = yaml.safe_load((folder / LOCK_NAME).read_text())["metadata"]["custom_metadata"]["envmgr_recipe_digest"]
    assert done.code == 3
    assert done.stderr == (
        f"error[lock-stale]: {folder / LOCK_NAME} does not match recipe.yaml\n"
        f"  recipe digest {new[:8]}…, lock records {old[:8]}…\n"
        "\n"
        "hint: run `envmgr lock demo/1` and commit the result\n"
    )


def test_unsolvable_specs_name_the_package_in_conflict_and_leave_their_lock(sandbox: Sandbox) -> None:
    fine, folder = sandbox.recipe("demo/1", ["shared"]), sandbox.recipe("demo/2", ["left", "right"])

    done = sandbox.run("lock", "demo/1", "demo/2")

    assert done.code == 3
    head = [
        "error[unsolvable]: the specs cannot be solved together",
        "  entry demo/2",
        "  specs: left, right",
        "  virtual packages: __glibc 2.28, __linux 4.18, __unix 0",
        "  The following packages are incompatible",
    ]
    lines = done.stderr.splitlines()
    assert lines[:5] == head
    assert lines[-3] == "  written: demo/1"
    reasons = "\n".join(lines[5:-3])
    assert "shared >=2" in reasons and "shared <2" in reasons  # noqa: PT018 - the solver chooses the order
    assert lines[-1] == f"hint: {UNSOLVABLE}"
    assert (fine / LOCK_NAME).exists()
    assert not (folder / LOCK_NAME).exists()
    sandbox.ok("lock", "demo/1", "--check")


def test_virtual_package_of_the_recipe_decides_what_can_be_solved(sandbox: Sandbox) -> None:
    sandbox.recipe("demo/1", ["needs-cuda"])
    done = sandbox.run("lock", "demo/1")
    assert done.code == 3
    assert "__cuda >=11.8, for which no candidates were found" in done.stderr
    assert f"hint: {UNSOLVABLE}" in done.stderr
    wanted = {"channels": ["standin"], "specs": ["needs-cuda"], "virtual_packages": {"__cuda": "12.9"}}
    sandbox.recipe("demo/1", [], input=wanted)
    sandbox.ok("lock", "demo/1")


def test_name_that_no_channel_has_is_said(sandbox: Sandbox) -> None:
    sandbox.recipe("demo/1", ["shared", "hello-prefx", "nothing-like-it"])
    done = sandbox.run("lock", "demo/1")
    assert done.code == 3
    assert done.stderr.splitlines()[-4:] == [
        "  no channel of the recipe has hello-prefx",
        "  no channel of the recipe has nothing-like-it",
        "",
        "hint: add a channel that has it; if it is not a conda package, `pip` of the recipe takes it from an index",
    ]
    sandbox.recipe("demo/1", ["shared 99.*"])
    done = sandbox.run("lock", "demo/1")
    assert (done.code, "No candidates were found for shared 99.*" in done.stderr) == (3, True), done.stderr
    assert done.stderr.endswith(f"\n\nhint: {UNSOLVABLE}\n")


def test_conditions_extras_and_flags_are_rattlers(sandbox: Sandbox) -> None:
    """The lock has what holds of them, as rows that every reader understands."""
    records = [
        {"is": "python 3.12.1 0"},
        {"is": "python 3.10.1 0"},
        {"is": "tomli 2.0 0"},
        {"is": "mkl 2024 0"},
        {"is": "mkl 2023 0"},
        {"is": "app 1.0 0", "depends": ["python", 'tomli[version=">=1", when="python <3.11"]'], "flags": []},
        {"is": "lib 1.0 mkl", "depends": ["python"], "flags": ["blas:mkl"], "extra_depends": {"fast": ["mkl <2024"]}},
        {"is": "lib 1.0 openblas", "depends": ["python"], "flags": ["blas:openblas"]},
    ]
    sandbox.mirror = str(write_channel(sandbox.root / "records", records))
    sandbox.write_site()
    for specs, described, needs in (
        (["python 3.12.*", "app"], ["app 1.0 0", "python 3.12.1 0"], {"app": {"python"}}),
        (
            ["python 3.10.*", "app", "lib[extras=[fast], flags=[blas:mkl]]", 'tomli[when="python >=3.12"]'],
            ["app 1.0 0", "lib 1.0 mkl", "mkl 2023 0", "python 3.10.1 0", "tomli 2.0 0"],
            {"app": {"python", "tomli >=1"}, "lib": {"python", "mkl <2024"}},
        ),
        (['tomli[when="python >=3.12"]', "python 3.10.*"], ["python 3.10.1 0"], {}),
    ):
        folder = sandbox.recipe("demo/1", specs)
        sandbox.ok("lock", "demo/1")
        packages = read_lock(folder)[0].packages
        assert [f"{each.name} {each.version} {each.build}" for each in packages] == described
        assert {each.name: {*each.depends} for each in packages if each.depends} == needs
        sandbox.ok("check", "demo/1")
        assert (
            sandbox.ok("lock", "--check", "demo/1").stdout == f"demo/1: fresh  {counted(len(described), 'packages')}\n"
        )


def test_spec_that_cannot_be_read_is_named(sandbox: Sandbox) -> None:
    sandbox.recipe("demo/1", ["shared", "numpy >>1"])

    done = sandbox.run("lock", "demo/1")

    assert done.code == 2
    assert done.stderr == (
        "error[spec-invalid]: a spec of the recipe cannot be read\n"
        "  entry demo/1\n"
        "  `numpy >>1`: unable to parse version spec: >>1\n"
        "\n"
        "hint: specs are written like `numpy 1.26.*`\n"
    )


def test_lock_all_takes_the_sites_own_entries_only(sandbox: Sandbox) -> None:
    assert sandbox.run("lock", "--all").stderr == (
        "error[nothing-to-lock]: only the shipped catalog has entries\n\n"
        "hint: `envmgr copy ENTRY` takes one into your own\n"
    )
    sandbox.recipe("demo/1", ["shared"])
    sandbox.recipe("demo/2", ["left"])

    outcomes = sandbox.ok("lock", "--all", "--format", "json").data["outcomes"]

    assert [(o["entry"], o["status"], o["packages"]) for o in outcomes] == [
        ("demo/1", "written", 1),
        ("demo/2", "written", 2),
    ]
