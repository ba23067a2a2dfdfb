"""An install that somebody else made, as an entry: published, changed, gone, taken anew and rolled back; never touched."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from envmgr.backends.existing.models import ExistingInput
from envmgr.catalog.locks import recipe_digest
from envmgr.system.files import remove_tree
from tests.helpers.sandbox import Sandbox
from tests.helpers.vendor_tree import make_module, make_tree

ENTRY = "vend/1.0"
AGAIN = f"`envmgr lock {ENTRY} && envmgr build {ENTRY}` publishes it as it is now"


@pytest.fixture
def tree(sandbox: Sandbox) -> Path:
    """The entry leads to it, by the vendor's own module."""
    tree = make_tree(sandbox.root / "opt" / "vend")
    file = make_module(sandbox.root / "modules", tree)
    sandbox.recipe(ENTRY, [], backend="existing", input={"path": str(tree), "module": str(file)})
    return tree


def publish(box: Sandbox) -> None:
    box.ok("lock", ENTRY)
    box.ok("build", ENTRY)


def drift(box: Sandbox) -> list[tuple[str, str]]:
    return [(f["where"], f["found"]) for f in box.run("verify", "--format", "json").data["findings"]]


@pytest.mark.always
def test_tree_that_changes_is_found_and_a_rollback_brings_back_the_module_and_not_the_bytes(
    sandbox: Sandbox, tree: Path
) -> None:
    box = sandbox
    publish(box)
    load = f"module load {ENTRY} && hello && echo $VEND_ROOT $LD_LIBRARY_PATH"
    assert box.shell(load).stdout == f"hello\n{tree} {tree}/lib\n"
    assert f"Not ours: {tree}" in box.shell(f"module help {ENTRY}").stderr
    assert f"published, not ours: {tree}" in box.ok("list", ENTRY).stdout
    record = json.loads((box.prefix / "current/generation.json").read_text())
    assert record["entries"][ENTRY]["not_ours"] == str(tree)
    assert "not ours: 1 tree looked at here, 0 differ from their record" in box.ok("verify").stdout
    before = {path: path.stat() for path in tree.rglob("*")}

    (tree / "bin/hello").write_text("#!/bin/sh\necho HELLO\n")
    (tree / "new").touch()
    assert drift(box) == [(ENTRY, "bin/hello: sha256 changed"), (ENTRY, "new: new")]
    said = box.run("verify")
    assert (said.code, AGAIN in said.stdout) == (1, True)
    assert box.ok("build", ENTRY).code == 0, "users keep the module that is published"
    assert drift(box) == [(ENTRY, "bin/hello: sha256 changed"), (ENTRY, "new: new")], "nobody has looked at it"

    publish(box)
    assert drift(box) == []
    box.ok("rollback", "1")
    assert drift(box) == [(ENTRY, "bin/hello: sha256 changed"), (ENTRY, "new: new")]
    assert box.shell(f"module load {ENTRY} && hello").stdout == "HELLO\n"

    box.policies |= {"keep_days": 0, "keep_generations": 1}
    box.write_site()
    box.ok("publish", "--remove", ENTRY)
    box.ok("gc")
    assert list(box.prefix.glob("store/*/*")) == []
    assert set(tree.rglob("*")) == {*before, tree / "new"}


def test_tree_that_is_not_what_was_locked_is_not_published(sandbox: Sandbox, tree: Path) -> None:
    sandbox.ok("lock", ENTRY)
    (tree / "new").touch()
    done = sandbox.run("build", ENTRY)
    assert done.code == 3
    assert f"error[tree-differs]: {tree} is not what it was when {ENTRY} was locked\n" in done.stderr
    assert f"hint: who changed it, and why? `envmgr lock {ENTRY}` takes it as it is now\n" in done.stderr
    assert sandbox.leftovers() == []
    sandbox.ok("lock", ENTRY)
    sandbox.ok("build", ENTRY)


@pytest.mark.always
def test_tree_that_changed_after_the_build_is_not_published(sandbox: Sandbox, tree: Path) -> None:
    sandbox.ok("lock", ENTRY)
    sandbox.ok("build", "--no-publish", ENTRY)
    (tree / "new").touch()
    for verb in ("publish", "build"):
        done = sandbox.run(verb, ENTRY)
        assert (done.code, sandbox.current()) == (3, None)
        assert f"error[tree-differs]: the tree of {ENTRY}, which is not ours, changed after the build\n" in done.stderr
        assert "  new: new\n" in done.stderr
        assert f"hint: who changed it, and why? `envmgr lock {ENTRY} && envmgr build {ENTRY}` takes it" in done.stderr
    publish(sandbox)
    (tree / "new").unlink()
    done = sandbox.ok("build", ENTRY)
    assert f"{ENTRY} is not ours, and nobody looked at its tree now: `envmgr verify {ENTRY}` does\n" in done.stderr
    assert drift(sandbox) == [(ENTRY, "new: missing")]


def test_tree_that_vanished_is_told_to_users_and_by_verify(sandbox: Sandbox, tree: Path) -> None:
    publish(sandbox)
    tree.rename(tree.with_name("away"))
    assert drift(sandbox) == [(ENTRY, f"{tree}: No such file or directory")]
    said = " ".join(sandbox.shell(f"module load {ENTRY}").stderr.split())
    assert f"{ENTRY} is in {tree}, which is not on this machine" in said
    for verb in ("lock", "build"):
        assert sandbox.run(verb, ENTRY).code == (3 if verb == "lock" else 0)


def test_module_that_fails_ends_the_lock_and_users_keep_what_is_published(sandbox: Sandbox, tree: Path) -> None:
    publish(sandbox)
    file = sandbox.root / "modules/vendor/1.0.lua"
    file.write_text('LmodError("no licence server")\n')
    before = (sandbox.root / "recipes" / ENTRY / "existing-lock.yml").read_bytes()
    done = sandbox.run("lock", ENTRY)
    assert done.code == 3
    assert re.search(r"error\[activation-failed\]: `module .*vendor/1\.0\.lua` failed, status 1\n", done.stderr)
    assert "no licence server" in done.stderr
    assert (sandbox.root / "recipes" / ENTRY / "existing-lock.yml").read_bytes() == before
    assert sandbox.shell(f"module load {ENTRY} && hello").stdout == "hello\n"


def test_prefix_is_never_an_install_of_somebody_else(sandbox: Sandbox, tree: Path) -> None:
    sandbox.ok("lock", ENTRY)
    lock = sandbox.root / "recipes" / ENTRY / "existing-lock.yml"
    (sandbox.prefix / "store").mkdir(parents=True, exist_ok=True)
    (link := sandbox.root / "link").symlink_to(sandbox.prefix / "store")
    for path in (sandbox.prefix / "store", sandbox.root, Path("/"), link):
        sandbox.recipe(ENTRY, [], backend="existing", input={"path": str(path)})
        fault = f"input.path: {path} and the prefix lie in each other"
        if path != link:  # where links lead to is seen by what looks at the tree
            done = sandbox.run("check", ENTRY)
            assert (done.code, fault in done.stdout) == (1, True)
        before = lock.read_text()
        done = sandbox.run("lock", ENTRY)
        assert (done.code, "error[recipe-invalid]" in done.stderr, fault in done.stderr) == (2, True, True)
        assert lock.read_text() == before
    # A lock that was made before, or by hand, is not built.
    recipe = ExistingInput(path=str(sandbox.prefix / "store"))
    sandbox.recipe(ENTRY, [], backend="existing", input={"path": recipe.path})
    digest = recipe_digest("existing", recipe.model_dump(mode="json"))
    lock.write_text(re.sub(r"(?m)^recipe: .*", f"recipe: {digest}", lock.read_text()))
    done = sandbox.run("build", ENTRY)
    assert (done.code, f"input.path: {recipe.path} and the prefix lie" in done.stderr) == (2, True)
    assert list(sandbox.prefix.glob("store/*/*")) == []


def test_environment_that_the_recipe_gives_names_the_tree(sandbox: Sandbox, tree: Path) -> None:
    given = {"set": {"VEND_HOME": "${root}"}, "prepend": {"PATH": ["${root}/lib"]}}
    sandbox.recipe(ENTRY, [], backend="existing", input={"path": str(tree), "manifest": "times"}, environment=given)
    publish(sandbox)
    done = sandbox.shell(f"module load {ENTRY} && echo $VEND_HOME && echo $PATH")
    home, path = done.stdout.splitlines()
    assert home == str(tree)
    assert path.startswith(f"{tree}/lib:{tree}/bin:")


def test_no_other_tool_has_its_lock(sandbox: Sandbox, tree: Path) -> None:
    sandbox.ok("lock", ENTRY)
    done = sandbox.run("export", ENTRY, "--to", "pixi")
    assert (done.code, f"error[export-impossible]: {ENTRY} is made by the backend `existing`: " in done.stderr) == (
        2,
        True,
    )


def test_entry_that_two_catalogs_have_is_told(sandbox: Sandbox, tree: Path) -> None:
    (other := sandbox.root / "other").mkdir()
    sandbox.settings |= {"catalogs": ["recipes", str(other)]}
    sandbox.write_site()
    sandbox.ok("lock", ENTRY)
    clean = sandbox.ok("check", ENTRY).stdout
    assert "hidden" not in clean
    shutil.copytree(sandbox.root / "recipes/vend", other / "vend")
    told = f"warning[hidden]: {ENTRY}: {sandbox.root}/recipes/{ENTRY} counts, and {other}/{ENTRY} is hidden\n"
    assert told in sandbox.ok("check", ENTRY).stdout
    assert told in sandbox.ok("check").stdout
    for verb in (("list", ENTRY), ("list",)):
        assert f"hides {other}/{ENTRY}" in sandbox.ok(*verb).stdout
    # A site's own copy of a shipped recipe is no accident.
    sandbox.ok("copy", "python/3.12")
    assert "hidden" not in sandbox.run("check", "python/3.12").stdout


def test_install_of_another_prefix_is_used_where_it_is(
    sandbox: Sandbox, make_sandbox: Callable[[str, str], Sandbox]
) -> None:
    """Two sites: the second one's entry leads to an install of the first, and a user has the modules of both."""
    central = make_sandbox("central", sandbox.mirror)
    central.recipe("hello/1.0", ["hello-prefix"])
    for verb in ("lock", "build"):
        central.ok(verb, "hello/1.0")
    (install,) = (path for path in central.prefix.glob("store/hello/*") if path.is_dir())
    sandbox.recipe(ENTRY, [], backend="existing", input={"path": str(install)})
    publish(sandbox)
    load = f"{central.ok('shell-init', 'bash').stdout}module load {ENTRY} && command -v hello-prefix && echo $VEND_ROOT"
    assert sandbox.shell(load).stdout == f"{install}/bin/hello-prefix\n{install}\n"
    assert drift(sandbox) == []
    remove_tree(install)
    assert drift(sandbox) == [(ENTRY, f"{install}: No such file or directory")]
    assert f"{ENTRY} is in {install}, which is not on this machine" in " ".join(sandbox.shell(load).stderr.split())
