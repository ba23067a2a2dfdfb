"""`make demo-cluster`: what envmgr is for, on a real cluster in namespaces of this machine.

An entry is built and published, a user's job computes with it, the audit is green; a node breaks, the audit names it, and the
audit's own hint fixes it; a collection that a user saved survives a publish. What is shown is also checked: exit 1 when an
expectation does not hold. At its end the cluster goes, with everything in it (KEEP=1 keeps it).
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from demo.cluster_session import ClusterSession
from demo.session import DemoError
from envmgr.errors import EnvmgrError
from envmgr.modules.nodesetup import SLURM_LINE
from envmgr.system.files import remove_tree
from tests.helpers.cluster import Cluster, ClusterError
from tests.helpers.cluster.__main__ import FOLDER, WAYS_IN, is_taken
from tests.helpers.cluster.config import PREFIX
from tests.helpers.cluster.needs import reason_to_skip
from tests.helpers.places import CACHE
from tests.helpers.standin.channel import cached_channel
from tests.helpers.standin.package import StandinError
from tests.helpers.standin.wheels import PYTHON, pins

ENTRY = "pydata/1.0"
NODES = "login,c[1-3]"
CHANNEL = "/mnt/channel"
CATALOG = "/etc/envmgr/recipes"
BROKEN = "/etc/profile.d/zz-envmgr.sh"
ANSWER = "[0.8 1.4]"

SITE = f"""\
schema: 1
name: demo
prefix: {PREFIX}
build_user: rsw
login_nodes: login
groups:
  compute: {{nodes: "c[1-3]"}}
transport: {{via: both, node_timeout: 240}}
audit: {{user: alice}}
slurm: {{heal_export: true}}
catalogs: [recipes]
backends:
  conda:
    channels:
      standin: {{url: "https://channel.invalid/standin", mirrors: [{CHANNEL}]}}
"""

SOFTWARE = """\
description: numpy, and what people use with it
homepage: https://numpy.org
licence: BSD-3-Clause
category: python
"""

RECIPE = """\
schema: 1
backend: conda
input:
  channels: [standin]
  specs: [python {python}.*, numpy {numpy}.*]
tests:
  - name: solve
    run: python -c 'import numpy; assert numpy.allclose(numpy.linalg.solve([[2, 1], [1, 3]], [3, 5]), [0.8, 1.4])'
"""

PROGRAM = """\
import os, numpy
print(numpy.__version__, numpy.linalg.solve([[2, 1], [1, 3]], [3, 5]), "on", os.uname().nodename)
"""
SOLVE = "python -c 'import numpy; print(numpy.__version__, numpy.linalg.solve([[2, 1], [1, 3]], [3, 5]))'"


def main() -> int:
    start = time.monotonic()
    for number in (signal.SIGTERM, signal.SIGHUP):  # clean up then, too
        if signal.getsignal(number) != signal.SIG_IGN:  # nohup
            signal.signal(number, signal.default_int_handler)
    keep = bool(os.environ.get("KEEP"))
    cluster = None
    try:
        check_machine(keep=keep)
        work = Path(tempfile.mkdtemp(prefix="envmgr-demo-"))
        cluster = Cluster(FOLDER if keep else work / "cluster")
        session = ClusterSession(cluster)
        play(session, detached=keep)
    except (EnvmgrError, DemoError, ClusterError, StandinError, OSError, subprocess.SubprocessError) as error:
        sys.stdout.flush()
        print(f"\n{error}" if isinstance(error, EnvmgrError) else f"\ndemo failed: {error}", file=sys.stderr)
        return 3 if isinstance(error, EnvmgrError) else 1
    except KeyboardInterrupt:
        print("\nstopped", file=sys.stderr)
        return 130
    finally:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):  # nothing stops the clean-up
            signal.signal(number, signal.SIG_IGN)
        if cluster is not None:
            end(cluster, work, keep=keep)
    print(f"\ndemo: all {session.checks} expectations held, {time.monotonic() - start:.0f} s")
    return 0


def check_machine(*, keep: bool) -> None:
    """Raises EnvmgrError where there can be no cluster, or another one is in its place."""
    if reason := reason_to_skip():
        raise EnvmgrError("no-cluster", reason, hint="`make demo` shows a single node")
    if keep and is_taken(FOLDER):
        raise EnvmgrError(
            "cluster-up", "a cluster is up already", hint="`make cluster-down` ends it; or leave out KEEP=1"
        )


def end(cluster: Cluster, work: Path, *, keep: bool) -> None:
    if keep and cluster.folder.exists() and cluster.running():
        print(f"\nkept, as it is now:\n{WAYS_IN}", end="", file=sys.stderr)
    else:
        cluster.down()
    remove_tree(work)


def play(session: ClusterSession, *, detached: bool) -> None:
    """The whole mission, in the order in which a site would go."""
    old, new = (pin.version for pin in pins() if pin.name == "numpy")
    boot(session, detached=detached)
    publish(session, old)
    set_up_nodes(session)
    job(session, old)
    green(session, "Is it so on every node, in every kind of shell and job?")
    hint = broken(session)
    mended(session, hint)
    collection(session, old, new)


def boot(session: ClusterSession, *, detached: bool) -> None:
    session.title("A cluster")
    session.note("packages to build from: this machine's python, and real wheels from PyPI, as a conda channel")
    channel = cached_channel(CACHE).folder
    session.note(
        "a login node, a file server and three compute nodes, each in namespaces: sshd, munge, Slurm, a shared prefix"
    )
    cluster = session.cluster
    cluster.up(detached=detached)
    cluster.put_envmgr_on_path()
    cluster.exec("login", ["ln", "-s", channel, CHANNEL], check=True)
    said = session.type(f"sinfo; ssh c1 grep {PREFIX} /proc/mounts")
    session.expect("idle" in said and str(PREFIX) in said, "Slurm has idle nodes, and the prefix is mounted on c1")


def publish(session: ClusterSession, numpy: str) -> None:
    session.title("The administrator builds and publishes an entry")
    session.note(
        "site.yaml says where things lie, a recipe what an entry is, and its lock which exact packages it is made of"
    )
    session.write("/etc/envmgr/site.yaml", SITE)
    session.write(f"{CATALOG}/pydata/software.yaml", SOFTWARE)
    session.write(f"{CATALOG}/{ENTRY}/recipe.yaml", RECIPE.format(python=PYTHON, numpy=minor(numpy)))
    session.cluster.exec("login", ["chown", "-R", "rsw:", CATALOG], check=True)
    said = session.type(f"envmgr lock {ENTRY}")
    session.expect(f"numpy {numpy}" in said, "each package is in the lock, with its sha256")
    session.note("each package is checked, the install tested through its own module, and published by one rename")
    said = session.type(f"envmgr build {ENTRY}")
    session.expect("generation 1 is current" in said, "generation 1 is published")


def set_up_nodes(session: ClusterSession) -> None:
    session.title("Nodes learn where modules are")
    session.note(
        "plain files, in every shell's start-up and for Slurm; envmgr itself is not installed on compute nodes"
    )
    said = session.type(f"envmgr node-setup --apply --nodes '{NODES}'")
    session.expect(SLURM_LINE in said, "the files are there, and the answer says what Slurm needs")
    session.type(
        f"for node in login c1 c2 c3; do ssh $node 'echo {SLURM_LINE} >>/etc/slurm/slurm.conf'; done; scontrol reconfigure"
    )
    session.cluster.wait_idle()


def job(session: ClusterSession, numpy: str) -> None:
    session.title("A user's job computes with it")
    session.note("alice has a program, and envmgr the script of a job that runs it on two nodes")
    session.write("/home/alice/solve.py", PROGRAM, user="alice")
    said = session.type(f"envmgr job {ENTRY} -N 2 -- python solve.py | tee job.sh", user="alice")
    session.expect(
        f"module load {ENTRY}" in said, "the script loads the module, and srun starts the program on each node"
    )
    said = session.type("sbatch --wait job.sh && sort pydata-*.out", user="alice")
    nodes = re.findall(rf"^{re.escape(f'{numpy} {ANSWER}')} on (\S+)$", said, re.MULTILINE)
    session.expect(len(set(nodes)) == 2, f"{' and '.join(nodes)} computed with numpy {numpy}")
    session.expect("generation 1, digest" in said, "the log says which generation and digest they had")


def green(session: ClusterSession, title: str) -> None:
    session.title(title)
    said = session.type("envmgr audit")
    held = "error[" not in said and "all 3 nodes resolve the same modules" in said
    session.expect(held, "no error: every context of root and of alice resolves this generation")


def broken(session: ClusterSession) -> str:
    """Breaks c2; returns the command of the audit's hint."""
    session.title("One node breaks")
    session.note("an update of c2 takes a file of its start-up away, and alice finds no modules in her shells there")
    session.type(f"ssh c2 rm {BROKEN}")
    session.type("ssh c2 'bash -lc \"module load pydata\"'", user="alice", status=1)
    session.note("the audit asks what shells and jobs get, not whether a file is there; it exits with 1")
    shown = session.type("envmgr audit", status=1)
    errors = errors_told(session.cluster)
    session.expect(bool(errors) and {e["nodes"] for e in errors} == {"c2"}, "the audit names c2, and no other node")
    hint = str(errors[0]["hint"])
    commands = re.findall("`(.+?)`", hint)
    session.expect(len(commands) == 1 and hint in shown, f"its first hint is a command: {hint}")
    return str(commands[0])


def errors_told(cluster: Cluster) -> list[dict[str, Any]]:
    """The errors of the same audit as its JSON has them. ssh is enough: that is where the first of them was seen."""
    done = cluster.envmgr(["audit", "--via", "ssh", "--format", "json"])
    return [f for f in done.data["findings"] if f["severity"] == "error"]


def mended(session: ClusterSession, hint: str) -> None:
    session.title("Its own hint fixes it")
    session.note("the command stands in the finding; here it is run as it is printed")
    session.type(hint)
    green(session, "And the audit is green again")


def collection(session: ClusterSession, old: str, new: str) -> None:
    session.title("A collection survives a publish")
    session.note("alice keeps a set of modules under a name, and goes home; the shell stays open")
    shell = session.login("alice")
    shell.type("module load pydata")
    shell.type("module save work")
    session.note(f"the recipe asks for numpy {minor(new)}; lock and build publish generation 2")
    session.type(f"sed -i 's/numpy {minor(old)}/numpy {minor(new)}/' {CATALOG}/{ENTRY}/recipe.yaml")
    said = session.type(f"envmgr lock {ENTRY} && envmgr build {ENTRY}")
    session.expect("generation 2 is current (was 1)" in said, "generation 2 is published, under the open shell")
    said = shell.type(SOLVE)
    session.expect(said == f"{old} {ANSWER}", f"the open shell still has numpy {old}")
    shell.close()
    session.note("the next morning, in a new login shell")
    shell = session.login("alice")
    shell.type("module restore work")
    said = shell.type(SOLVE)
    session.expect(said == f"{new} {ANSWER}", f"the collection is restored, and has what is current now: numpy {new}")
    shell.close()


def minor(version: str) -> str:
    return version.rpartition(".")[0]


if __name__ == "__main__":
    sys.exit(main())
