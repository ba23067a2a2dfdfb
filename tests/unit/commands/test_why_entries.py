"""What `why` says of an entry, by the records of two generations and the manifests of installs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from envmgr.catalog.locks import LockChange
from envmgr.commands.why_changes import Tree, WhyChange, default_change, entry_change, tree_of
from envmgr.modules.spec import ModuleSpec
from envmgr.publish.records import GenerationRecord, PublishedEntry
from envmgr.store.manifest import InstallFacts, Manifest, write_manifest
from envmgr.store.prefix import Prefix

A, B = "a" * 64, "b" * 64
REMOVED = "which of its packages changed is not known: the earlier install was removed"


@pytest.fixture
def prefix(tmp_path: Path) -> Prefix:
    return Prefix(tmp_path)


def install(prefix: Prefix, label: str, needs: tuple[str, ...] = (), **packages: str) -> None:
    path = prefix.store / f"{label}.manifest.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    facts = InstallFacts(needs=needs)
    write_manifest(path, Manifest(label[-8:] * 8, "t", 0o022, facts, {"packages": packages}, ()))


def tree(prefix: Prefix, number: int, **entries: dict[str, Any]) -> Tree:
    """A generation of entries `name_1` -> fields of their specs; `needs` are of the record."""
    specs, rows = {}, {}
    for key, given in entries.items():
        name, _, version = key.partition("_")
        fields = {"digest": A, **given}
        needs = fields.pop("needs", ())
        spec = ModuleSpec(name=name, version=version, root="/r", description="", **fields)
        specs[spec.entry] = {"spec": spec.model_dump(mode="json"), "facts": {}}
        path = f"store/{spec.entry}-{spec.digest[:8]}"
        rows[spec.entry] = PublishedEntry(digest=spec.digest, path=path, lock="l", fingerprint="f", needs=needs)
    record = GenerationRecord(
        number=number,
        parent=None,
        created="2026-01-01T00:00:00Z",
        user="u",
        host="h",
        reason="",
        tools={},
        render="r",
        entries=rows,
        files={},
        manifests={},
    )
    folder = prefix.generation(number)
    folder.mkdir(parents=True)
    (folder / "generation.json").write_text(record.model_dump_json())
    (folder / "modules.json").write_text(json.dumps(specs))
    found = tree_of(prefix, number)
    assert found is not None
    return found


def test_packages_of_the_entry_and_of_what_it_stands_on_are_compared(prefix: Prefix) -> None:
    install(prefix, f"app/1-{A[:8]}", app="1")
    install(prefix, f"app/1-{B[:8]}", app="1")
    install(prefix, "python/3-11111111", python="3.11 0")
    install(prefix, "python/3-22222222", python="3.12 0", pip="24")
    then = tree(prefix, 1, app_1={"needs": ("store/python/3-11111111",)})
    now = tree(prefix, 2, app_1={"digest": B, "needs": ("store/python/3-22222222",)})
    rows = (LockChange("pip", "", "24"), LockChange("python", "3.11 0", "3.12 0"))
    assert entry_change("app/1", "", then, now) == WhyChange("install", "app/1", A[:8], B[:8], rows)
    assert entry_change("app/1", "", then, then) is None


def test_of_a_generation_that_is_gone_the_digest_of_the_log_is_left(prefix: Prefix) -> None:
    install(prefix, f"app/1-{B[:8]}", app="2")
    now = tree(prefix, 2, app_1={"digest": B})
    assert entry_change("app/1", A[:8], None, now) == WhyChange("install", "app/1", A[:8], B[:8], note=REMOVED)
    assert entry_change("app/1", B[:8], None, now) is None
    assert entry_change("app/1", "", None, now) is None  # nothing is known of it: nothing is said
    install(prefix, f"app/1-{A[:8]}", needs=("store/lib/1-33333333",), app="1")
    install(prefix, "lib/1-33333333", lib="1")
    rows = (LockChange("app", "1", "2"), LockChange("lib", "1", ""))
    assert entry_change("app/1", A[:8], None, now) == WhyChange("install", "app/1", A[:8], B[:8], rows)


def test_rebuild_of_the_same_versions_is_said_as_such(prefix: Prefix) -> None:
    for digest in (A, B):
        install(prefix, f"app/1-{digest[:8]}", app="1")
    then, now = tree(prefix, 1, app_1={}), tree(prefix, 2, app_1={"digest": B})
    change = entry_change("app/1", "", then, now)
    assert change == WhyChange("install", "app/1", A[:8], B[:8], note="its packages have the same versions")


def test_entry_that_is_gone_says_what_its_author_said_or_what_is_left(prefix: Prefix) -> None:
    left = {"message": "use app/2", "date": "2026-06-01"}
    then = tree(prefix, 1, app_1={"deprecated": left}, tool_1={}, lone_1={})
    now = tree(prefix, 2, app_2={}, tool_2={})
    notes = {name: getattr(entry_change(name, "", then, now), "note", None) for name in ("app/1", "tool/1", "lone/1")}
    assert notes == {"app/1": "use app/2", "tool/1": "there is tool/2", "lone/1": ""}


def test_module_counts_by_what_a_program_feels(prefix: Prefix) -> None:
    op = {"kind": "set", "name": "THREADS", "value": "1"}
    then = tree(prefix, 1, app_1={"environment": [op]}, mpi_4={}, felt_1={})
    now = tree(
        prefix, 2, app_1={"environment": [{**op, "value": "2"}], "depends": ("mpi/4",)}, mpi_4={"homepage": "new"}, felt_1={"conflicts": ("x",)}
    )  # fmt: skip
    note = "THREADS: set 1 -> set 2; loads mpi/4"
    assert entry_change("app/1", "", then, now) == WhyChange("module", "app/1", "", "", note=note)
    assert entry_change("mpi/4", "", then, now) is None
    assert entry_change("felt/1", "", then, now) == WhyChange("module", "felt/1", "", "", note="conflicts")
    assert now.loaded_with("app/1") == ["app/1", "mpi/4"]


def test_default_is_the_one_that_says_so_or_the_highest_that_is_seen(prefix: Prefix) -> None:
    then = tree(prefix, 1, **{"app_2.9": {}, "app_2.10": {"hidden": True}, "kit_1": {"default": True}, "kit_2": {}})
    now = tree(prefix, 2, **{"app_2.9": {}, "app_2.10": {}, "kit_1": {"default": True}, "kit_3": {}, "new_1": {}})
    assert default_change("app", then, now) == WhyChange("default", "app", "app/2.9", "app/2.10")
    assert [default_change(name, then, now) for name in ("kit", "new", "none")] == [None, None, None]
