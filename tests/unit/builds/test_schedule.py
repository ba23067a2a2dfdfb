"""Installs made side by side: what one that fails does to the others."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import cast

import pytest

from envmgr.backends import LoadedLock
from envmgr.builds import Ensured
from envmgr.builds.schedule import Work, make_all, raise_first
from envmgr.catalog.names import Entry
from envmgr.catalog.recipe import Recipe
from envmgr.errors import Bug, EnvmgrError
from envmgr.store.manifest import InstallFacts
from envmgr.store.prefix import Install, Item, Prefix
from envmgr.system.run import Runner
from tests.helpers.waiting import DEADLINE


def work(root: Path, name: str, *needs: Work) -> Work:
    """Of an install that only its label and its needs are asked of."""
    install = Install(Prefix(root), Entry(name, "1.0"), "0123456789abcdef" * 4)
    item = Item(install, tuple(n.item.install for n in needs))
    return Work(cast("Recipe", None), cast("LoadedLock", None), item)


def test_what_nobody_expected_of_one_install_fails_only_it_and_what_stands_on_it(tmp_path: Path) -> None:
    broken, slow = work(tmp_path, "broken"), work(tmp_path, "slow")
    stands = work(tmp_path, "stands", broken)
    failed, runner = threading.Event(), Runner()

    def make(each: Work, cores: int) -> Ensured:
        if each is broken:
            failed.set()
            raise ValueError("surprise")
        assert failed.wait(DEADLINE)
        runner.cancel.wait(0.5)  # as long as a build takes
        runner.raise_if_cancelled()
        return Ensured(each.item.install, True, InstallFacts(), "", 0.0)

    outcome = make_all([broken, slow, stands], runner, jobs=2, make=make)
    assert list(outcome.done) == [slow.label]
    assert outcome.left == (stands.label,)
    with pytest.raises(Bug) as caught:
        raise_first(outcome, {slow.label: "slow/1.0"})
    error = caught.value
    assert (error.reference, error.exit_code) == ("bug", 4)
    assert error.message == "broken/1.0-01234567: envmgr did not expect ValueError: surprise"
    assert error.context[0] == "Traceback (most recent call last):"
    assert error.context[-3:] == (
        "ValueError: surprise",
        "not tried, because it stands on that: stands/1.0-01234567",
        "built and kept for the next run: slow/1.0",
    )


def test_interrupt_ends_the_others(tmp_path: Path) -> None:
    one, other = work(tmp_path, "one"), work(tmp_path, "other")
    runner = Runner()

    def make(each: Work, cores: int) -> Ensured:
        if each is one:
            raise KeyboardInterrupt
        assert runner.cancel.wait(DEADLINE)
        raise EnvmgrError("build-failed", "cancelled")

    with pytest.raises(KeyboardInterrupt):
        make_all([one, other], runner, jobs=2, make=make)
