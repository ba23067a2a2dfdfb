"""The site's policies as people meet them: group and umask, what gc keeps, who may read what."""

from __future__ import annotations

import grp
import json
import os
import pwd
import subprocess
from pathlib import Path

import pytest

from envmgr.system.files import remove_tree
from tests.helpers.sandbox import Sandbox

AM_ROOT = os.geteuid() == 0


@pytest.fixture
def open_box(channel, tmp_path_factory: pytest.TempPathFactory):
    """A sandbox that other users can reach: pytest's own folders are private."""
    root = Path(f"/tmp/envmgr-policies-{os.getpid()}")
    root.mkdir(mode=0o755)
    box = Sandbox(root, str(channel.folder))
    box.write_site()
    yield box
    remove_tree(root)


def as_user(name: str, script: str, box: Sandbox) -> subprocess.CompletedProcess[str]:
    account = pwd.getpwnam(name)
    return subprocess.run(
        ["setpriv", f"--reuid={account.pw_uid}", f"--regid={account.pw_gid}", "--init-groups", "bash", "--norc"],
        input=box.ok("shell-init", "bash").stdout + script,
        env={"PATH": "/usr/bin:/bin", "HOME": "/"},
        cwd="/",
        capture_output=True,
        text=True,
        check=False,
    )


def test_group_policy_lets_members_load_and_nobody_else(open_box: Sandbox) -> None:
    """As root, the two users are accounts that every Linux has; otherwise this user, with a group of their own."""
    group = grp.getgrgid(pwd.getpwnam("games").pw_gid).gr_name if AM_ROOT else grp.getgrgid(os.getegid()).gr_name
    open_box.policies |= {"umask": "027", "group": group}
    open_box.write_site()
    open_box.recipe("hello/1.0", ["hello-prefix"])
    open_box.ok("lock", "hello/1.0")
    open_box.ok("build", "hello/1.0")
    for folder in (open_box.prefix, open_box.prefix / "store", open_box.prefix / "generations"):
        assert folder.group() == group, folder
        assert oct(folder.stat().st_mode & 0o007) in ("0o0", "0o5")
    assert open_box.prefix.stat().st_mode & 0o007 == 0
    script = "module load hello && hello-prefix >/dev/null && echo loaded $ENVMGR_GENERATION\n"
    if AM_ROOT:
        assert as_user("games", script, open_box).stdout == "loaded 1\n"
        assert as_user("nobody", script, open_box).stdout == ""
    else:
        assert open_box.shell(script).stdout == "loaded 1\n"


@pytest.fixture
def aged(sandbox: Sandbox) -> Sandbox:
    """Two generations; the first was made 100 days ago and was current until a minute ago."""
    sandbox.policies |= {"keep_generations": 1, "keep_days": 60}
    sandbox.write_site()
    for specs in (["hello-prefix"], ["hello-prefix", "shared"]):
        sandbox.recipe("hello/1.0", specs)
        sandbox.ok("lock", "hello/1.0")
        sandbox.ok("build", "hello/1.0")
    record = sandbox.prefix / "generations/0001/generation.json"
    data = json.loads(record.read_text()) | {"created": "2020-01-01T00:00:00Z"}
    record.parent.chmod(0o755)
    record.chmod(0o644)
    record.write_text(json.dumps(data))
    for manifest in sandbox.prefix.glob("store/*/*.manifest.json"):
        os.utime(manifest, (0, 0))
    return sandbox


def test_gc_keeps_an_old_generation_that_was_current_until_now(aged: Sandbox) -> None:
    assert aged.ok("gc", "--format", "json").data["generations"] == []
    assert len(list(aged.prefix.glob("store/hello/*.manifest.json"))) == 2


def test_gc_removes_what_was_superseded_long_ago(aged: Sandbox) -> None:
    history = aged.prefix / "var/history.jsonl"
    rows = [json.loads(line) | {"time": "2020-02-01T00:00:00Z"} for line in history.read_text().splitlines()]
    history.write_text("".join(json.dumps(r) + "\n" for r in rows))
    done = aged.ok("gc", "--format", "json").data
    assert done["generations"] == [1]
    assert len(done["installs"]) == 1
    assert aged.ok("test").code == 0


def test_default_moves_with_the_recipe_that_is_built(sandbox: Sandbox) -> None:
    sandbox.recipe("hello/1.0", ["hello-prefix"], default=True)
    sandbox.recipe("hello/2.0", ["hello-prefix", "shared"])
    sandbox.ok("lock", "--all")
    sandbox.ok("build", "hello/1.0", "hello/2.0")
    sandbox.recipe("hello/1.0", ["hello-prefix"])
    sandbox.recipe("hello/2.0", ["hello-prefix", "shared"], default=True)
    sandbox.ok("build", "hello/2.0")
    assert sandbox.shell("module load hello; echo $LOADEDMODULES").stdout == "hello/2.0\n"
    sandbox.recipe("hello/1.0", ["hello-prefix"], default=True)
    done = sandbox.run("build", "hello/1.0", "hello/2.0", "--dry-run")
    assert (done.code, done.stderr.splitlines()[0]) == (2, "error[two-defaults]: hello has two default versions")


def test_names_that_differ_by_case_are_told_and_never_published_together(sandbox: Sandbox) -> None:
    sandbox.recipe("base/1.0", ["shared"])
    sandbox.recipe("Base/2.0", ["hello-prefix"])
    sandbox.ok("lock", "base/1.0", "Base/2.0")
    check = sandbox.run("check")
    assert check.code == 1
    assert "error[names]: catalog: Base and base differ only by case\n" in check.stdout
    sandbox.ok("build", "base/1.0")
    done = sandbox.run("build", "Base/2.0")
    assert done.code == 3
    assert done.stderr[done.stderr.index("error[") :].splitlines()[0] == (
        "error[names-clash]: Base and base cannot both be published"
    )
    assert sandbox.current() == 1


def test_requirement_beyond_the_sites_target_is_a_warning(sandbox: Sandbox) -> None:
    sandbox.recipe(
        "fast/1.0", ["shared"], requires={"cpu_level": "x86-64-v4", "glibc": "99.1"}, tests=[{"name": "t", "run": ":"}]
    )
    sandbox.ok("lock", "fast/1.0")
    done = sandbox.run("check", "fast/1.0")
    assert "requires.cpu_level: x86-64-v4, the site is built for x86-64-v2" in done.stdout
    assert "requires.glibc: 99.1, here is " in done.stdout
    assert "1 recipe checked: 0 errors, 2 warnings" in done.stdout
