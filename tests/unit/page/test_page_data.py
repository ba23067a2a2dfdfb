"""The page's data: what an entry says, since when it is there, and what each generation changed."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from envmgr.page.model import EntryChange, GpuCode, PageGeneration, PagePackageChange, PageTest, Since
from tests.helpers.page_scene import PageScene, rich


@pytest.fixture
def scene(tmp_path: Path) -> PageScene:
    return PageScene(tmp_path)


def test_an_entry_says_what_it_is_and_what_is_inside(scene: PageScene) -> None:
    contents = rich(scene)
    catalog, locks = scene.catalog(contents)
    found = {each.entry: each for each in catalog.entries}
    torch = found["torch/2.1"]
    assert (torch.depends, found["python/3.11"].dependents) == (("python/3.11",), ("torch/2.1",))
    assert torch.gpu == GpuCode(
        cuda="12.1", codes=("8.0", "9.0+PTX"), runs_from="525.60.13", compiles_from="530", compat=""
    )
    assert torch.tests == (PageTest(name="trains", needs=("gpu", "slurm"), nodes=2),)
    assert (torch.families, found["python/3.11"].families) == (("accel",), ("python",))
    assert (found["python/3.11"].default, found["python/3.10"].default, found["python/3.10"].hidden) == (
        True,
        False,
        True,
    )
    assert str(found["python/3.10"].deprecated.until) == "2027-03-01"  # type: ignore[union-attr]
    assert torch.parts == contents.entries["torch/2.1"].paths
    own = catalog.parts[torch.parts[0]]
    assert (own.packages, own.backend, own.locks) == ({"numpy": "1.26.4 py311", "torch": "2.1.0"}, "conda", ())
    label = torch.parts[1].removeprefix("store/")
    assert catalog.parts[torch.parts[1]].locks == (f"locks/{label}/conda-lock.yml",)
    assert locks == {f"locks/{label}/conda-lock.yml": b"lock of python\n"}
    assert torch.load == "module load torch/2.1"
    assert torch.job.startswith("#!/bin/bash\n")


@pytest.mark.parametrize("text", ["", "{", '{"schema": 1}', '{"schema": 1, "provenance": {"packages": {"a": 1}}, "paths": [\n]}', '{"schema": 1, "provenance": {"packages": {"a": "\\ud800"}}, "paths": [\n]}', '{"schema": 9}'])  # fmt: skip
def test_of_a_damaged_manifest_nothing_is_known(scene: PageScene, text: str) -> None:
    contents = rich(scene)
    path = contents.entries["torch/2.1"].path
    manifest = scene.prefix.install_at(path).manifest
    manifest.chmod(0o644)
    manifest.write_text(text)
    part = scene.catalog(contents)[0].parts[path]
    assert (part.entry, part.packages, part.locks) == ("torch/2.1", None, ())
    assert f"What is inside of {path} is not known" in scene.rendered(contents)["index.html"]


def test_names_of_locks_stay_in_their_folder(scene: PageScene) -> None:
    lock = {"../../escape": "x", "/etc/x": "x", ".hidden": "x", "a/b": "x", "good.yml": "x", "odd\n": "x"}
    path = scene.install("a/1", {}, lock)
    assert [*scene.catalog(scene.contents(1, None, {"a/1": (path,)}))[1]] == [
        f"locks/{path.removeprefix('store/')}/good.yml"
    ]


def test_since_and_news_go_on_where_earlier_generations_are_gone(scene: PageScene) -> None:
    old, new, other = (scene.install("a/1", {"x": version, "y": "1"}) for version in ("1", "2", "3"))
    fields = {name: {"packages": {"x": version, "y": "1"}} for name, version in (("one", "1"), ("two", "2"))}
    scene.keep(scene.contents(1, None, {"a/1": (old,)}, a_1=fields["one"]))
    second = scene.keep(scene.contents(2, 1, {"a/1": (new,), "b/1": (other,)}, a_1=fields["two"]))
    assert [(each.number, each.added, each.removed, each.changed) for each in second.news] == [
        (2, ("b/1",), (), (EntryChange(entry="a/1", change="install", packages=(PagePackageChange(name="x", old="1", new="2"),)),)),
        (1, ("a/1",), (), ()),
    ]  # fmt: skip
    shutil.rmtree(scene.prefix.generation(1))  # by gc: the page of 2 still knows
    third = scene.keep(scene.contents(3, 2, {"a/1": (new,)}, a_1=fields["two"]))
    assert [each.number for each in third.news] == [3, 2, 1]
    assert third.news[0].removed == ("b/1",)
    assert third.entries[0].since == Since(generation=1, created="2026-11-01T10:00:00Z")


def test_without_earlier_pages_the_records_say_since_when(scene: PageScene) -> None:
    path = scene.install("a/1", {"x": "1"})
    scene.keep(scene.contents(1, None, {"a/1": (path,)}), page=False)
    scene.keep(scene.contents(2, 1, {"a/1": (path,), "b/1": (path,)}), page=False)
    third = scene.keep(scene.contents(3, 2, {"a/1": (path,), "b/1": (path,)}), page=False)
    assert {each.entry: each.since.generation for each in third.entries} == {"a/1": 1, "b/1": 2}
    shutil.rmtree(scene.prefix.generation(1))
    fourth = scene.catalog(scene.contents(4, 3, {"a/1": (path,), "c/1": (path,)}))[0]
    assert {each.entry: (each.since.generation, each.since.or_earlier) for each in fourth.entries} == {"a/1": (2, True), "c/1": (4, False)}  # fmt: skip
    assert [(each.number, each.compared) for each in fourth.news] == [(4, True), (3, True), (2, False)]


@pytest.mark.parametrize(
    "text", ["", "[]", '{"news": [], "entries": [{}]}', '{"news": [{"number": "x"}], "entries": []}']
)
def test_a_damaged_page_of_the_parent_is_left_aside(scene: PageScene, text: str) -> None:
    path = scene.install("a/1", {"x": "1"})
    scene.keep(scene.contents(1, None, {"a/1": (path,)}))
    (scene.prefix.generation(1) / "www/catalog.json").write_text(text)
    second = scene.catalog(scene.contents(2, 1, {"a/1": (path,)}))[0]
    assert (second.entries[0].since.generation, [each.number for each in second.news]) == (1, [2, 1])


def test_a_module_that_is_written_again_is_no_other_install(scene: PageScene) -> None:
    path = scene.install("a/1", {"x": "1"})
    scene.keep(scene.contents(1, None, {"a/1": (path,)}))
    second = scene.catalog(scene.contents(2, 1, {"a/1": (path,)}, bump={}))[0]
    assert second.news[0].changed == (EntryChange(entry="a/1", change="module"),)


def test_of_many_changed_packages_some_are_named_and_all_are_counted(scene: PageScene) -> None:
    paths = [scene.install("a/1", {"x": str(n)}) for n in range(2)]
    fields = [{"packages": {f"p{i:03}": str(n) for i in range(50)}} for n in range(2)]
    scene.keep(scene.contents(1, None, {"a/1": (paths[0],)}, a_1=fields[0]))
    changed = scene.catalog(scene.contents(2, 1, {"a/1": (paths[1],)}, a_1=fields[1]))[0].news[0].changed[0]
    assert (len(changed.packages), changed.more) == (20, 30)


def test_catalog_json_is_read_by_its_model_and_is_the_same_twice(scene: PageScene) -> None:
    contents = rich(scene)
    first = scene.rendered(contents)
    assert first == scene.rendered(contents)
    assert PageGeneration.model_validate_json(first["catalog.json"]) == scene.catalog(contents)[0]
