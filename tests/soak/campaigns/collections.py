"""Ten publishes, three rollbacks and a gc while collections, open shells, jobs and a venv are used on nodes: no failure.

Named and default collections, in bash, zsh and csh, as node-setup and as shell-init set them up; saved in the first generation.
Open shells and jobs never fail: gc takes no generation from them.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.helpers.users import Users, make_scene, publish

ROUNDS = 14
ROLLBACKS, GC = (4, 8, 12), 14


def play(seed: int, first: int, last: int) -> Iterator[str]:
    with tempfile.TemporaryDirectory(prefix="soak-") as folder:
        scene = make_scene(Path(folder) / "lab", "bind")
        try:
            users = Users(scene)
            users.begin()
            for number in range(first, last + 1):
                if number == GC:
                    scene.envmgr("gc", "--now")  # those that are open keep their generation
                    users.start()
                elif number in ROLLBACKS:
                    scene.envmgr("rollback")
                else:
                    publish(scene)
                failed = users.check()
                assert failed == [], "\n".join(failed)
                what = "gc" if number == GC else "rollback" if number in ROLLBACKS else "publish"
                yield f"{what}: generation {scene.generation}"
        finally:
            scene.cluster.clear()  # the users' shells and jobs
            scene.cluster.down()
