"""Holds: what a running build will need is kept from gc."""

from __future__ import annotations

import json
import os
from pathlib import Path

from envmgr.builds.slurm.folder import requested_installs
from envmgr.report import SilentReporter
from envmgr.store.jobtable import held_installs, holding
from envmgr.store.prefix import Prefix
from envmgr.system.run import Runner


def test_hold_counts_as_long_as_its_run_lives(tmp_path: Path) -> None:
    prefix = Prefix(tmp_path)
    with holding(prefix, ["store/a/1-01234567"], Runner(), SilentReporter()):
        assert held_installs(prefix, renew=True) == {"store/a/1-01234567"}
        (path,) = prefix.holds.iterdir()
        text = path.read_text()
    assert held_installs(prefix, renew=True) == set()
    assert not path.exists()
    path.write_text(json.dumps(json.loads(text) | {"ticks": 1}))
    assert held_installs(prefix, renew=True) == set()
    path.write_text(json.dumps(json.loads(text) | {"host": "elsewhere"}))
    assert held_installs(prefix, renew=True) == {"store/a/1-01234567"}
    os.utime(path, (1, 1))
    assert held_installs(prefix, renew=True) == set()
    path.write_text("{")
    assert held_installs(prefix, renew=True) == set()


def test_list_of_holds_is_not_an_old_one_of_nfs(tmp_path: Path) -> None:
    """This host changes a name in the folder before it lists them: what it would be told may be a minute old otherwise."""
    prefix = Prefix(tmp_path)
    for folder, listed in ((prefix.holds, held_installs), (prefix.slurm_jobs, requested_installs)):
        assert listed(prefix, renew=True) == set()
        assert not folder.exists()
        folder.mkdir(parents=True)
        os.utime(folder, (1, 1))
        assert listed(prefix, renew=True) == set()
        assert folder.stat().st_mtime > 1
        assert not list(folder.iterdir())
        os.utime(folder, (1, 1))
        assert listed(prefix, renew=False) == set()
        assert folder.stat().st_mtime == 1  # a dry run changes nothing
