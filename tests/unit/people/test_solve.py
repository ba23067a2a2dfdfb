"""What a user may replace, what may break by it, and the words of a clash. Resolution itself: tests/sandbox/people."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from envmgr.errors import InputError
from envmgr.modules.families import NO_FAMILIES
from envmgr.modules.spec import EnvOp, ModuleSpec, applied
from envmgr.people.base import BaseEntry, BasePackage, named_in
from envmgr.people.lock import UserLock
from envmgr.people.solve import Wish, may_break, solve
from envmgr.report import SilentReporter
from envmgr.system.run import Runner
from envmgr.wheels.lockfile import LockedRow, LockedWheels
from tests.helpers.evidence import site

SPEC = ModuleSpec(name="sci", version="1", root="/p/store/sci/1-0", digest="0" * 64, description="", homepage="")
BASE = BaseEntry(
    entry="sci/1",
    number=1,
    spec=SPEC,
    families=NO_FAMILIES,
    environment=(),
    installs=(Path("/p/store/sci/1-0"),),
    version="3.11.7",
    programs=Path("/p/store/sci/1-0/bin"),
    packages={
        "numpy": BasePackage("1.26.4", (), ()),
        "scipy": BasePackage("1.12", ("numpy<1.29", "mpmath; extra == 'more'", "not a requirement !"), ()),
    },
    beside=(),
)


def lock(**versions: str) -> UserLock:
    rows = tuple(LockedRow(name=name, version=version, sha256="a" * 64) for name, version in versions.items())
    wheels = LockedWheels(python="3.11.7", platform="x86_64-manylinux_2_28", rows=rows)
    return UserLock(on="sci/1", base="0" * 64, requirements=(), replaced=tuple(versions), wheels=wheels)


def test_what_needs_another_version_than_the_replaced_one_may_break() -> None:
    assert may_break(lock(numpy="2.1"), BASE) == ["scipy 1.12 needs numpy<1.29, and gets 2.1"]
    assert may_break(lock(numpy="1.27"), BASE) == []
    assert may_break(lock(numpy="2.1", scipy="1.15"), BASE) == []


@pytest.mark.parametrize(
    ("name", "environment", "reference"),
    [
        ("pandas", (), "not-in-base"),
        ("NumPy", (EnvOp(kind="prepend", name="PYTHONPATH", value="/p/x"),), "not-replaceable"),
    ],
)
def test_what_cannot_be_replaced_is_refused_before_any_index_is_asked(
    name: str, environment: tuple[EnvOp, ...], reference: str
) -> None:
    base = replace(BASE, environment=environment)
    with pytest.raises(InputError) as caught:
        solve(Wish((), replaced=(name,)), base, dict, site(), Runner(), SilentReporter())
    assert caught.value.reference == reference


def test_packages_of_the_entry_that_a_resolver_names() -> None:
    words = ["Because on-new==1.0 depends on NumPy==1.26.4 and numpy>=2", "you require scipy==1.12"]
    assert named_in(words, BASE.packages) == ["numpy", "scipy"]


def test_environment_after_a_load() -> None:
    changes = (
        EnvOp(kind="prepend", name="PATH", value="/a"),
        EnvOp(kind="append", name="PATH", value="/z"),
        EnvOp(kind="set-default", name="KEPT", value="no"),
        EnvOp(kind="set-default", name="NEW", value="yes"),
        EnvOp(kind="set", name="OWN", value="${HOME}/x$$", at_load=True),
        EnvOp(kind="unset", name="GONE"),
        EnvOp(kind="prepend", name="FLAGS", value="-I/a", separator=" "),
    )
    before = {"PATH": "/usr/bin", "KEPT": "mine", "GONE": "x", "HOME": "/h", "FLAGS": "-O2"}
    assert applied(changes, before) == {
        "PATH": "/a:/usr/bin:/z",
        "KEPT": "mine",
        "NEW": "yes",
        "OWN": "/h/x$",
        "HOME": "/h",
        "FLAGS": "-I/a -O2",
    }
