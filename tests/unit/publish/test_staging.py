"""Generations on their way: whose they are, and that a publish which is overtaken again and again comes to its end."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from envmgr.catalog.site import Site, load_site
from envmgr.modules.lmod import find_lmod
from envmgr.modules.spec import ModuleSpec
from envmgr.publish import generations
from envmgr.publish.flipfile import read_flip, sequences
from envmgr.publish.generations import StagedCheck, publish, publishing, rollback
from envmgr.publish.plan import Change, NewModule
from envmgr.publish.records import ABANDONED, RECORD, current_number, read_record
from envmgr.report import Reporter, SilentReporter
from envmgr.store.manifest import InstallFacts
from envmgr.store.prefix import Prefix
from envmgr.system import locks
from envmgr.system.files import shipped
from envmgr.system.locks import try_file_lock
from envmgr.system.processes import this_process
from envmgr.system.run import Runner
from tests.helpers.kept_reporter import Told


@pytest.fixture
def site(tmp_path: Path) -> Site:
    (tmp_path / "site.yaml").write_text(f"prefix: {tmp_path}/prefix\n")
    return load_site(tmp_path / "site.yaml", {})


def row(prefix: Prefix, number: int, **fields: object) -> Path:
    """What a run writes that stages the generation: this process, unless `fields` say otherwise."""
    prefix.holds.mkdir(parents=True, exist_ok=True)
    path = prefix.holds / f"generation-{number:04d}.json"
    path.write_text(json.dumps({"schema": 1, **asdict(this_process()), "installs": [], **fields}))
    return path


def staged_by_somebody(prefix: Prefix, number: int) -> Path:
    folder = prefix.generation(number)
    (folder / "modules").mkdir(parents=True)
    return folder


def test_what_a_living_run_stages_is_left_alone_here_and_on_other_hosts(site: Site) -> None:
    prefix = Prefix(site.prefix)
    rows = {
        1: row(prefix, 1),
        2: row(prefix, 2, host="elsewhere"),
        3: row(prefix, 3, ticks=1),
        4: row(prefix, 4, host="elsewhere"),
        5: row(prefix, 5),
    }
    os.utime(rows[4], (1, 1))  # no pulse
    rows[5].write_text("{")  # it is about to be written
    folders = {number: staged_by_somebody(prefix, number) for number in (*rows, 6)}
    with publishing(prefix, Runner(), SilentReporter()):
        pass
    assert {n for n, folder in folders.items() if (folder / ABANDONED).exists()} == {3, 4, 6}
    assert {n for n, folder in folders.items() if (folder / "modules").exists()} == {1, 2, 5}
    assert {n for n, path in rows.items() if path.exists()} == {1, 2, 5}


def publish_it(site: Site, change: Change, check: StagedCheck, reporter: Reporter | None = None) -> int | None:
    templates = shipped("modulefiles")
    told = reporter or SilentReporter()
    return publish(
        change, site, find_lmod(None, {}), Runner(), told, templates=templates, check=check, signer=None, extras={}
    ).number


NOTHING = Change({}, (), "for a test", anew=True)
"""A generation without a module, whatever is current."""


def nothing(_modules: Path, _lmodrc: Path, _changed: Mapping[str, ModuleSpec]) -> None:
    """A check that all pass."""


def test_smoke_tests_run_without_the_publish_lock(site: Site) -> None:
    prefix = Prefix(site.prefix)
    free = []

    def check(modules: Path, lmodrc: Path, _changed: Mapping[str, ModuleSpec]) -> None:
        assert modules == prefix.generation(1) / "modules"
        assert lmodrc.is_file()
        with try_file_lock(prefix.publish_lock) as had:
            free.append(had)
        assert [path.name for path in prefix.holds.iterdir()] == ["generation-0001.json"]

    assert publish_it(site, NOTHING, check) == 1
    assert free == [True]
    assert list(prefix.holds.iterdir()) == []


def test_number_that_somebody_stages_is_not_taken(site: Site) -> None:
    prefix = Prefix(site.prefix)
    row(prefix, 1, host="elsewhere")
    assert publish_it(site, NOTHING, nothing) == 2


def test_generation_that_another_run_gave_up_is_made_anew(site: Site) -> None:
    """As a run on a host does that thinks this one dead."""
    prefix = Prefix(site.prefix)

    def check(modules: Path, _lmodrc: Path, _changed: Mapping[str, ModuleSpec]) -> None:
        if modules.parent.name == "0001":
            (modules.parent / ABANDONED).write_text("{}")

    assert publish_it(site, NOTHING, check) == 2
    assert not (prefix.generation(1) / RECORD).exists()


def test_publish_that_is_overtaken_without_end_tests_under_the_lock_at_last(site: Site) -> None:
    """Whatever it is tested on changes each time: then it would never be through."""
    prefix, told = Prefix(site.prefix), Told()
    for number in (1, 2):
        assert publish_it(site, NOTHING, nothing) == number
    install = prefix.install_at("store/one/1.0-01234567")
    install.path.mkdir(parents=True)
    install.manifest.write_text("{}")
    rounds: list[bool] = []

    def check(_modules: Path, _lmodrc: Path, changed: Mapping[str, ModuleSpec]) -> None:
        if not changed:
            return
        with try_file_lock(prefix.publish_lock) as free:
            rounds.append(free)
        if free:  # what it stands on is made again, and somebody goes back: its tests say nothing any more
            install.manifest.write_text(json.dumps({"round": len(rounds)}))
            rollback(1 if current_number(prefix) == 2 else 2, prefix, Runner(), SilentReporter(), signer=None)

    spec = ModuleSpec(
        name="one", version="1.0", root=str(install.path), digest="01234567" * 8, description="for a test"
    )
    change = Change({"one/1.0": NewModule(spec, InstallFacts(), "0" * 64)}, (), "for a test")
    assert publish_it(site, change, check, told) == current_number(prefix) == 7
    assert rounds == [True, True, True, True, False]
    assert [text for text in told.said if "became current meanwhile" in text] == [
        f"generation {number} became current meanwhile: the change is put on it" for number in (1, 2, 1, 2)
    ]


@pytest.mark.parametrize("verb", ["publish", "rollback"])
def test_what_another_host_made_current_under_a_lock_that_it_had_too_is_built_upon(
    site: Site, verb: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Locks stay on each client, and this run was taken for dead: between its look at `current` and its flip another publish is through."""
    prefix = Prefix(site.prefix)
    for number in (1, 2):
        assert publish_it(site, NOTHING, nothing) == number
    real = generations.flip

    def late(*args: Any, **more: Any) -> int:
        monkeypatch.setattr(generations, "flip", real)
        monkeypatch.setattr(locks, "_try_lock", lambda *_: True)
        locks.mark_of(prefix.publish_lock).unlink()
        assert publish_it(site, NOTHING, nothing) in (3, 4)
        monkeypatch.undo()
        return real(*args, **more)

    monkeypatch.setattr(generations, "flip", late)
    if verb == "publish":
        assert publish_it(site, NOTHING, nothing) == 5
    else:
        rollback(1, prefix, Runner(), SilentReporter(), signer=None)
    rows = [read_flip(prefix, sequence).record for sequence in sequences(prefix)]
    assert [row.before for row in rows] == [None, *(row.generation for row in rows[:-1])]
    assert current_number(prefix) == rows[-1].generation == (5 if verb == "publish" else 1)
    if verb == "publish":
        assert read_record(prefix, 5).parent == 4
        assert (prefix.generation(3) / ABANDONED).exists()
