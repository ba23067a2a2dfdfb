"""One script on many nodes, by ssh, srun and sbatch, on the real cluster: good days, bad nodes, and what stays behind."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.cluster import Cluster, faults
from tests.helpers.waiting import DEADLINE, long_enough, soon

VIAS = ["ssh", "slurm"]

# Runs on the login node: argv[1] is a JSON object; one JSON line for each reply, at last one with what else is known.
DRIVER = """
import json, os, resource, sys, threading
from envmgr.nodes import batch, fanout
from envmgr.errors import EnvmgrError
from envmgr.system.run import Runner
from envmgr.catalog.site import (load_site)

spec = json.loads(sys.argv[1])
site = load_site(None, {"HOME": "/root"})
transport = {"persist": 0.0, "connect_timeout": 30.0, "node_timeout": 240.0} | spec.get("transport", {})
site = site.model_copy(update={"transport": site.transport.model_copy(update=transport)})
print(json.dumps({"pid": os.getpid()}), flush=True)

def on_reply(reply):
    print(json.dumps({
        "node": reply.node, "status": reply.status, "text": reply.text[-2000:], "reason": reply.reason,
        "began": reply.began, "ended": reply.ended,
    }), flush=True)

def ask():
    verb = batch.batch_on_nodes if spec["via"] == "batch" else fanout.ask_nodes
    more = {} if spec["via"] == "batch" else {"via": spec["via"]}
    verb(spec["nodes"], spec["script"], site=site, runner=Runner(), on_reply=on_reply, **more, **spec.get("options", {}))

last = {}
try:
    if spec.get("thread"):
        thread = threading.Thread(target=ask)
        thread.start()
        thread.join()
    else:
        for _ in range(spec.get("times", 1)):
            ask()
except EnvmgrError as error:
    last["error"] = str(error)
last |= {"memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
         "files": len(os.listdir("/proc/self/fd"))}
print(json.dumps(last), flush=True)
"""


class Answers:
    """What the driver printed."""

    def __init__(self, text: str) -> None:
        lines = [json.loads(line) for line in text.splitlines()]
        self.pid = lines[0]["pid"]
        self.replies = [line for line in lines if "node" in line]
        self.last = lines[-1]

    @property
    def by_node(self) -> dict[str, tuple[str, str]]:
        """node -> (status, the text when it answered or the reason when not), each node once."""
        assert len({r["node"] for r in self.replies}) == len(self.replies)
        return {r["node"]: (r["status"], r["text"] if r["status"] == "answered" else r["reason"]) for r in self.replies}


def argv(via: str, nodes: list[str], script: str, **spec: Any) -> list[str]:
    return [sys.executable, "-c", DRIVER, json.dumps({"via": via, "nodes": nodes, "script": script, **spec})]


def ask(cluster: Cluster, via: str, nodes: list[str], script: str, *, user: str = "root", **spec: Any) -> Answers:
    done = cluster.exec("login", argv(via, nodes, script, **spec), user=user)
    assert done.stderr == "", done.stderr
    return Answers(done.stdout)


def left(cluster: Cluster, *words: str) -> list[str]:
    """What still runs anywhere and has one of the words in its command line."""
    return [
        f"{node}: {line}"
        for node in ("login", *cluster.compute)
        for line in cluster.processes(node)
        if any(word in line for word in words)
    ]


def jobs(cluster: Cluster) -> str:
    return cluster.exec("login", ["squeue", "-h", "-o", "%i %j %T"]).stdout


@contextmanager
def hanging_shell(cluster: Cluster, node: str, text: str) -> Iterator[None]:
    """Whatever is asked of the node over ssh, `text` is what a shell does first."""
    with faults.prefixed(cluster, node, Path("/root/.bashrc"), text):
        yield


# -- good days ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("via", [*VIAS, "batch"])
def test_each_node_answers_once(cluster: Cluster, via: str) -> None:
    options = {"export": "ALL"} if via == "batch" else {}
    found = ask(cluster, via, ["c1", "c2", "c3", "c2"], "uname -n; id -un; exit 3", options=options)
    assert found.by_node == {node: ("answered", f"{node}\nroot\n") for node in cluster.compute}
    assert {r["reason"] for r in found.replies} == {"the script ended with status 3"}
    assert all(r["began"] <= r["ended"] <= time.time() for r in found.replies)
    assert soon(lambda: jobs(cluster) == "")


@pytest.mark.parametrize("via", VIAS)
def test_an_unprivileged_user_may_ask(cluster: Cluster, via: str) -> None:
    found = ask(cluster, via, ["c1", "c2"], "id -un", user="alice")
    assert found.by_node == dict.fromkeys(("c1", "c2"), ("answered", "alice\n"))


def test_root_may_ask_as_somebody_else(cluster: Cluster) -> None:
    for via in VIAS:
        found = ask(cluster, via, ["c1"], "id -un; pwd", options={"user": "alice"})
        assert found.by_node["c1"][1].splitlines()[0] == "alice", via


def test_ask_nodes_can_be_called_twice_and_from_a_thread(cluster: Cluster) -> None:
    twice = ask(cluster, "ssh", ["c1", "c2"], "echo ok", times=2)
    assert [r["text"] for r in twice.replies] == ["ok\n"] * 4
    assert twice.last["files"] <= 4
    thread = ask(cluster, "ssh", ["c1", "c2"], "echo ok", thread=True)
    assert thread.by_node == {"c1": ("answered", "ok\n"), "c2": ("answered", "ok\n")}


def test_ask_nodes_keeps_to_the_fanout(cluster: Cluster) -> None:
    found = ask(cluster, "ssh", ["c1", "c2", "c3"], "sleep 0.3", transport={"fanout": 1})
    times = sorted((r["began"], r["ended"]) for r in found.replies)
    assert all(ended <= began for (_, ended), (began, _) in pairwise(times))


def test_kept_connections_are_used_again_and_a_dead_one_does_no_harm(cluster: Cluster) -> None:
    """Within `persist` seconds the next command takes the same connection; `fresh` takes its own."""
    port = "echo ${SSH_CONNECTION% * *}"
    kept = {"persist": 60.0}
    try:
        first = ask(cluster, "ssh", ["c1"], port, transport=kept).by_node["c1"]
        assert ask(cluster, "ssh", ["c1"], port, transport=kept).by_node["c1"] == first
        assert ask(cluster, "ssh", ["c1"], port, transport=kept, options={"fresh": True}).by_node["c1"] != first
        assert cluster.sh("login", "stat -c '%a %U' /tmp/envmgr-ssh-0").stdout == "700 root\n"
        cluster.sh("c1", "pkill -f '^sshd: root@nott[y]'")  # the node drops it; our end does not know yet
        again = ask(cluster, "ssh", ["c1"], port, transport=kept).by_node["c1"]
        assert again[0] == "answered"
        assert again != first
        cluster.sh("login", "pkill -KILL -f '[e]nvmgr-ssh-0.*mux'")  # a socket, and nobody
        assert ask(cluster, "ssh", ["c1"], "echo ok", transport=kept).by_node == {"c1": ("answered", "ok\n")}
    finally:
        cluster.sh("login", "pkill -f '[e]nvmgr-ssh-0.*mux'")
        assert soon(lambda: not left(cluster, "envmgr-ssh-0"))


def test_connections_are_not_kept_in_a_folder_of_somebody_else(cluster: Cluster) -> None:
    cluster.sh("login", "rm -rf /tmp/envmgr-ssh-0; install -d -m 777 -o alice /tmp/envmgr-ssh-0")
    try:
        found = ask(cluster, "ssh", ["c1"], "echo ok", transport={"persist": 3.0})
        assert found.by_node == {"c1": ("answered", "ok\n")}
        assert cluster.sh("login", "ls -A /tmp/envmgr-ssh-0").stdout == ""
    finally:
        cluster.sh("login", "rm -rf /tmp/envmgr-ssh-0")


def test_become_runs_the_script_by_sudo(cluster: Cluster) -> None:
    """Root login is off on many clusters: an ordinary account, then `sudo -n`."""
    sudo = {"user": "alice", "become": "sudo -n"}
    found = ask(cluster, "ssh", ["c1"], "id -un", transport=sudo)
    assert found.by_node == {"c1": ("silent", "sudo: a password is required")}
    cluster.write("c1", "/etc/sudoers.d/alice", "alice ALL=(root) NOPASSWD: /bin/sh -s, /usr/bin/sh -s\n", 0o440)
    try:
        found = ask(cluster, "ssh", ["c1"], "id -un", transport=sudo)
        assert found.by_node == {"c1": ("answered", "root\n")}

        def asked(limit: float) -> tuple[str, Answers]:
            script = "touch /run/begun; sleep 1265"
            return f"{limit:g}", ask(cluster, "ssh", ["c1"], script, transport=sudo, options={"timeout": limit})

        begun = ["rm", "/run/begun"]
        limit, gone = long_enough(asked, lambda _: cluster.exec("c1", begun).returncode == 0, first=1)
        assert gone.by_node == {"c1": ("silent", f"no answer in {limit} s")}
        assert soon(lambda: not left(cluster, "sleep 1265", "sudo"))
    finally:
        cluster.sh("c1", "rm /etc/sudoers.d/alice")


# -- bad nodes ---------------------------------------------------------------------------------------------------------


def test_a_banner_does_no_harm(cluster: Cluster) -> None:
    with faults.banner(cluster, "c1", "Welcome!\n--envmgr:feed:begin--\nno newline at the end"):
        for via in VIAS:
            found = ask(cluster, via, ["c1"], "echo answer")
            assert found.by_node == {"c1": ("answered", "answer\n")}


def test_a_node_without_sshd_refuses(cluster: Cluster) -> None:
    with faults.sshd_stopped(cluster, "c2"):
        found = ask(cluster, "ssh", ["c1", "c2"], "echo ok")
        assert found.by_node == {"c1": ("answered", "ok\n"), "c2": ("unreachable", "Connection refused (port 22)")}
        assert ask(cluster, "slurm", ["c2"], "echo ok").by_node == {"c2": ("answered", "ok\n")}


def test_a_node_with_another_host_key_is_not_trusted(cluster: Cluster) -> None:
    with faults.changed_host_key(cluster, "c2"):
        weaker = "StrictHostKeyChecking no\nUserKnownHostsFile /dev/null\n"
        cluster.write("login", "/root/.ssh/config", weaker, 0o600)
        try:
            found = ask(cluster, "ssh", ["c1", "c2"], "echo ok")
        finally:
            cluster.sh("login", "rm /root/.ssh/config")
        assert found.by_node["c2"] == ("unreachable", "Host key verification failed")


def test_a_user_who_may_not_log_in_is_told(cluster: Cluster) -> None:
    found = ask(cluster, "ssh", ["c1"], "echo ok", options={"user": "nobody"})
    assert found.by_node["c1"][0] == "unreachable"
    assert found.by_node["c1"][1].startswith("Permission denied (publickey")


def connected(cluster: Cluster, nodes: list[str]) -> Answers:
    """What nodes say of which c1 is well, with the first connect_timeout that was long enough for c1."""
    return long_enough(
        lambda limit: ask(cluster, "ssh", nodes, "echo ok", transport={"connect_timeout": limit}),
        lambda found: found.by_node["c1"][0] == "answered",
        first=1,
    )


def test_dead_and_unknown_nodes_cost_a_connect_timeout(cluster: Cluster) -> None:
    with faults.dead_node(cluster, "c3"):
        found = connected(cluster, ["c1", "c3", "nosuch"])
    assert found.by_node["c1"] == ("answered", "ok\n")
    assert found.by_node["c3"] in [("unreachable", reason) for reason in faults.OFF]
    assert found.by_node["nosuch"] == ("unreachable", "Could not resolve hostname")


def test_a_frozen_node_is_given_up_in_time(cluster: Cluster) -> None:
    with faults.frozen_node(cluster, "c3"):
        found = connected(cluster, ["c1", "c3"])
    assert found.by_node == {
        "c1": ("answered", "ok\n"),
        "c3": ("unreachable", "Connection timed out during banner exchange"),
    }


@pytest.mark.parametrize(
    ("shell", "status", "reason"),
    [
        ("echo garbage; exit 0\n", "silent", 'no answer among 8 B of output, which begin "garbage"'),
        ("exit 0\n", "silent", "no answer: ended with status 0"),
        (
            "printf '\\n--envmgr:feedbeef:begin--\\nx\\n--envmgr:feedbeef:end:0:9--\\n'; exit 0\n",
            "silent",
            "the answer of another run (feedbeef, asked by abc123)",
        ),
        ("echo 'disk quota exceeded' >&2; exit 1\n", "silent", "disk quota exceeded"),
        ("head -c 100000000 /dev/zero; exit\n", "silent", "cut off after 5.3 MB of output: no answer among it"),
        ("yes; exit\n", "silent", "cut off after 5.3 MB of output: no answer among it"),
        ("head -c 100000000 /dev/zero >&2; sleep 1299\n", "silent", "cut off after 0 B of output: no answer among it"),
    ],
)
def test_a_node_that_answers_nonsense_is_silent_and_says_why(
    cluster: Cluster, shell: str, status: str, reason: str
) -> None:
    with hanging_shell(cluster, "c2", shell):
        found = ask(cluster, "ssh", ["c1", "c2"], "echo ok", options={"scratch_nonce": "abc123"})
    said = found.by_node["c2"]
    if reason.startswith("cut off after 5"):  # a read more or less
        assert said[0] == "silent"
        assert said[1].startswith("cut off after 5.")
        assert said[1].endswith("no answer among it")
    else:
        assert said == (status, reason)
    assert found.by_node["c1"] == ("answered", "ok\n")
    assert found.last["memory"] < 100


@pytest.mark.parametrize("via", VIAS)
def test_a_long_answer_is_cut_on_the_node(cluster: Cluster, via: str) -> None:
    found = ask(cluster, via, ["c1"], "head -c 100000000 /dev/zero", options={"limit": 10_000})
    assert found.by_node == {"c1": ("silent", "the answer is longer than 10.0 kB")}


def test_half_an_answer_is_told_from_none(cluster: Cluster) -> None:
    """The node dies when the text is on its way: after the first wait that was long enough for it."""
    found = long_enough(
        lambda wait: ask(cluster, "ssh", ["c1"], f"echo some text; sleep {wait:g}; kill -KILL $PPID $$"),
        lambda found: found.by_node["c1"][1].startswith("half an answer: "),
    )
    assert found.by_node["c1"][0] == "silent"
    assert found.by_node["c1"][1].startswith("half an answer: ")


@pytest.mark.parametrize("via", [*VIAS, "batch"])
def test_a_node_that_hangs_is_silent_in_time_and_left_clean(cluster: Cluster, via: str) -> None:
    export = {"export": "ALL"} if via == "batch" else {}
    script = "case $(uname -n) in c2) sleep 1266;; esac; echo ok"

    def asked(limit: float) -> tuple[str, Answers]:
        return f"{limit:g}", ask(cluster, via, ["c1", "c2", "c3"], script, options={"timeout": limit, **export})

    limit, found = long_enough(asked, lambda done: done[1].by_node["c1"] == done[1].by_node["c3"], first=1)
    assert found.by_node == {
        "c1": ("answered", "ok\n"),
        "c2": ("silent", f"no answer in {limit} s"),
        "c3": ("answered", "ok\n"),
    }
    assert soon(lambda: not left(cluster, "sleep 1266") and not jobs(cluster))
    assert soon(lambda: cluster.slurm_state("c2") == "idle")


@pytest.mark.parametrize("via", [*VIAS, "batch"])
def test_the_deadline_ends_everything(cluster: Cluster, via: str) -> None:
    export = {"export": "ALL"} if via == "batch" else {}

    def asked(limit: float) -> tuple[str, Answers]:
        options = {"deadline": limit, **export}
        found = ask(cluster, via, ["c1", "c2", "c3"], "sleep 1267", options=options, transport={"fanout": 2})
        return f"{limit:g}", found

    limit, found = long_enough(
        asked, lambda done: done[1].by_node["c1"][0] == done[1].by_node["c2"][0] == "silent", first=1.5
    )
    assert found.by_node["c3"] == ("unreachable", f"not asked: the deadline of {limit} s was over")
    for node in ("c1", "c2"):
        status, reason = found.by_node[node]
        assert status == "silent"
        assert reason.startswith("no answer in ")
        assert reason.endswith(f" s: the deadline of {limit} s was over")
    assert soon(lambda: not left(cluster, "sleep 1267") and not jobs(cluster))


def test_a_child_that_is_left_behind_does_not_hold_the_answer(cluster: Cluster) -> None:
    script = "sleep 1268 >/dev/null 2>&1 & (trap '' TERM; sleep 1268) >/dev/null 2>&1 & echo ok"
    for via in VIAS:
        found = ask(cluster, via, ["c1"], script)
        assert found.by_node == {"c1": ("answered", "ok\n")}
        assert soon(lambda: not left(cluster, "sleep 1268"))
    assert soon(lambda: cluster.slurm_state("c1") == "idle")  # and Slurm has nothing to drain the node for


# -- Slurm's nodes -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("via", ["slurm", "batch"])
def test_slurm_says_why_a_node_takes_no_job(cluster: Cluster, via: str) -> None:
    assert soon(lambda: all(cluster.slurm_state(node) == "idle" for node in cluster.compute))  # and not `idle*`
    cluster.sh("login", "scontrol update node=c2 state=drain reason='bad fan'", check=True)
    options = {"export": "NONE"} if via == "batch" else {}
    try:
        for _ in range(10):  # a late word of its slurmd takes the node back (ReturnToService=2)
            cluster.sh("login", "scontrol update node=c3 state=down reason='dead disk'", check=True)
            found = ask(cluster, via, ["c1", "c2", "c3", "c9"], "echo ok", options=options)
            if found.by_node["c3"][0] == "unreachable":
                break
    finally:
        cluster.sh("login", "for n in c2 c3; do scontrol update node=$n state=resume; done")
        cluster.wait_idle()
    assert found.by_node == {
        "c1": ("answered", "ok\n"),
        "c2": ("unreachable", "Slurm: drained: bad fan"),
        "c3": ("unreachable", "Slurm: down: dead disk"),
        "c9": ("unreachable", "no partition of Slurm has this node"),
    }


@pytest.mark.parametrize(
    ("via", "reason"),
    [
        ("slurm", "busy: no step could start within {limit} s; the node was allocated"),
        ("batch", "busy: the job did not start within {limit} s (Resources); the node was allocated"),
    ],
)
def test_a_busy_node_is_not_waited_for(cluster: Cluster, via: str, reason: str) -> None:
    busy = cluster.start("login", ["srun", "-Q", "--exclusive", "-w", "c2", "sleep", "1269"])
    try:
        assert soon(lambda: cluster.slurm_state("c2") == "allocated")
        options = {"export": "NONE"} if via == "batch" else {}

        def asked(limit: float) -> tuple[str, Answers]:
            patience = {"queue_timeout": limit}
            return f"{limit:g}", ask(cluster, via, ["c1", "c2"], "echo ok", options=options, transport=patience)

        limit, found = long_enough(asked, lambda done: done[1].by_node["c1"][0] == "answered", first=1)
    finally:
        cluster.sh("login", "scancel --state=RUNNING --user=root")
        busy.communicate(timeout=DEADLINE)
        cluster.wait_idle()
    assert found.by_node == {"c1": ("answered", "ok\n"), "c2": ("unreachable", reason.format(limit=limit))}


@pytest.mark.parametrize("via", ["slurm", "batch"])
def test_slurms_own_words_come_through(cluster: Cluster, via: str) -> None:
    options = {"export": "NONE"} if via == "batch" else {}
    found = ask(cluster, via, ["c1"], "echo ok", options=options, transport={"slurm_options": ["--partition=nope"]})
    status, reason = found.by_node["c1"]
    assert status == "unreachable"
    assert reason.startswith("Slurm: invalid partition specified: nope")


@pytest.mark.parametrize("via", ["slurm", "batch"])
def test_every_node_is_unreachable_when_slurm_does_not_answer(cluster: Cluster, via: str) -> None:
    options = {"export": "NONE"} if via == "batch" else {}
    cluster.write(
        "login",
        "/run/slurm-nowhere.conf",
        cluster.sh("login", "cat /etc/slurm/slurm.conf").stdout.replace(
            "SlurmctldHost=", "SlurmctldPort=1\nMessageTimeout=1\nSlurmctldHost="
        ),
    )
    run = ["env", "SLURM_CONF=/run/slurm-nowhere.conf", *argv(via, ["c1", "c2"], "true", options=options)]
    found = Answers(cluster.exec("login", run).stdout)
    reason = "Slurm: Unable to contact slurm controller (connect failure)"
    assert found.by_node == dict.fromkeys(("c1", "c2"), ("unreachable", reason))


def test_a_job_lives_until_its_answer_was_brought(cluster: Cluster) -> None:
    """However slow the step is that brings it: a job that ends takes its steps along."""
    slow = '#!/bin/sh\n/run/head "$@"\n[ -z "${SLURM_STEP_ID-}" ] || sleep 3\n'
    cluster.write("c1", "/run/slow-head", slow, mode=0o755)
    cluster.sh("c1", "cp /usr/bin/head /run/head; mount --bind /run/slow-head /usr/bin/head", check=True)
    try:
        told = ask(cluster, "batch", ["c1"], "echo hello", options={"export": "NONE"}).by_node["c1"]
    finally:
        cluster.sh("c1", "umount /usr/bin/head; rm /run/head /run/slow-head", check=True)
        cluster.wait_idle()
    assert told == ("answered", "hello\n")


def test_a_batch_job_has_the_environment_of_a_users_login(cluster: Cluster) -> None:
    """The fixture's `env -i` is not what makes it so: the driver's environment has a variable of its own."""
    script = (
        'id -un; echo "${DRIVERS_OWN-none}"; type module >/dev/null 2>&1 && echo module; pwd; readlink /proc/$$/exe'
    )
    run = [
        "env",
        "DRIVERS_OWN=x",
        "MODULEPATH=/wrong",
        *argv("batch", ["c1"], script, options={"export": "ALL", "user": "alice"}),
    ]
    inherited = Answers(cluster.exec("login", run, check=True).stdout).by_node["c1"]
    assert inherited == ("answered", "alice\nnone\nmodule\n/home/alice\n/usr/bin/bash\n")
    options = {"export": "NONE", "user": "alice", "shebang": "#!/bin/sh"}
    fresh = ask(cluster, "batch", ["c1"], script, options=options).by_node["c1"]
    assert fresh == ("answered", "alice\nnone\n/home/alice\n/usr/bin/dash\n")
    assert soon(
        lambda: cluster.sh("c1", "find /tmp -maxdepth 1 -name 'envmgr-*' ! -name 'envmgr-build-*'").stdout == ""
    )


# -- the end of a run --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("via", [*VIAS, "batch"])
def test_ctrl_c_leaves_nothing_on_any_node(cluster: Cluster, via: str) -> None:
    options = {"export": "ALL"} if via == "batch" else {}
    process = cluster.start("login", argv(via, list(cluster.compute), "sleep 1270", options=options))
    stdout = process.stdout
    assert stdout is not None
    pid = json.loads(stdout.readline())["pid"]
    assert soon(lambda: len([line for line in left(cluster, "sleep 1270") if "-c" not in line]) >= 3)
    cluster.sh("login", f"kill -INT {pid}", check=True)
    out, _ = process.communicate(timeout=DEADLINE)
    assert json.loads(out.splitlines()[-1])["error"].startswith("error[interrupted]")
    assert soon(lambda: not left(cluster, "sleep 1270", "srun", "sbatch") and not jobs(cluster))
    assert soon(lambda: not cluster.sh("c1", "find /tmp -maxdepth 1 -name 'envmgr-*' ! -name 'envmgr-build-*'").stdout)
    cluster.wait_idle()


@pytest.mark.parametrize("via", VIAS)
def test_kill_9_leaves_nothing_on_any_node(cluster: Cluster, via: str) -> None:
    process = cluster.start("login", argv(via, list(cluster.compute), "sleep 1271"))
    stdout = process.stdout
    assert stdout is not None
    pid = json.loads(stdout.readline())["pid"]
    assert soon(lambda: len(left(cluster, "sleep 1271")) > 3)
    cluster.sh("login", f"kill -KILL {pid}", check=True)
    process.communicate(timeout=DEADLINE)
    assert soon(lambda: not left(cluster, "sleep 1271", "srun") and not jobs(cluster))
    cluster.wait_idle()


def test_two_runs_at_once_do_not_mix(cluster: Cluster) -> None:
    started: list[subprocess.Popen[str]] = [
        cluster.start("login", argv(via, list(cluster.compute), f"sleep 0.5; echo {via}{n}", transport={"persist": 2}))
        for n, via in enumerate(["ssh", "ssh", "slurm", "slurm"])
    ]
    for n, (process, via) in enumerate(zip(started, ["ssh", "ssh", "slurm", "slurm"], strict=True)):
        found = Answers(process.communicate(timeout=DEADLINE)[0])
        assert found.by_node == dict.fromkeys(cluster.compute, ("answered", f"{via}{n}\n"))
    assert soon(lambda: not left(cluster, "envmgr-ssh-0"))


def test_a_reply_that_cannot_be_handled_ends_the_run(cluster: Cluster) -> None:
    """What `on_reply` raises comes out, and nothing runs on."""
    code = DRIVER.replace(
        "def on_reply(reply):", "def on_reply(reply):\n    raise SystemExit(f'full disk at {reply.node}')\n"
    )
    spec = {"via": "ssh", "nodes": ["c1", "c2"], "script": "case $(uname -n) in c2) sleep 1272;; esac"}
    done = cluster.exec("login", [sys.executable, "-c", code, json.dumps(spec)])
    assert done.stderr == "full disk at c1\n"
    assert soon(lambda: not left(cluster, "sleep 1272"))


def test_interrupted_before_the_first_node_asks_nobody(cluster: Cluster) -> None:
    code = DRIVER.replace("runner=Runner()", "runner=stopped").replace(
        "last = {}", "stopped = Runner(); stopped.cancel.set()\nlast = {}"
    )
    spec = {"via": "ssh", "nodes": ["c1"], "script": "true"}
    found = Answers(cluster.exec("login", [sys.executable, "-c", code, json.dumps(spec)]).stdout)
    assert found.replies == []
    assert found.last["error"].startswith("error[interrupted]")


def test_node_sets_by_slurm(cluster: Cluster) -> None:
    code = """
from envmgr.nodes.sets import resolve_nodes
from envmgr.nodes.slurm import node_states, slurm_here
from envmgr.system.run import Runner
from envmgr.catalog.site import (load_site)
site = load_site(None, {"HOME": "/root"})
print(*resolve_nodes("@slurm:*!c2", site, Runner()), slurm_here(), node_states(Runner())["c1"])
try:
    resolve_nodes("@slurm:gpu", site, Runner())
except Exception as error:
    print(error)
"""
    assert cluster.exec("login", [sys.executable, "-c", code], check=True).stdout == (
        "c1 c3 True ('idle', '')\n"
        "error[unknown-node-group]: there is no Slurm partition `gpu`\n\nhint: there is `@slurm:all`\n"
    )
