"""A prefix that an older release made: read, published from, rolled back and collected; nothing is renamed, or rebuilt by surprise."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.old_prefix import FIXTURES, PREFIX, OldPrefix, old_prefix

MODULE_ALONE = "a publish writes its module again, on the same install"
ENTRIES = ("act/1.0", "tool/1.0", "top/1.0", "toy/1.0")


@pytest.fixture(params=sorted(p.name.removesuffix(".tar.gz") for p in FIXTURES.glob("*.tar.gz")))
def box(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[OldPrefix]:
    """As after an upgrade: what the packages of `act` set is accepted since then."""
    with old_prefix(request.param, tmp_path) as made:
        path = made.site / "recipes/act/1.0/recipe.yaml"
        path.write_text(
            json.dumps(json.loads(path.read_text()) | {"accept": {"variable:HELLO_*": "its packages' own"}})
        )
        yield made


def load(box: OldPrefix, script: str) -> str:
    """What a login shell says, which has the current generation."""
    assert box.inside is not None
    init = box.ok("shell-init", "bash").stdout
    done = subprocess.run(
        [*box.inside.words(), "bash", "--noprofile", "--norc"],
        input=f"{init}\n{script}",
        text=True,
        capture_output=True,
        env={"PATH": "/usr/bin:/bin", "HOME": str(box.root)},
        check=False,
        cwd="/",
    )
    return done.stdout + done.stderr


def states(box: OldPrefix) -> dict[str, str]:
    entries = box.ok("list", "--format", "json").data["entries"]
    return {e["entry"]: e["state"] for e in entries if not e["shipped"]}


def notes(box: OldPrefix) -> dict[str, tuple[str, ...]]:
    entries = box.ok("list", "--format", "json").data["entries"]
    return {e["entry"]: tuple(e["notes"]) for e in entries if not e["shipped"]}


def facts(box: OldPrefix, field: str) -> list[tuple[str, str]]:
    found = box.ok("site", "check", "--format", "json").data["facts"]
    return [(f["status"], f["text"]) for f in found if f["field"] == field]


def installs(box: OldPrefix) -> set[str]:
    return {str(p.relative_to(box.prefix)) for p in box.prefix.glob("store/*/*") if p.is_dir()}


def settings(box: OldPrefix, **changes: Any) -> None:
    path = box.site / "site.yaml"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def test_there_is_one_of_the_release_before_the_backends_had_a_contract() -> None:
    assert (FIXTURES / "0.1.0-5297e6a.tar.gz").stat().st_size < 200_000


def test_it_is_read_as_its_own_release_read_it(box: OldPrefix) -> None:
    expected = box.expected
    assert box.current() == 2
    history = box.ok("history", "--format", "json").data
    assert [row.pop("damaged") for row in history["generations"]] == [""] * len(history["generations"])  # since then
    assert history == expected["history"]
    shown = {entry: box.ok("show", entry, "--format", "json").data for entry in ENTRIES}
    assert {entry: said["digest"] for entry, said in shown.items()} == expected["digests"]
    assert {entry: said["install"] for entry, said in shown.items()} == expected["installs"]
    # By its lock, tool/1.0; the others by what modules say since then, and no install of theirs is another.
    assert states(box) == dict.fromkeys(ENTRIES, "outdated")
    assert notes(box) == {**dict.fromkeys(ENTRIES, (MODULE_ALONE,)), "tool/1.0": ()}
    assert box.ok("verify").stdout == (
        "not looked at: generations/0002/generation.json: the history does not have its sha256\n"
        "not looked at: generations/0002/generation.json: it does not name the sha256 of 4 manifests\n"
        "1 generation verified, 0 differ from their record\n"
        "4 installs verified, 0 differ from their manifest\n"
    )
    said = load(box, "module load top tool act; top.sh; toy.sh; hello-prefix; echo $HELLO_HOME")
    (old,) = (
        p for p in installs(box) if p.startswith("store/tool/") and f"{PREFIX}/{p}" != expected["installs"]["tool/1.0"]
    )
    act = expected["installs"]["act/1.0"]
    assert said == f"top 1.0\ntoy 1.0\nhello from {PREFIX}/{old}\n{act}/share/hello-activate\n"


def test_nothing_is_built_anew(box: OldPrefix) -> None:
    before = installs(box)
    plan = box.ok("build", "--dry-run", *ENTRIES, "--format", "json").data
    assert [step["build"] for step in plan["steps"]] == ["reuse"] * 4
    box.ok("build", "act/1.0", "top/1.0", "toy/1.0")
    assert installs(box) == before


def test_site_check_tells_what_the_upgrade_changes(box: OldPrefix) -> None:
    assert facts(box, "backends") == [
        ("warning", "channels, easyconfigs: read as backends.conda.channels, backends.easybuild.easyconfigs")
    ]
    for status, text in facts(box, "upgrade"):
        assert "another install" not in text, (status, text)
    assert len(facts(box, "upgrade")) == 1
    settings(box, cpu_level="x86-64-v3")
    assert (
        len([text for _, text in facts(box, "upgrade") if ": the same lock is another install here: store/" in text])
        == 3
    )


def test_it_is_published_from_and_rolled_back(box: OldPrefix) -> None:
    newest = box.expected["installs"]["tool/1.0"]
    box.ok("publish", "tool/1.0")
    assert box.current() == 4
    assert states(box) == dict.fromkeys(ENTRIES, "published")
    assert load(box, "module load tool top; hello-prefix; toy.sh") == f"hello from {newest}\ntoy 1.0\n"
    box.ok("rollback", "1")
    assert load(box, "module load act tool && hello-prefix; module is-avail top || echo no top").endswith("\nno top\n")
    box.ok("rollback", "4")
    assert box.ok("verify").stdout == (
        "1 generation verified, 0 differ from their record\n4 installs verified, 0 differ from their manifest\n"
    )


def test_it_is_collected_with_easybuild_s_own_modules(box: OldPrefix) -> None:
    box.ok("publish", "tool/1.0")
    box.ok("remove", "top/1.0", "toy/1.0")
    settings(box, policies={"min_free": 0, "keep_days": 0, "keep_generations": 1})
    kept = {box.expected["installs"][entry].removeprefix(f"{PREFIX}/") for entry in ("act/1.0", "tool/1.0")}
    modules = set(box.prefix.glob("easybuild/modules/*/*.lua"))
    assert {p.parent.name for p in modules} == {"top", "toy"}
    gone = box.ok("gc", "--format", "json").data
    assert gone["generations"] == [1, 2, 3, 4]
    assert sorted(path.split("/")[1] for path in gone["installs"]) == ["tool", "top", "toy"]
    assert installs(box) == kept
    assert list(box.prefix.glob("easybuild/modules/*/*.lua")) == []
    assert box.ok("verify").stdout == (
        "1 generation verified, 0 differ from their record\n2 installs verified, 0 differ from their manifest\n"
    )


def test_easybuild_s_own_module_is_still_held_to_its_manifest(box: OldPrefix) -> None:
    (module,) = box.prefix.glob("easybuild/modules/toy/*.lua")
    module.chmod(0o644)
    module.write_text(module.read_text() + 'setenv("POISON", "1")\n')
    done = box.run("verify", "--format", "json")
    assert (done.code, [f["found"] for f in done.data["findings"]]) == (
        1,
        [f"store/toy/{module.stem}: {module.relative_to(box.prefix)}: sha256 changed"],
    )
    assert "`envmgr verify --repair` makes it again" in done.data["findings"][0]["hint"]
    dry = box.run("verify", "--repair", "--dry-run")
    assert f"would make again: store/toy/{module.stem}" in dry.stdout


def test_what_is_locked_anew_is_built_beside_it(box: OldPrefix) -> None:
    before = installs(box)
    recipe = box.site / "recipes" / "act" / "1.0" / "recipe.yaml"
    recipe.write_text(recipe.read_text().replace('"hello-activate"', '"hello-activate", "shared"'))
    box.ok("lock", "act/1.0")
    box.ok("build", "act/1.0")
    (new,) = installs(box) - before
    assert new.startswith("store/act/1.0-")
    assert "share/hello-activate" in load(box, "module load act; echo $HELLO_HOME")
    manifest = json.loads((box.prefix / f"{new}.manifest.json").read_text())
    assert "extra" not in manifest
