"""Builds as Slurm jobs, on the real cluster: real Slurm, real EasyBuild, an ordinary build user, easyconfigs that nodes do not see."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from envmgr.backends.easybuild.installation import Places, contents_sum, own_places
from envmgr.backends.easybuild.settings import EASYBUILD
from envmgr.system.files import remove_tree, sha256_bytes
from tests.helpers.builders import builders, pure
from tests.helpers.cluster import faults
from tests.helpers.cluster.disguises import shadowed_file
from tests.helpers.cluster.site import SITE
from tests.helpers.done import Done
from tests.helpers.easybuild.easybuild_wheels import environ_of, write_wheels
from tests.helpers.easybuild.slurm_workshop import BROKEN, GATED, Shop, ended, leave
from tests.helpers.waiting import DEADLINE, soon
from tests.helpers.wheelhouse import Wheelhouse


@pytest.mark.always
def test_chain_is_sent_left_found_again_and_published_once(shop: Shop) -> None:
    cluster = shop.cluster
    shop.toy("base", GATED)
    shop.toy("left", dependencies=[("base", "1.0")])
    shop.toy("right", dependencies=[("base", "1.0")])
    shop.lock("left", "right")
    options = ["--partition", "small", "--account", "physics", "--cpus", "2", "--time", "20"]
    plan = shop.build("left right", *options, "--dry-run")
    lines = [re.sub(r"-[0-9a-f]{8}", "", line).split() for line in plan.stdout.splitlines() if line.startswith("  job")]
    assert [" ".join(words) for words in lines] == [
        "job base/1.0 would be submitted",
        "job left/1.0 would be submitted after base/1.0",
        "job right/1.0 would be submitted after base/1.0",
    ]
    assert shop.table() == []
    shop.shut("base")
    first, second = shop.start("left right", *options), shop.start("left right", *options)
    assert soon(lambda: shop.runs("base") and len(shop.logs_with("base/1.0-.*: job [0-9]+ runs on c1")) == 2), (
        shop.jobs()
    )
    assert len(shop.logs_with("base/1.0-.*is under way already")) == 1
    seen = shop.jobs("%T|%P|%a|%c|%l|%E")
    base = seen.pop("base")
    assert base == "RUNNING|small|physics|2|20:00|(null)"
    number = shop.jobs("%i")["base"]
    waits = f"PENDING|small|physics|2|20:00|afterok:{number}(unfulfilled)"
    assert seen == {"left": waits, "right": waits}
    assert shop.table() == ["base", "left", "right"]
    assert len(cluster.exec("login", ["squeue", "-h"]).stdout.splitlines()) == 3  # of both together
    left = leave(cluster, first, "INT")
    assert (left.code, ended(second).code) == (130, 130)
    said = message(left)
    assert said[0] == "error[interrupted]: detached: 3 Slurm jobs go on"
    assert said[1].startswith(f"  {number} base/1.0-")
    assert said[1].endswith(", running on c1")
    assert said[-1].startswith("hint: the same command comes back to them, and publishes at the end; `scancel ")
    numbers = shop.jobs("%i")
    assert len(numbers) == 3
    # Two come back at once, while nobody answers them for a while.
    both = [shop.start("left right", "--format", "json"), shop.start("left right")]
    assert soon(lambda: len(shop.logs_with("base/1.0-.*: job [0-9]+ runs on c1")) == 4), shop.jobs()
    with faults.slurmctld_stopped(cluster):
        shop.open("base")
        assert soon(lambda: "base" in shop.store() and len(shop.logs_with("slurm: Slurm does not answer")) == 2)
    done = [ended(process) for process in both]
    assert [d.code for d in done] == [0, 0], [d.stderr for d in done]
    assert "slurm: Slurm answers again" in done[1].stderr
    assert {j["item"].split("/")[1]: (j["job"], j["attached"]) for j in done[0].data["jobs"]} == {
        name: (number, True) for name, number in numbers.items()
    }
    assert shop.store() >= {"base", "left", "right"}
    assert shop.table() == []
    record = json.loads((cluster.host_prefix / "current/generation.json").read_text())
    assert record["entries"].keys() >= {"left/1.0", "right/1.0"}


def message(done: Done) -> list[str]:
    return done.stderr[done.stderr.index("error[") :].splitlines()


def test_failed_job_ends_what_stands_on_it_keeps_the_rest_and_says_what_a_local_build_says(shop: Shop) -> None:
    shop.toy("broken", BROKEN)
    shop.toy("upper", dependencies=[("broken", "1.0")])
    shop.cluster.recipe("fine/1.0", ["hello-prefix"])  # of conda: a job like others
    shop.lock("upper")
    assert shop.cluster.envmgr(["lock", "fine/1.0"]).code == 0
    before = (shop.cluster.host_prefix / "current").readlink()
    done = shop.build("upper fine")
    error = message(done)
    assert done.code == 3
    assert "  not tried, because it stands on that: upper/1.0" in error
    assert "  built and kept for the next run: fine/1.0" in error
    assert "fine" in shop.store()
    assert soon(lambda: not shop.jobs())
    assert (shop.cluster.host_prefix / "current").readlink() == before
    log = next(line for line in error if line.startswith("  log: ")).removeprefix("  log: /cluster/sw/")
    assert log.startswith("var/log/easybuild/")
    assert "no such luck" in (shop.cluster.host_prefix / log).read_text()

    def same(lines: list[str]) -> list[str]:
        return [line for line in lines if not line.startswith(("  log: ", "  built "))]

    assert same(error) == same(message(shop.cluster.envmgr(["build", "upper/1.0", "--jobs", "1"])))
    assert any(line.startswith("  built by Slurm job ") for line in error)

    # A failure that nobody saw is told once, to whoever comes back; then it is built anew.
    shop.shut("broken")
    first = shop.start("upper")
    assert soon(lambda: shop.runs("broken"))
    assert leave(shop.cluster, first, "TERM").code == 130
    shop.open("broken")
    assert soon(lambda: not shop.jobs())
    late = shop.build("upper")
    assert late.code == 3
    assert "  it failed before this command began: run the same command again to build it" in message(late)
    assert set(same(error)) - {"  built and kept for the next run: fine/1.0"} <= set(message(late))
    assert "would be submitted" in shop.build("upper", "--dry-run").stdout


@pytest.mark.slow
@pytest.mark.soak
def test_job_that_ends_without_a_word_is_told_with_what_slurm_knows(shop: Shop) -> None:
    cluster, names = shop.cluster, ["cancelled", "late", "orphan"]
    for name in names:
        shop.toy(name, GATED)
    shop.lock(*names)
    shop.shut(*names)
    began = {
        name: shop.start(name, "--format", "json", "--partition", "far" if name == "orphan" else "small")
        for name in names
    }
    assert soon(lambda: all(shop.runs(name) for name in names)), shop.jobs()
    numbers = shop.jobs("%i")
    cluster.exec("login", ["scontrol", "update", f"jobid={numbers['late']}", "EndTime=now"], check=True)
    cluster.exec("login", ["scancel", numbers["cancelled"]], check=True)
    with faults.dead_node(cluster, "c3"):
        cluster.exec("login", ["scontrol", "update", "nodename=c3", "state=down", "reason=fire"], check=True)
        found = {name: ended(began[name]).data for name in ("cancelled", "orphan")}
        # What the node left half built is cleared away by the next one, on another node.
        shop.open("cancelled", "orphan")
        again = ended(shop.start("orphan", "--partition", "small"))
        found["late"] = ended(began["late"]).data
    shop.open("late")
    assert again.code == 0, again.stderr
    assert "orphan" in shop.store()
    assert "orphan" not in shop.table()
    for name in names:
        assert found[name]["reference"] == "job-failed"
        assert found[name]["message"] == f"the Slurm job of {name}/1.0 ended before it was built"
        output = f"/cluster/sw/var/log/slurm/{name}-1.0-"
        kept = r"/cluster/sw/var/log/easybuild/[0-9T]+-" + f"{name}-1.0-" + r"[0-9a-f]{8}\.log"
        log = found[name]["log"]
        assert Path(f"/proc/{cluster.pid('login')}/root{log}").is_file()
        if name == "orphan":  # its node keeps nothing any more
            assert log.startswith(output)
            assert log.endswith(f"-{numbers[name]}.log")
            assert any(line.startswith("the build's log was not kept: it was /tmp/") for line in found[name]["context"])
        else:
            assert re.fullmatch(kept, log), log
            assert any(line.startswith(f"its output: {output}") for line in found[name]["context"])
        assert not any("'s log is " in line for line in found[name]["context"])
    told = {name: re.sub(r", exit code \d+:\d+", "", data["context"][0]) for name, data in found.items()}
    assert told == {
        "cancelled": f"job {numbers['cancelled']}, Slurm: CANCELLED, on c1",
        "late": f"job {numbers['late']}, Slurm: TIMEOUT, reason TimeLimit, on c1",
        "orphan": f"job {numbers['orphan']}, Slurm: NODE_FAIL, reason NodeDown, on c3",
    }
    same = "the same command builds it again; what is finished is kept"
    assert found["cancelled"]["hint"] == f"the job was cancelled: {same}"
    assert found["late"]["hint"].startswith("give it more time with --time (it had ")
    assert found["orphan"]["hint"] == f"the node failed: {same}"


def test_job_that_does_not_start_by_itself_is_told(shop: Shop) -> None:
    shop.toy("long")
    shop.lock("long")
    process = shop.start("long", "--time", "2-0")  # the partition gives 30 minutes
    assert process.stderr is not None
    said = next(line for line in process.stderr if "does not start by itself" in line)
    number = shop.jobs("%i")["long"]
    hint = f"`scancel {number}`, then build with a --time that the partition allows"
    assert f"job {number} does not start by itself: PartitionTimeLimit; {hint}" in said
    left = leave(shop.cluster, process, "INT")
    assert left.code == 130
    shop.cluster.exec("login", ["scancel", number], check=True)
    done = shop.build("long", "--time", "20")
    assert done.code == 0, done.stderr


def test_submission_that_slurm_does_not_take_leaves_nothing(shop: Shop) -> None:
    shop.toy("solo")
    shop.lock("solo")
    refused = shop.build("solo", "--partition", "nope")
    assert refused.code == 3
    assert message(refused)[0] == "error[job-refused]: Slurm does not take the job: invalid partition specified: nope"
    with faults.slurmctld_stopped(shop.cluster):
        down = shop.build("solo")
    assert (down.code, message(down)[0].partition(":")[0]) == (3, "error[slurm-unavailable]")
    shop.write_site(build_user=None)
    as_root = shop.build("solo")
    local = shop.cluster.envmgr(["build", "solo/1.0"])
    shop.write_site()
    assert (as_root.code, message(as_root)[0]) == (local.code, message(local)[0])
    assert message(as_root)[0].startswith("error[root-refused]: ")
    assert "solo" not in shop.table()
    assert shop.jobs() == {}


def test_node_of_another_system_builds_nothing(shop: Shop) -> None:
    shop.cluster.recipe("abroad/1.0", ["hello-prefix"])
    assert shop.cluster.envmgr(["lock", "abroad/1.0"]).code == 0
    with shadowed_file(shop.cluster, "c3", Path("/etc/os-release"), "ID=rocky\nVERSION_ID=9.4\n"):
        done = shop.build("abroad", "--partition", "far")
    error = message(done)
    assert (done.code, error[0].partition(":")[0]) == (3, "error[target-differs]")
    assert error[0].startswith("error[target-differs]: c3 would not build store/abroad/1.0-")
    assert error[1].startswith("  os_id: ")
    assert error[1].endswith(" where it was submitted, rocky here")
    assert "abroad" not in shop.store()


def test_smoke_test_runs_where_the_build_was_told_to_run(shop: Shop) -> None:
    """The options before the site's, in the test's own job after the builds have ended."""
    run = """said=$(srun sh -c 'echo "$SLURM_JOB_PARTITION $SLURM_JOB_ACCOUNT"'); [ "$said" = "small hpc" ] || { echo "$said"; exit 1; }"""
    tests = [{"name": "where", "run": run, "needs": ["slurm"], "timeout": int(DEADLINE)}]
    shop.cluster.recipe("where/1.0", ["hello-prefix"], tests=tests)
    assert shop.cluster.envmgr(["lock", "where/1.0"]).code == 0
    transport = {"via": "ssh", "slurm_options": ["--partition=far", "--account=hpc"]}
    shop.write_site(transport=transport)
    try:
        elsewhere = shop.build("where")
        assert (elsewhere.code, "    far hpc" in elsewhere.stderr.splitlines()) == (3, True), elsewhere.stderr
        done = shop.build("where", "--partition", "small", "--format", "json")
    finally:
        shop.write_site()
    assert done.code == 0, done.stderr
    assert [(t["status"], t["detail"]) for t in done.data["tests"]] == [("passed", "")]


def test_easybuild_of_envmgr_builds_on_nodes_that_have_the_same(shop: Shop) -> None:
    tools = shop.cluster.host_prefix / "easybuild/tools"
    shop.toy("same")
    shop.lock("same")
    done = shop.build("same", "--partition", "small")
    assert done.code == 0, done.stderr
    assert "same" in shop.store()
    assert [*tools.iterdir()] == []


@pytest.mark.slow
@pytest.mark.soak
def test_easybuild_that_a_node_cannot_use_is_installed_privately_before_jobs_are_sent(shop: Shop) -> None:
    cluster = shop.cluster
    tools, wheels = cluster.host_prefix / "easybuild/tools", cluster.host_prefix / "wheels"
    main = own_places().packages / "easybuild/main.py"
    shop.toy("other")
    shop.lock("other")
    lock = (
        SITE.parent / "recipes/other/1.0/easybuild-lock.yml"
    )  # as before locks had the files: those here are wheels of our own
    without = r"/^easybuild_files:/,/^[a-z]/{/^easybuild_files:/d;/^[- ]/d}"
    cluster.exec("login", ["sed", "-i", without, lock], check=True)
    write_wheels(wheels)
    try:
        with shadowed_file(cluster, "c1", main, "raise SystemExit('not that of the lock')\n"):
            words = shop.words("other", "--partition", "small")
            done = cluster.envmgr(words, env=environ_of(Path("/cluster/sw/wheels")))
        assert done.code == 0, done.stderr
        own = contents_sum(own_places())
        told = r"EasyBuild 5\.4\.1: envmgr's own is not used: on c1: its sha256 is ([0-9a-f]{64}), the lock says ([0-9a-f]{64})"
        ((there, locked),) = re.findall(told, done.stderr)
        assert locked == own
        assert there != own
        sent = done.stderr.index("Slurm job")
        assert done.stderr.index("EasyBuild 5.4.1 install: done in ") < sent
        home = tools / EASYBUILD
        assert contents_sum(Places(next(home.glob("lib/python3*/site-packages")), home)) == own
        assert "other" in shop.store()
    finally:
        remove_tree(wheels)
        for each in tools.iterdir():
            remove_tree(each)


def test_source_of_a_wheels_entry_is_built_by_a_job_without_a_network(shop: Shop) -> None:
    """The catalog lies on the login node alone; sources, wheels and patches go with the job."""
    cluster = shop.cluster
    house = Wheelhouse(cluster.host_prefix / "mirror" / "house")
    house.add(*builders())
    house.sdist("here", "1.0", pure("here"))
    shop.write_site(backends={"wheels": {"indexes": {"house": {"url": "file:///cluster/sw/mirror/house/simple"}}}})
    patch = '--- a/here.py\n+++ b/here.py\n@@ -1 +1 @@\n-VERSION = "1.0"\n+VERSION = "patched"\n'
    given = {"file": "here.patch", "sha256": sha256_bytes(patch.encode())}
    wanted = {"python": "system", "requirements": ["here"], "indexes": ["house"], "build": ["here"], "patches": [given]}
    folder = cluster.recipe("some/1.0", [], backend="wheels", input=wanted)
    cluster.write("login", folder / "here.patch", patch)
    locked = cluster.envmgr(["lock", "some/1.0"])
    assert locked.code == 0, locked.stderr
    done = shop.build("some")
    assert done.code == 0, done.stderr
    record = json.loads(next(cluster.host_prefix.glob("store/some/*.manifest.json")).read_text())["provenance"]
    assert (record["user"], [each["network"] for each in record["made"]]) == ("rsw", ["none"])
    assert record["host"] in cluster.compute
