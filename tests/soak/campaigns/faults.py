"""Faults at every call that changes files: a full disk, errors, kills, in each verb; docs/campaigns.md keeps the table.

A round is one verb on one file system: each call of rollback, lock, publish, gc, remove, and of the others some, evenly, with
each kind of fault. All are played before a fault that was found ends the campaign.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

from tests.helpers.cluster import Cluster
from tests.helpers.easybuild.workshop import ORDINARY_PYTHON, ordinary_python
from tests.helpers.faults.plots import PLOTS
from tests.helpers.faults.rounds import FAULTS, Outcome, some
from tests.helpers.faults.table import write_rows
from tests.helpers.faults.worker import Worker, command, play_all
from tests.helpers.places import CACHE, ROOT
from tests.helpers.standin.channel import cached_channel

WHOLE = ("rollback", "lock", "gc", "publish --remove", "publish")
MOST = 12
"""Calls of other verbs, for each kind of fault; and of all verbs over the network, where a round takes several times as long."""
OVER_THE_NETWORK = (
    *WHOLE,
    "build",
    "build --again",
    "build (EasyBuild)",
    "fetch",
    "node-setup",
    "node-setup --apply",
    "sign",
)
"""What changes the prefix there."""
ROUNDS = len(PLOTS) + len(OVER_THE_NETWORK)


def order() -> list[tuple[str, str]]:
    verbs = [*sorted(PLOTS.keys() - set(WHOLE)), *WHOLE]
    return [*(("local disk", verb) for verb in verbs), *(("NFSv3", verb) for verb in OVER_THE_NETWORK)]


def play(seed: int, first: int, last: int) -> Iterator[str]:
    channel = str(cached_channel(CACHE).folder)
    with ExitStack() as stack:
        workers: dict[str, list[Worker]] = {}
        for system, verb in order()[first - 1 : last]:
            if system not in workers:
                workers[system] = _workers(system, channel, stack)
            outcomes = _round(workers[system], system, verb)
            write_rows(system, verb, outcomes)
            bad = [outcome for outcome in outcomes if outcome.bad]
            assert not bad, "\n".join(map(str, bad))
            yield f"{verb}, {system}: {len(outcomes)} faults"


def _workers(system: str, channel: str, stack: ExitStack) -> list[Worker]:
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="soak-")))
    folder.chmod(0o755)  # the build user works there
    if system == "local disk":
        made = [Worker.here(folder / f"w{number}", channel) for number in range(2)]
    else:
        cluster = Cluster(folder / "lab", nodes=1, share="nfs", mount_options="-A 1 -E 1")
        cluster.up()
        stack.callback(cluster.down)
        cluster.sh("fs1", "chown root: /export/sw", check=True)  # a site file lies there
        made = []
        environ = {"PYTHONPATH": str(ROOT), ORDINARY_PYTHON: str(ordinary_python())}
        for number in range(2):
            argv = command(cluster.prefix / f"w{number}", Path(f"/tmp/w{number}"))
            made.append(Worker(cluster.start("login", [*argv, channel], env=environ)))
    for worker in made:
        stack.callback(worker.end)
    return made


def _round(workers: Sequence[Worker], system: str, verb: str) -> list[Outcome]:
    numbers = workers[0].numbers(verb)
    whole = system == "local disk" and verb in WHOLE
    asked = [(verb, fault, at) for fault in FAULTS for at in (numbers[fault] if whole else some(numbers[fault], MOST))]
    return list(play_all(workers, asked))
