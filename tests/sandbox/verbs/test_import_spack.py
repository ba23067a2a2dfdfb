"""`envmgr import` of what a real Spack wrote: its database and its lock, and what the two do not share."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.sandbox import Sandbox
from tests.helpers.spack_tree import HASH, make_spack_tree, recorded, write_database
from tests.helpers.vendor_tree import make_tree


@pytest.fixture
def tree(sandbox: Sandbox) -> Path:
    make_spack_tree(sandbox.root / "spack")
    return sandbox.root / "spack"


def imported(box: Sandbox, *argv: str | Path) -> dict[str, Any]:
    return box.ok("import", *map(str, argv), "--format", "json").data


@pytest.mark.always
def test_tree_becomes_entries_that_are_published_as_any_other(sandbox: Sandbox, tree: Path) -> None:
    data = imported(sandbox, tree)
    assert [(each["entry"], each["backend"]) for each in data["entries"]] == [("bzip2/1.0.8", "existing")]
    sandbox.ok("lock", "bzip2/1.0.8")
    sandbox.ok("build", "bzip2/1.0.8")
    folder = tree / "bzip2/1.0.8-arnmn6tr"
    assert sandbox.shell("module load bzip2/1.0.8 && command -v hello").stdout == f"{folder}/bin/hello\n"
    (manifest,) = sandbox.prefix.glob("store/bzip2/*.manifest.json")
    (lock,) = json.loads(manifest.read_text())["provenance"]["lock"].values()
    for line in (f"hash: {HASH}", "compiler: gcc@12.2.0", "target: x86_64_v2", "spec: bzip2@1.0.8 %gcc@12.2.0"):
        assert line in lock
    # Spack installs it anew, elsewhere: users keep what they have, and the next lock tells it.
    data = json.loads(recorded("index.json", str(tree)))
    row = data["database"]["installs"].pop(HASH)
    row["path"] += "-new"
    data["database"]["installs"]["b" * 32] = row
    write_database(tree, data)
    assert sandbox.ok("verify").code == 0
    done = sandbox.run("lock", "bzip2/1.0.8")
    assert (done.code, "error[spack-differs]: Spack's arnmn6t" in done.stderr) == (3, True)
    assert "is not in the database any more" in sandbox.run("check", "bzip2/1.0.8").stdout
    assert sandbox.shell("module load bzip2/1.0.8 && hello").stdout == "hello\n"


def test_lock_and_tree_that_differ_are_told(sandbox: Sandbox, tree: Path) -> None:
    env = sandbox.root / "env"
    env.mkdir()
    (env / "spack.lock").write_text(recorded("spack.lock"))
    done = sandbox.run("import", str(env))
    assert (done.code, "hint: name the tree by `--tree FOLDER`" in done.stderr) == (2, True)
    data = imported(sandbox, env, "--tree", tree, "--dry-run")
    assert [each["entry"] for each in data["entries"]] == ["bzip2/1.0.8"]
    assert [row["why"] for row in data["left"]] == [
        f"zlib@1.3.1 arch=None-None-x86_64_v2 is locked, and not installed in {tree}"
    ]
    (env / "spack.yaml").write_text(f"spack:\n  config: {{install_tree: {{root: {tree}}}}}\n")
    assert imported(sandbox, env / "spack.lock", "--dry-run")["entries"] == data["entries"]
    # Another zlib than the one that is locked.
    there = json.loads(recorded("index.json", str(tree)))
    row = json.loads(json.dumps(there["database"]["installs"][HASH]))
    row["spec"] |= {"name": "zlib", "version": "1.3"}
    there["database"]["installs"]["c" * 32] = row
    write_database(tree, there)
    (left,) = imported(sandbox, env, "--dry-run")["left"]
    assert left["why"].endswith("; there is zlib@1.3/ccccccc")
    # They are still told when the catalog has all that can be an entry.
    assert imported(sandbox, env)["differences"] == 1
    done = sandbox.run("import", str(env), "--format", "json")
    exists, differs = done.data["left"]
    assert (done.code, done.data["entries"], exists["text"]) == (1, [], "bzip2/1.0.8")
    assert exists["why"].endswith("exists")
    assert differs == left
    done = sandbox.run("import", str(env))
    assert (done.code, "nothing new" in done.stdout, "zlib@1.3/ccccccc" in done.stdout) == (1, True, True)


def test_lock_of_which_nothing_is_installed_is_a_difference(sandbox: Sandbox, tree: Path) -> None:
    (env := sandbox.root / "env").mkdir()
    lock = json.loads(recorded("spack.lock"))
    lock["roots"] = [row for row in lock["roots"] if row["hash"] != HASH]
    (env / "spack.lock").write_text(json.dumps(lock))
    done = sandbox.run("import", str(env), "--tree", str(tree), "--format", "json")
    assert (done.code, done.data["entries"], done.data["differences"]) == (1, [], 1)


def test_relative_folders_are_those_of_the_working_directory(sandbox: Sandbox, tree: Path) -> None:
    (env := sandbox.root / "env").mkdir()
    (env / "spack.lock").write_text(recorded("spack.lock"))
    for argv in (("env", "--tree", "spack"), ("env/../spack",), ("env", "--tree", "env/../spack"), ("spack",)):
        assert [each["entry"] for each in imported(sandbox, *argv, "--dry-run")["entries"]] == ["bzip2/1.0.8"]
    sandbox.ok("import", "env/../spack")
    assert f"tree: {tree}\n" in (sandbox.root / "recipes/bzip2/1.0.8/recipe.yaml").read_text()


def test_entries_of_one_name_are_told_apart_or_left(sandbox: Sandbox, tree: Path) -> None:
    there = json.loads(recorded("index.json", str(tree)))
    row = json.loads(json.dumps(there["database"]["installs"][HASH]))
    row["path"] = str(make_tree(tree / "bzip2/1.0.8-bbbbbbbb"))
    there["database"]["installs"]["b" * 32] = row
    write_database(tree, there)
    data = imported(sandbox, tree)
    assert [each["entry"] for each in data["entries"]] == ["bzip2/1.0.8-arnmn6t", "bzip2/1.0.8-bbbbbbb"]
    # One of them is there: the other is still made. With none left, nothing is.
    (sandbox.root / "recipes/bzip2/1.0.8-bbbbbbb/recipe.yaml").unlink()
    (sandbox.root / "recipes/bzip2/1.0.8-bbbbbbb").rmdir()
    data = imported(sandbox, tree)
    assert [each["entry"] for each in data["entries"]] == ["bzip2/1.0.8-bbbbbbb"]
    (left,) = data["left"]
    assert left["text"] == "bzip2/1.0.8-arnmn6t"
    assert left["why"].endswith("exists")
    again = imported(sandbox, tree)
    assert ([row["text"] for row in again["left"]], again["entries"]) == (
        ["bzip2/1.0.8-arnmn6t", "bzip2/1.0.8-bbbbbbb"],
        [],
    )


def test_database_of_a_later_spack_is_told_and_nothing_is_written(sandbox: Sandbox, tree: Path) -> None:
    there = json.loads(recorded("index.json", str(tree)))
    there["database"]["version"] = "12"
    write_database(tree, there)
    done = sandbox.run("import", str(tree))
    assert done.code == 2
    assert "error[spack-format]: " in done.stderr
    assert "hint: a later Spack wrote it: use a later envmgr\n" in done.stderr
    assert list((sandbox.root / "recipes").iterdir()) == []
