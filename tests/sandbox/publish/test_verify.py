"""`envmgr verify`: every kind of damage is found, and named with its path; what is healthy is silent; what can be mended is."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from envmgr.store.manifest import read_manifest, unmasked_tree
from envmgr.store.tree import tree_digest
from envmgr.system.files import remove_tree, sha256_bytes
from tests.helpers.sandbox import Sandbox
from tests.helpers.scenes import HELLO, RUNS, data, forget_manifests, locked
from tests.helpers.standin.channel import Channel

GENERATION = "generations/0002"
MODULE = f"{GENERATION}/modules/hello/1.0.lua"
RECORD = f"{GENERATION}/generation.json"


@dataclass
class Published:
    """Generation 2 of two entries. `saved` is the prefix as it was published."""

    box: Sandbox
    saved: Path

    def restore(self) -> None:
        remove_tree(self.box.prefix)
        subprocess.run(["cp", "-a", self.saved, self.box.prefix], check=True)

    def path(self, name: str) -> Path:
        """A path below the prefix; `install` in front stands for that of hello/1.0."""
        if not name.startswith("install"):
            return self.box.prefix / name
        (found,) = (p for p in (self.box.prefix / "store/hello").iterdir() if not p.name.endswith(".manifest.json"))
        return Path(name.replace("install", str(found), 1))

    @property
    def manifest(self) -> Path:
        (found,) = (self.box.prefix / "store/hello").glob("*.manifest.json")
        return found

    def open(self, path: Path) -> Path:
        """The path, in a folder that can be written."""
        path.parent.chmod(0o755)
        if path.is_file() and not path.is_symlink():
            path.chmod(0o644)
        return path

    def close(self, path: Path, mode: int = 0o444) -> None:
        if path.is_file() and not path.is_symlink():
            path.chmod(mode)
        path.parent.chmod(0o555)

    def edit(self, name: str, text: str = "-- edited\n", mode: int = 0o444) -> None:
        path = self.open(self.path(name))
        path.write_text(path.read_text() + text)
        self.close(path, mode)

    def add(self, name: str) -> None:
        path = self.path(name)
        path.parent.chmod(0o755)
        path.write_text("x")
        self.close(path)

    def drop(self, name: str) -> None:
        path = self.open(self.path(name))
        path.unlink()
        path.parent.chmod(0o555)

    def change_json(self, path: Path, change: Callable[[dict[str, Any]], object]) -> None:
        below = path.parent.name.isdigit()
        self.open(path)
        content = json.loads(path.read_text())
        change(content)
        path.write_text(json.dumps(content))
        path.chmod(0o444)
        if below:
            path.parent.chmod(0o555)


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory, channel: Channel) -> Iterator[Published]:
    root = tmp_path_factory.mktemp("verify")
    box = Sandbox(root, str(channel.folder))
    box.write_site()
    locked(box, "hello/1.0", HELLO, tests=RUNS)
    locked(box, "other/1.0", ["hello-activate"])
    box.ok("build", "hello/1.0")
    box.ok("build", "other/1.0")
    saved = root / "saved"
    subprocess.run(["cp", "-a", box.prefix, saved], check=True)
    yield Published(box, saved)
    remove_tree(saved)
    box.clear()


@pytest.fixture
def published(scene: Published) -> Iterator[Published]:
    scene.restore()
    yield scene
    scene.restore()


def findings(published: Published, *argv: str) -> list[tuple[str, str, str]]:
    done = published.box.run("verify", *argv, "--format", "json")
    found = [(f["check"], f["where"], f["found"]) for f in done.data["findings"]]
    assert done.code == (1 if found else 0), done.stderr
    return found


def drop_row(published: Published) -> None:
    """A file with its row: the manifest and the tree agree."""
    path = published.path("install/bin/hello-prefix")
    published.open(path).unlink()
    path.parent.chmod(0o555)

    def change(content: dict[str, Any]) -> None:
        content["paths"] = [row for row in content["paths"] if row[0] != "bin/hello-prefix"]

    published.change_json(published.manifest, change)


def swap(published: Published, by: Callable[[Path, Path], object]) -> None:
    install = published.path("install")
    aside = published.box.prefix / "aside"
    install.rename(aside)
    by(install, aside)


def as_pipe(path: Path) -> None:
    path.parent.chmod(0o755)
    path.unlink(missing_ok=True)
    os.mkfifo(path, 0o444)
    path.parent.chmod(0o555)


def relink(current: Path, target: str) -> None:
    current.unlink()
    current.symlink_to(target)


def make_folder(current: Path) -> None:
    current.unlink()
    current.mkdir()


DAMAGES: dict[str, tuple[Callable[[Published], object], list[tuple[str, str, str]]]] = {
    "module-edited": (lambda p: p.edit(MODULE), [("generation", MODULE, "sha256 changed")]),
    "module-added": (
        lambda p: p.add(f"{GENERATION}/modules/hello/2.0.lua"),
        [("generation", f"{GENERATION}/modules/hello/2.0.lua", "not in the generation's record")],
    ),
    "module-missing": (lambda p: p.drop(MODULE), [("generation", MODULE, "missing")]),
    "module-writable": (lambda p: p.path(MODULE).chmod(0o666), [("generation", MODULE, "mode changed to 0666")]),
    "module-is-a-pipe": (lambda p: as_pipe(p.path(MODULE)), [("generation", MODULE, "a pipe, where a file was")]),
    "modules-folder-writable": (
        lambda p: p.path(f"{GENERATION}/modules/hello").chmod(0o777),
        [("generation", f"{GENERATION}/modules/hello", "mode changed to 0777")],
    ),
    "generation-writable": (
        lambda p: p.path(GENERATION).chmod(0o777),
        [("generation", GENERATION, "mode changed to 0777")],
    ),
    "rc-file-edited": (
        lambda p: p.edit(f"{GENERATION}/lmodrc.lua"),
        [("generation", f"{GENERATION}/lmodrc.lua", "sha256 changed")],
    ),
    "cache-edited": (
        lambda p: p.edit(f"{GENERATION}/spider/spiderT.lua"),
        [("generation", f"{GENERATION}/spider/spiderT.lua", "sha256 changed")],
    ),
    "specs-edited": (
        lambda p: p.edit(f"{GENERATION}/modules.json", " "),
        [("generation", f"{GENERATION}/modules.json", "sha256 changed")],
    ),
    "record-edited": (
        lambda p: p.change_json(p.path(RECORD), lambda content: content.update(user="nobody")),
        [("generation", RECORD, "sha256 changed, by what its publish wrote into the history")],
    ),
    "record-cut": (
        lambda p: p.open(p.path(RECORD)).write_text("{") and p.close(p.path(RECORD)),
        [
            ("generation", RECORD, "sha256 changed, by what its publish wrote into the history"),
            ("generation", RECORD, "cannot be read"),
        ],
    ),
    "record-of-a-later-format": (
        lambda p: p.change_json(p.path(RECORD), lambda content: content.update(schema_version=2)),
        [
            ("generation", RECORD, "sha256 changed, by what its publish wrote into the history"),
            ("generation", RECORD, f"ROOT/prefix/{RECORD} has format 2, and this envmgr knows format 1"),
        ],
    ),
    "current-dangles": (
        lambda p: relink(p.path("current"), "generations/0009"),
        [("current", "current", "names no complete generation: it points to generations/0009")],
    ),
    "current-is-a-folder": (
        lambda p: make_folder(p.path("current")),
        [("current", "current", "is not a link: it is a folder")],
    ),
    "current-is-gone": (
        lambda p: p.path("current").unlink(),
        [("current", "current", "missing, though there are generations")],
    ),
    "install-edited": (
        lambda p: p.edit("install/bin/hello-prefix", "# x\n", 0o555),
        [("install", "hello/1.0", "bin/hello-prefix: size, sha256 changed")],
    ),
    "install-file-added": (
        lambda p: p.add("install/bin/more"),
        [("install", "hello/1.0", "bin/more: not in the manifest")],
    ),
    "install-file-missing": (
        lambda p: p.drop("install/bin/hello-prefix"),
        [("install", "hello/1.0", "bin/hello-prefix: missing")],
    ),
    "install-root-writable": (
        lambda p: p.path("install").chmod(0o777),
        [("install", "hello/1.0", ".: mode changed to 0777")],
    ),
    "install-is-a-link": (
        lambda p: swap(p, lambda install, aside: install.symlink_to(aside)),
        [("install", "hello/1.0", ".: a link to ROOT/prefix/aside, where the install's folder was")],
    ),
    "install-is-a-file": (
        lambda p: swap(p, lambda install, _: install.write_text("x")),
        [("install", "hello/1.0", ".: no folder, where the install's folder was")],
    ),
    "install-is-gone": (
        lambda p: swap(p, lambda *_: None),
        [("install", "hello/1.0", "ROOT/prefix/store/hello/1.0-DIGEST is missing")],
    ),
    "install-file-is-a-pipe": (
        lambda p: as_pipe(p.path("install/bin/hello-prefix")),
        [("install", "hello/1.0", "bin/hello-prefix: kind, mode, size, sha256 changed")],
    ),
    "install-pipe-added": (
        lambda p: as_pipe(p.path("install/bin/pipe")),
        [("install", "hello/1.0", "bin/pipe: not in the manifest")],
    ),
    "row-and-file-missing": (
        drop_row,
        [
            ("install", "hello/1.0", "1.0-DIGEST.manifest.json: sha256 changed, by what the generation's record says"),
            ("install", "hello/1.0", "1.0-DIGEST.manifest.json: its rows changed: they do not have its tree digest"),
        ],
    ),
    "manifest-says-other-facts": (
        lambda p: p.change_json(p.manifest, lambda content: content["facts"].update(python="2.7")),
        [("install", "hello/1.0", "1.0-DIGEST.manifest.json: sha256 changed, by what the generation's record says")],
    ),
    "manifest-is-gone": (
        lambda p: p.manifest.unlink(),
        [("install", "hello/1.0", "ROOT/prefix/store/hello/1.0-DIGEST.manifest.json is missing")],
    ),
    "manifest-of-a-later-format": (
        lambda p: p.change_json(p.manifest, lambda content: content.update(schema=2)),
        [
            (
                "install",
                "hello/1.0",
                "ROOT/prefix/store/hello/1.0-DIGEST.manifest.json has format 2, and this envmgr knows format 1",
            )
        ],
    ),
}


def plainly(published: Published, rows: list[tuple[str, str, str]]) -> list[tuple[str, str, str]]:
    def plain(text: str) -> str:
        return re.sub(r"(?<=-)[0-9a-f]{8}(?![0-9a-f])", "DIGEST", text.replace(str(published.box.root), "ROOT"))

    return [(check, plain(where), plain(found)) for check, where, found in rows]


@pytest.mark.parametrize("damage", DAMAGES)
def test_damage_is_found_and_named(published: Published, damage: str) -> None:
    act, expected = DAMAGES[damage]
    act(published)
    found = plainly(published, findings(published))
    assert [row for row in found if row in expected] == expected, found
    assert {row[:2] for row in found} == {row[:2] for row in expected}, "and nothing else is blamed"


def test_healthy_prefix_is_silent(published: Published) -> None:
    assert findings(published) == findings(published, "--all") == findings(published, "hello/1.0") == []
    assert published.box.ok("verify", "--all").stdout == (
        "2 generations verified, 0 differ from their record\n2 installs verified, 0 differ from their manifest\n"
    )
    said = data(published.box, "verify", "--generation", "1")
    assert (said["generations"], said["checked"], said["not_looked_at"]) == ([1], ["hello/1.0"], [])


def test_old_generation_is_looked_at_when_it_is_named(published: Published) -> None:
    module = "generations/0001/modules/hello/1.0.lua"
    published.edit(module)
    assert findings(published) == []
    expected = [("generation", module, "sha256 changed")]
    said = published.box.run("verify", "--all").stdout
    assert "find the cause; for a rollback choose another one, until `envmgr gc` removes this one" in said
    assert findings(published, "--generation", "1") == findings(published, "--all") == expected


def test_old_generation_without_its_record_is_among_all(published: Published) -> None:
    published.drop("generations/0001/generation.json")
    assert ("generation", "generations/0001/generation.json", "missing") in findings(published, "--all")
    assert findings(published) == []


def test_install_that_is_built_again_by_hand_is_named_by_the_next_generation(published: Published) -> None:
    before = published.manifest.read_bytes()
    published.manifest.unlink()
    built = data(published.box, "build", "hello/1.0")
    assert (built["built"], built["generation"]) == (["hello/1.0"], 3)
    assert published.manifest.read_bytes() != before, "another time"
    assert findings(published, "--all") == []


def test_publish_does_not_make_a_changed_manifest_right(published: Published) -> None:
    """What another entry is built and published for."""
    published.change_json(published.manifest, lambda content: content["facts"].update(python="2.7"))
    expected = findings(published)
    assert len(expected) == 1
    locked(published.box, "more/1.0", HELLO)
    try:
        published.box.ok("build", "more/1.0")
        assert (published.box.current(), findings(published)) == (3, expected)
    finally:
        shutil.rmtree(published.box.root / "recipes/more")


def test_install_that_no_generation_names_is_among_all(published: Published) -> None:
    install, manifest = published.path("install"), published.manifest
    other = install.with_name("9.9-" + install.name[-8:])
    subprocess.run(["cp", "-a", install, other], check=True)
    shutil.copy2(manifest, manifest.with_name(f"{other.name}.manifest.json"))
    other.chmod(0o777)
    assert findings(published) == []
    assert findings(published, "--all") == [("install", f"store/hello/{other.name}", ".: mode changed to 0777")]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
@pytest.mark.parametrize(
    ("name", "check", "where", "found"),
    [
        ("install", "install", "hello/1.0", ".: belongs to nobody, not to root"),
        ("install/bin/hello-prefix", "install", "hello/1.0", "bin/hello-prefix: belongs to nobody, not to root"),
        (MODULE, "generation", MODULE, "belongs to nobody, unlike the generation's folder"),
        (GENERATION, "generation", GENERATION, "belongs to nobody"),
    ],
)
def test_owner_is_looked_at(published: Published, name: str, check: str, where: str, found: str) -> None:
    os.lchown(published.path(name), 65534, 65534)
    assert (check, where, found) in findings(published)


def test_what_cannot_be_asked_together_is_told(published: Published) -> None:
    for argv in (["--all", "hello/1.0"], ["--all", "--generation", "1"], ["--via", "ssh"]):
        done = published.box.run("verify", *argv)
        assert (done.code, done.stderr.partition("]")[0]) in {(2, "error[verify-all"), (2, "error[verify-options")}
    done = published.box.run("verify", "--generation", "7")
    assert (done.code, done.stderr.splitlines()[0]) == (3, "error[no-generation]: there is no generation 7")


# -- what makes it right ------------------------------------------------------------------------------------------------


def again(published: Published, *argv: str) -> dict[str, Any]:
    """What `build --again hello/1.0` says, which the finding names."""
    return data(published.box, "build", "--again", "hello/1.0", *argv)


@pytest.mark.parametrize(
    "damage",
    ["install-edited", "install-root-writable", "install-is-a-link", "install-is-gone", "install-file-is-a-pipe"],
)
def test_damaged_install_is_made_again_in_its_place(published: Published, damage: str) -> None:
    box = published.box
    manifest = published.manifest.read_bytes()
    path = f"store/hello/{published.manifest.name.removesuffix('.manifest.json')}"
    DAMAGES[damage][0](published)
    assert (
        "hint: an install never changes: find the cause; `envmgr build --again hello/1.0` makes it again, in its place"
        in box.run("verify").stdout.splitlines()
    )
    (dry,) = again(published, "--dry-run")["installs"]
    assert (dry["path"], len(dry["damage"]), dry["outcome"]) == (path, 1, None)
    assert findings(published) != []
    done = again(published)
    assert done["installs"] == [{**dry, "outcome": "replaced"}]
    assert done["generation"] is None
    assert published.manifest.read_bytes() == manifest
    assert box.leftovers() == []
    assert box.shell("module load hello && hello-prefix").returncode == 0
    assert findings(published, "--all") == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
@pytest.mark.parametrize("whole", [True, False])
def test_install_goes_back_to_who_owns_the_prefix(published: Published, whole: bool) -> None:
    paths = [published.path("install"), *published.path("install").rglob("*")] if whole else []
    for path in [*paths, published.manifest]:
        os.lchown(path, 65534, 65534)
    assert plainly(published, findings(published))[0] == (
        "install",
        "hello/1.0",
        "1.0-DIGEST.manifest.json: belongs to nobody",
    )
    again(published)
    assert findings(published, "--all") == []


def test_manifest_of_a_later_format_is_not_written_over(published: Published) -> None:
    DAMAGES["manifest-of-a-later-format"][0](published)
    before = published.manifest.read_bytes()
    done = published.box.run("build", "--again", "hello/1.0")
    assert (done.code, "error[format-unknown]: " in done.stderr) == (3, True)
    assert published.manifest.read_bytes() == before


@pytest.mark.parametrize("argv", [["build", "more/1.0"], ["gc"], ["fetch", "more/1.0"]])
def test_published_install_without_a_manifest_is_no_leftover(published: Published, argv: list[str]) -> None:
    locked(published.box, "more/1.0", ["hello-activate"])
    published.manifest.unlink()
    done = published.box.ok(*argv)
    assert published.box.shell("module load hello && hello-prefix").returncode == 0
    assert (
        f"warning: {published.path('install')} has no manifest, and is published: `envmgr verify` tells what makes it "
        "again" in done.stderr.splitlines()
    )
    again(published)
    assert findings(published, "--all") == []


def test_changed_manifest_is_written_anew_and_published(published: Published) -> None:
    drop_row(published)
    done = again(published)
    assert ([each["outcome"] for each in done["installs"]], done["generation"]) == (["renewed"], 3)
    assert findings(published, "--all") == []
    assert published.box.current() == 3


def test_sound_install_is_compared_and_stays(published: Published) -> None:
    before = published.path("install").stat().st_ino
    done = again(published)
    assert [(each["damage"], each["outcome"], each["other"]) for each in done["installs"]] == [([], "same", [])]
    assert (published.path("install").stat().st_ino, published.box.leftovers()) == (before, [])


def lie(published: Published) -> None:
    """A manifest of another tree, of generations that do not know its sha256."""
    forget_manifests(published.box)
    paths = [
        p._replace(sha256="0" * 64) if p.path == "bin/hello-prefix" else p
        for p in read_manifest(published.manifest).paths
    ]

    def other(content: dict[str, Any]) -> None:
        content["tree"], content["paths"] = tree_digest(paths), [p.row() for p in paths]

    published.change_json(published.manifest, other)


def test_other_bytes_are_listed_and_replace_what_is_damaged(published: Published) -> None:
    lie(published)
    assert findings(published) == [("install", "hello/1.0", "bin/hello-prefix: sha256 changed")]
    done = again(published)
    (made,) = done["installs"]
    assert (made["outcome"], made["other"]) == ("renewed", ["bin/hello-prefix: sha256 changed"])
    assert done["generation"] == 3
    assert findings(published) == []
    assert published.box.leftovers() == []


def test_sound_install_is_never_exchanged_for_other_bytes(published: Published) -> None:
    """Its tree is what its manifest says, and neither is what the lock makes now."""
    lie(published)
    published.edit("install/bin/hello-prefix", "# x\n", 0o555)
    content = published.path("install/bin/hello-prefix").read_bytes()
    made = json.loads(published.manifest.read_text())
    row = next(row for row in made["paths"] if row[0] == "bin/hello-prefix")
    row[3:] = [len(content), sha256_bytes(content)]
    published.change_json(
        published.manifest,
        lambda m: m.update(paths=made["paths"], tree=tree_digest(unmasked_tree(published.path("install")))),
    )
    assert findings(published) == []
    done = published.box.run("build", "--again", "hello/1.0")
    path = published.path("install").relative_to(published.box.prefix)
    assert (done.code, done.stdout.splitlines()[:2]) == (
        1,
        [
            f"{path}: sound, but it has other bytes when it is made again: it stays as it is",
            "  made again: bin/hello-prefix: size, sha256 changed",
        ],
    )
    assert published.path("install/bin/hello-prefix").read_bytes() == content
    assert (published.box.current(), published.box.leftovers()) == (2, [])


def test_what_cannot_be_made_again_is_refused(published: Published) -> None:
    box = published.box
    lock = box.root / "recipes/hello/1.0/conda-lock.yml"
    published.edit("install/bin/hello-prefix", "# x\n", 0o555)
    lock.rename(box.root / "aside.yml")
    try:
        said = box.run("verify").stdout
        done = box.run("build", "--again", "hello/1.0")
    finally:
        (box.root / "aside.yml").rename(lock)
    assert "hint: an install never changes: find the cause; it cannot be made again: hello/1.0 has no lock: " in said
    assert (done.code, done.stderr.partition("]")[0]) == (3, "error[lock-missing")
    for argv in (["--all"], ["hello/1.0", "--no-publish"], ["hello/1.0", "--via", "slurm"]):
        done = box.run("build", "--again", *argv)
        assert (done.code, done.stderr.partition("]")[0]) == (2, "error[build-what")
    assert box.run("build", "--again").stderr.startswith("error[nothing-named]: name the entries to build again\n")
    locked(box, "more/1.0", ["hello-activate"])
    done = box.run("build", "--again", "more/1.0")
    assert (done.code, done.stderr) == (
        3,
        "error[not-built]: more/1.0 is not built\n\nhint: run `envmgr build more/1.0`\n",
    )


def test_another_lock_makes_no_published_install_again(published: Published) -> None:
    box = published.box
    folder, aside = box.root / "recipes/hello/1.0", box.root / "aside"
    shutil.copytree(folder, aside)
    path = published.path("install").relative_to(box.prefix)
    try:
        locked(box, "hello/1.0", ["hello-activate"])
        done = box.run("build", "--again", "hello/1.0")
    finally:
        shutil.rmtree(folder)
        aside.rename(folder)
    assert done.stderr.startswith(
        "error[again-impossible]: hello/1.0 cannot be built again: the lock in the catalog is not the one that it was "
        f"built from\n  published   {path}\n  the catalog store/hello/1.0-"
    )
    assert done.stderr.endswith(
        "\nhint: bring back the recipe and the lock that it was built from; or `envmgr build hello/1.0` publishes it as it "
        "is now\n"
    )


@pytest.mark.parametrize("damage", ["module-edited", "module-missing", "cache-edited", "rc-file-edited"])
def test_damaged_generation_is_published_as_a_new_one(published: Published, damage: str) -> None:
    box = published.box
    DAMAGES[damage][0](published)
    assert (
        "hint: a generation never changes: find the cause; `envmgr publish` publishes the same entries as a new "
        "generation" in box.run("verify").stdout.splitlines()
    )
    assert data(box, "publish", "--dry-run")["rerender"] is True
    done = box.run("publish")
    assert "generation 2 is damaged: the same entries are published again" in done.stderr.splitlines()
    assert (findings(published), box.current()) == ([], 3)
    before, after = (
        json.loads((published.saved / RECORD).read_text())["entries"],
        json.loads((box.prefix / "generations/0003/generation.json").read_text())["entries"],
    )
    assert before == after
    box.ok("test")
    assert {row[1].split("/")[1] for row in findings(published, "--all")} == {"0002"}


@pytest.mark.parametrize("damage", ["specs-edited", "record-edited"])
def test_generation_of_which_it_is_not_known_what_it_held_is_left_by_a_rollback(
    published: Published, damage: str
) -> None:
    box = published.box
    DAMAGES[damage][0](published)
    assert (
        "hint: what it held is not known: `envmgr rollback 1`, the newest generation that is whole; then `envmgr "
        "publish` adds what is built and not in it" in box.run("verify").stdout.splitlines()
    )
    box.ok("rollback", "1")
    box.ok("publish")
    assert (findings(published), box.current()) == ([], 3)
    box.ok("test")


@pytest.mark.parametrize("damage", ["current-dangles", "current-is-gone"])
def test_lost_current_is_made_right_by_a_rollback(published: Published, damage: str) -> None:
    DAMAGES[damage][0](published)
    assert "hint: `envmgr rollback 2`, " in published.box.run("verify").stdout
    published.box.ok("rollback", "2")
    assert (findings(published), published.box.current()) == ([], 2)


# -- what a damaged or newer file harms ---------------------------------------------------------------------------------

OLD = "generations/0001/generation.json"
HARMS: dict[str, Callable[[Published], object]] = {
    "cut": lambda p: p.open(p.path(OLD)).write_text('{"number": 1'),
    "list": lambda p: p.open(p.path(OLD)).write_text("[]"),
    "not-text": lambda p: p.open(p.path(OLD)).write_bytes(b"\xff\x00"),
    "deep": lambda p: p.open(p.path(OLD)).write_text("[" * 100_000),
    "later-format": lambda p: p.change_json(p.path(OLD), lambda content: content.update(schema_version=2)),
    "unknown-field": lambda p: p.change_json(p.path(OLD), lambda content: content.update(more=1)),
}


@pytest.mark.parametrize("harm", HARMS)
def test_damaged_old_record_harms_only_itself(published: Published, harm: str) -> None:
    box = published.box
    HARMS[harm](published)
    assert findings(published) == []
    assert {row[1] for row in findings(published, "--all")} == {OLD, "generations/0001"} - (
        {"generations/0001"} if harm in ("later-format", "unknown-field") else set()
    )
    states = {e["entry"]: e["state"] for e in data(box, "list")["entries"]}
    assert states["hello/1.0"] == states["other/1.0"] == "published"
    rows = {row["number"]: row["damaged"] for row in data(box, "history")["generations"]}
    assert rows[2] == ""
    assert str(published.path(OLD)) in rows[1]
    assert "cannot be read" in box.ok("history").stdout or harm == "later-format"
    done = box.run("rollback", "1")
    word = "format-unknown" if harm == "later-format" else "generation-damaged"
    assert (done.code, done.stderr.partition("]")[0]) == (3, f"error[{word}")
    box.ok("rollback", "2")
    box.ok("list", "hello/1.0")
    box.ok("publish", "--remove", "other/1.0")
    assert data(box, "gc", "--dry-run")["installs"] == []
    box.policies |= {"keep_days": 0, "keep_generations": 1}
    box.write_site()
    try:
        gone = data(box, "gc")
    finally:
        box.policies |= {"keep_days": 30, "keep_generations": 5}
        box.write_site()
    assert gone["generations"] == [1, 2]
    assert [path.split("/")[1] for path in gone["installs"]] == ["other"]
    box.ok("test")


def test_installs_of_a_kept_generation_with_a_damaged_record_stay(published: Published) -> None:
    box = published.box
    box.ok("publish", "--remove", "hello/1.0")
    published.open(published.path(RECORD)).write_text("{")
    box.policies |= {"keep_days": 0, "keep_generations": 2}
    box.write_site()
    try:
        gone = data(box, "gc")
    finally:
        box.policies |= {"keep_days": 30, "keep_generations": 5}
        box.write_site()
    assert (gone["generations"], gone["installs"]) == ([1], [])


@pytest.mark.parametrize("name", ["record", "manifest", "history"])
def test_later_formats_are_refused_by_name(published: Published, name: str) -> None:
    box = published.box
    (manifest,) = (box.prefix / "store/other").glob("*.manifest.json")
    history = published.path("var/history.jsonl")
    if name == "history":
        path, argv = history, ["history"]
        path.write_text(path.read_text() + json.dumps({"to": 2, "schema": 2, "time": "", "reason": ""}) + "\n")
    elif name == "manifest":
        path, argv = manifest, ["publish", "other/1.0"]
        box.ok("rollback", "1")
        published.change_json(path, lambda content: content.update(schema=2))
    else:
        path, argv = published.path(RECORD), ["list"]
        published.change_json(path, lambda content: content.update(schema_version=2))
    done = box.run(*argv)
    assert (done.code, done.stderr.splitlines()[0]) == (
        3,
        f"error[format-unknown]: {path} has format 2, and this envmgr knows format 1",
    )


def test_nothing_is_made_again_where_nothing_was_built(sandbox: Sandbox) -> None:
    locked(sandbox, "hello/1.0", ["hello-prefix"])
    told = "error[not-built]: hello/1.0 is not built\n\nhint: run `envmgr build hello/1.0`\n"
    assert sandbox.run("build", "--again", "hello/1.0").stderr == told
    assert "error[unknown-entry]: " in sandbox.run("build", "--again", "nosuch/1.0").stderr
