"""A generation that is complete and not current: for tests on real nodes, and for volunteers."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from envmgr.catalog.site import load_site
from envmgr.store.node_tests import SeenTest, read_node_tests, save_node_tests
from envmgr.store.prefix import Prefix
from tests.helpers.sandbox import Sandbox
from tests.helpers.scenes import HELLO, complete, error_of, finish, locked, times_tested
from tests.helpers.signed import allow, make_key
from tests.helpers.waiting import wait_for

WAITS = "echo x >>{0}/tested; [ -e {0}/go ] || while [ -e {0}/wait ]; do sleep 0.02; done"


@pytest.fixture
def box(sandbox: Sandbox) -> Sandbox:
    """`kept` is generation 1; `other` and `tested`, which counts its tests, are locked."""
    locked(sandbox, "kept/1.0", ["hello-activate"])
    locked(sandbox, "other/1.0", ["shared"])
    locked(sandbox, "tested/1.0", HELLO, tests=[{"name": "counts", "run": WAITS.format(sandbox.root)}])
    sandbox.ok("build", "kept/1.0")
    return sandbox


def entries(box: Sandbox, number: int) -> list[str]:
    return sorted(json.loads((box.prefix / f"generations/{number:04d}/generation.json").read_text())["entries"])


def link(box: Sandbox) -> str:
    path = box.prefix / "candidate"
    return str(path.readlink()) if path.is_symlink() else ""


def markers(box: Sandbox) -> list[str]:
    folder = box.prefix / "candidates"
    return sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []


def seen(
    box: Sandbox, number: int, status: str, *, entry: str = "tested/1.0", nodes: tuple[str, ...] = ("c1",)
) -> None:
    """What `test --generation` on nodes keeps."""
    told = SeenTest.model_validate({"entry": entry, "test": "counts", "status": status, "nodes": nodes, "time": 1.0})
    assert save_node_tests(load_site(box.root / "site.yaml", {}), number, [told]) == ""


@pytest.mark.always
def test_candidate_is_tested_and_promoted_without_a_build(box: Sandbox) -> None:
    made = box.ok("build", "--candidate", "tested/1.0")
    assert "generation 2 is a candidate with tested/1.0; 1 is current\n" in made.stdout
    assert box.current() == 1
    assert (link(box), markers(box)) == ("generations/0002", ["0002.json"])
    assert entries(box, 2) == ["kept/1.0", "tested/1.0"]
    rows = box.ok("history").stdout.splitlines()
    assert [row[0] for row in rows[1:]] == ["*", "c"]
    assert box.ok("verify", "--generation", "2", "--format", "json").data["not_looked_at"] == []
    assert times_tested(box) == 1
    box.ok("test", "--generation", "2")
    assert times_tested(box) == 2
    again = box.ok("build", "--candidate", "tested/1.0")  # the same once more
    assert "candidate 2 is the same already" in again.stderr
    assert markers(box) == ["0002.json"]
    dry = box.ok("promote", "--dry-run")
    assert dry.stdout.splitlines()[0] == "generation 2 would be current (is 1)"
    assert box.current() == 1
    done = box.ok("promote", "2")
    assert done.stdout == (
        "generation 2 is current (was 1); new shells get it\n  + tested/1.0\n"
        "not tested on nodes: tested/1.0 (`envmgr test --generation 2 --nodes SET`)\n"
    )
    assert times_tested(box) == 2
    complete(box, 2)
    assert (link(box), markers(box)) == ("", [])
    assert [f["reason"] for f in box.ok("history", "--format", "json").data["flips"]][-1] == "promote 2"
    box.ok("rollback")
    assert box.current() == 1
    box.ok("rollback", "2")  # it is an ordinary generation by now


def test_a_candidate_is_in_nobodys_way(box: Sandbox) -> None:
    """A publish beside it flips at once; no rollback and no way back leads to it."""
    box.ok("build", "--candidate", "tested/1.0")  # 2
    box.ok("build", "other/1.0")  # 3
    assert entries(box, 3) == ["kept/1.0", "other/1.0"]
    complete(box, 3)
    refused = box.run("rollback", "2")
    assert refused.code == 3
    assert error_of(refused, box).startswith("error[is-a-candidate]: generation 2 is a candidate: it was never current")
    (box.prefix / "current").unlink()
    assert "`envmgr rollback 3`" in box.run("list").stderr + box.run("verify").stdout


def test_outdated_candidate_is_refused_and_rebased(box: Sandbox) -> None:
    box.ok("build", "--candidate", "tested/1.0")  # 2
    seen(box, 2, "passed")
    fits = box.run("promote", "2", "--rebase")
    assert (fits.code, "candidate-fits" in fits.stderr) == (2, True)
    box.ok("build", "other/1.0")  # 3
    refused = box.run("promote", "2")
    assert refused.code == 3
    assert error_of(refused, box) == (
        "error[candidate-outdated]: candidate 2 was made from generation 1, and 3 is current\n"
        "  to make it current would take back what was published since\n\n"
        "hint: `envmgr promote 2 --rebase` makes a candidate with its changes on what is current"
    )
    assert box.ok("promote", "2", "--rebase", "--dry-run").stdout.startswith(
        "would make a candidate: the changes of 2 on 3\n"
    )
    tested = times_tested(box)
    made = box.ok("promote", "2", "--rebase")
    assert made.stdout.startswith("generation 4 is a candidate: the changes of 2 on 3\n  + tested/1.0\n")
    assert "not tested on nodes" not in made.stdout  # the results are kept: it is the same
    assert times_tested(box) == tested
    assert entries(box, 4) == ["kept/1.0", "other/1.0", "tested/1.0"]
    box.ok("promote")
    assert box.current() == 4
    complete(box, 4)


def test_rebase_tests_what_differs(box: Sandbox) -> None:
    run = {"name": "counts", "run": WAITS.format(box.root)}
    locked(box, "tested/1.0", HELLO, tests=[run], depends=["kept/1.0"])
    box.ok("build", "--candidate", "tested/1.0")  # 2
    locked(box, "kept/1.0", ["hello-activate", "shared"])
    box.ok("build", "kept/1.0")  # 3
    before = times_tested(box)
    box.ok("promote", "2", "--rebase")
    assert times_tested(box) == before + 1
    # What the candidate took along of `kept` is not put back.
    new = json.loads((box.prefix / "generations/0004/generation.json").read_text())["entries"]
    assert (
        new["kept/1.0"]
        == json.loads((box.prefix / "generations/0003/generation.json").read_text())["entries"]["kept/1.0"]
    )


def test_rebase_of_what_is_there_already(box: Sandbox) -> None:
    box.ok("build", "--candidate", "tested/1.0")
    box.ok("build", "tested/1.0")
    refused = box.run("promote", "--rebase")
    assert (refused.code, "error[no-change]" in refused.stderr) == (3, True)


def test_a_candidate_older_than_what_is_current_is_offered_to_nobody(box: Sandbox) -> None:
    box.policies |= {"keep_generations": 9, "keep_days": 0}
    box.write_site()
    box.ok("build", "--candidate", "tested/1.0")  # 2
    box.ok("build", "--candidate", "other/1.0")  # 3
    said = box.ok("promote", "3").stderr
    assert "candidate 2 is older than what is current: `ENVMGR_USE=candidate` gives that now; `envmgr promote 2 --rebase`" in said  # fmt: skip
    assert (link(box), markers(box)) == ("", ["0002.json"])
    box.ok("rollback", "1")
    assert link(box) == "generations/0002"
    assert "candidate 2 is older" in box.ok("rollback", "3").stderr
    box.ok("promote", "--rebase")  # 4
    assert link(box) == "generations/0004"
    box.ok("promote", "4")
    assert (link(box), markers(box)) == ("", ["0002.json"])
    refused = box.run("promote", "--rebase")  # as the hint of a bare `promote` says
    assert "`envmgr gc` removes the candidate when it is old" in refused.stderr
    box.ok("gc", "--now")
    assert markers(box) == []


def test_a_rebase_that_takes_back_another_publish_says_so(box: Sandbox) -> None:
    locked(box, "kept/1.0", ["hello-activate", "shared"])
    box.ok("build", "--candidate", "kept/1.0", "tested/1.0")  # 2
    locked(box, "kept/1.0", ["hello-activate", "hello-prefix"])
    box.ok("build", "kept/1.0", "other/1.0")  # 3
    said = "warning: kept/1.0 was changed since by another publish; the candidate takes that back\n"
    for argv in (["--dry-run"], []):
        assert box.ok("promote", "2", "--rebase", *argv).stdout.count("warning: ") == 1
    assert said in box.ok("promote", "2", "--rebase").stdout
    assert box.ok("promote", "2", "--rebase", "--format", "json").data["taken_back"] == ["kept/1.0"]


def test_a_red_test_keeps_it_from_users(box: Sandbox) -> None:
    box.ok("build", "--candidate", "tested/1.0")
    seen(box, 2, "passed", nodes=("c1", "c3"))
    seen(box, 2, "failed", nodes=("c2",))
    for argv in (["promote", "2"], ["promote", "2", "--dry-run"]):
        refused = box.run(*argv)
        assert refused.code == 3
        assert "error[test-not-green]: tests of candidate 2 failed\n  tested/1.0 `counts` on c2\n" in refused.stderr
    assert box.current() == 1
    seen(box, 2, "passed", nodes=("c2",))  # tested again on that node
    assert {each.status for each in read_node_tests(Prefix(box.prefix), 2).tests} == {"passed"}
    box.ok("promote", "2")


@pytest.mark.always
def test_a_withdrawn_candidate_is_offered_to_nobody(box: Sandbox) -> None:
    box.policies |= {"keep_generations": 9, "keep_days": 0}
    box.write_site()
    box.ok("build", "--candidate", "tested/1.0")  # 2
    box.ok("build", "--candidate", "other/1.0")  # 3
    assert box.ok("promote", "--withdraw", "--dry-run").stdout.startswith("candidate 3 would be withdrawn")
    assert link(box) == "generations/0003"
    done = box.ok("promote", "--withdraw", "3")
    assert done.stdout == "candidate 3 is withdrawn, with those before it\n  + other/1.0\n"
    assert (link(box), box.current()) == ("", 1)
    assert [row[0] for row in box.ok("history").stdout.splitlines()[1:4]] == ["*", "w", "w"]
    for argv in (["promote"], ["promote", "--withdraw"]):
        assert "error[no-candidate]" in box.run(*argv).stderr
    for argv in (["promote", "3"], ["promote", "2", "--dry-run"], ["promote", "3", "--withdraw"]):
        refused = box.run(*argv)
        assert refused.code == 3
        assert "error[candidate-withdrawn]" in error_of(refused, box)
    assert "it was withdrawn" in box.run("rollback", "3").stderr
    assert "error[promote-what]" in box.run("promote", "--rebase", "--withdraw").stderr
    box.ok("publish", "--candidate", "other/1.0")  # as the hint says; 4
    assert link(box) == "generations/0004"
    assert "error[not-a-candidate]" in box.run("promote", "1", "--withdraw").stderr
    box.ok("promote")
    assert (box.current(), link(box)) == (4, "")
    box.ok("gc", "--now")
    assert markers(box) == ["withdrawn"]
    box.ok("build", "--candidate", "tested/1.0")
    assert link(box) == "generations/0005"


def test_a_damaged_list_of_withdrawn_candidates_offers_none(box: Sandbox) -> None:
    box.ok("build", "--candidate", "tested/1.0")
    (box.prefix / "candidate").unlink()  # a kill before the list is written
    box.ok("promote", "--withdraw")
    file = box.prefix / "candidates/withdrawn"
    file.chmod(0o644)
    file.write_text("tw\x00o\n")
    for argv in (["promote"], ["promote", "2"], ["promote", "--withdraw", "2"], ["build", "--candidate", "other/1.0"]):
        refused = box.run(*argv)
        assert (refused.code, "which candidates were withdrawn is not known" in refused.stderr) == (3, True), argv
    assert (link(box), box.current()) == ("", 1)
    assert "tested/1.0" in box.ok("history").stdout
    assert "it is no number" in refused.stderr
    rm, _, again = refused.stderr.partition("hint: ")[2].split("`")[1::2]
    subprocess.run(["sh", "-c", rm], check=True)
    box.ok(*again.replace("NUMBER", "2").split()[1:])
    assert "error[no-candidate]" in box.run("promote").stderr


def test_no_candidate_and_no_such_one(box: Sandbox) -> None:
    assert "error[no-candidate]" in box.run("promote").stderr
    assert "it is current; there is no candidate" in box.run("promote", "1").stderr
    assert "error[no-generation]" in box.run("promote", "7").stderr
    assert "error[build-what]" in box.run("build", "--candidate", "--no-publish", "tested/1.0").stderr
    assert box.ok("build", "--candidate", "--dry-run", "tested/1.0").stdout
    assert markers(box) == []


def test_gc_keeps_the_newest_candidate_and_what_it_stands_on(box: Sandbox) -> None:
    box.policies |= {"keep_generations": 1, "keep_days": 0}
    box.write_site()
    box.ok("build", "--candidate", "tested/1.0")  # 2
    box.ok("build", "--candidate", "other/1.0")  # 3
    seen(box, 2, "passed")
    done = box.ok("gc", "--now", "--format", "json").data
    assert (done["generations"], box.current(), link(box)) == ([2], 1, "generations/0003")
    assert markers(box) == ["0003.json"]
    assert not (box.prefix / "var/tests/0002.json").exists()
    assert entries(box, 3) == ["kept/1.0", "other/1.0"]
    box.ok("promote", "3")
    complete(box, 3)


def test_a_killed_run_leaves_no_half_candidate(box: Sandbox) -> None:
    (box.root / "wait").touch()
    process = box.start("build", "--candidate", "tested/1.0")
    wait_for(lambda: times_tested(box) or process.poll() is not None, what="the smoke test")
    process.kill()
    (box.root / "wait").unlink()
    process.wait()
    (box.prefix / "candidates").mkdir(exist_ok=True)
    (box.prefix / "candidates/0007.json.sig").write_text("")  # a signature that was refused has no marker
    (box.prefix / "candidates/0002.json").write_text("{}")  # a kill between the marker and the record
    box.ok("build", "--candidate", "tested/1.0")  # 3
    assert (link(box), markers(box)) == ("generations/0003", ["0003.json"])


def test_a_kill_after_the_flip_of_a_promote(box: Sandbox) -> None:
    box.ok("build", "--candidate", "tested/1.0")
    marker = (box.prefix / "candidates/0002.json").read_text()
    box.ok("promote", "2")
    (box.prefix / "candidates/0002.json").write_text(marker)
    (box.prefix / "candidate").symlink_to("generations/0002")
    assert [row[0] for row in box.ok("history").stdout.splitlines()[1:]] == [" ", "*"]
    box.ok("build", "other/1.0")
    assert (link(box), markers(box)) == ("", [])


def test_promote_twice_at_once_and_during_a_rollback(box: Sandbox) -> None:
    box.ok("build", "other/1.0")  # 2
    box.ok("build", "--candidate", "tested/1.0")  # 3
    runs = [box.start("promote", "3"), box.start("promote", "3"), box.start("rollback", "1")]
    ends = [finish(run) for run in runs]
    assert sorted(end.code for end in ends[:2]) in ([0, 3], [3, 3])
    assert ends[2].code == 0, ends[2].stderr
    for end in ends[:2]:
        assert end.code == 0 or "not-a-candidate" in end.stderr or "candidate-outdated" in end.stderr, end.stderr
    complete(box, box.current())


def changed(box: Sandbox, path: Path) -> None:
    path.parent.chmod(0o755)
    path.chmod(0o644)
    path.write_text(path.read_text() + " ")
    path.chmod(0o444)
    path.parent.chmod(0o555)


def test_changed_candidate_is_not_promoted(box: Sandbox) -> None:
    box.ok("build", "--candidate", "tested/1.0")
    changed(box, box.prefix / "generations/0002/modules/tested/1.0.lua")
    refused = box.run("promote")
    assert "error[generation-changed]: candidate 2 is not what was made" in refused.stderr
    assert "modules/tested/1.0.lua: sha256 changed" in refused.stderr
    assert box.run("verify", "--generation", "2").code == 1
    assert box.current() == 1


def test_site_that_signs_signs_candidates(box: Sandbox) -> None:
    allow(box.root, make_key(box.root, "admin"))
    make_key(box.root, "stranger")
    box.settings["signing"] = {"key": "admin", "allowed_signers": "allowed_signers"}
    box.write_site()
    box.ok("sign")
    box.ok("build", "--candidate", "tested/1.0")
    assert markers(box) == ["0002.json", "0002.json.sig"]
    signature = box.prefix / "candidates/0002.json.sig"
    good = signature.read_bytes()
    signature.chmod(0o644)
    signature.write_bytes((box.prefix / "flips/000002.json.sig").read_bytes())
    assert "0002.json.sig: wrong" in box.run("promote").stderr
    assert box.run("verify", "--generation", "2").code == 1
    signature.write_bytes(good)
    box.ok("promote")
    assert box.ok("verify").stdout.splitlines()[0] == "flip 3, signed by anna"
    assert markers(box) == []
