"""Invariant 4 of EasyBuild's installs: two users build one tree, or the manifest has the path that made the difference."""

from __future__ import annotations

from tests.helpers.easybuild.workshop import AM_ROOT, BUILD_USER, Workshop
from tests.helpers.second_build import build_here_and_elsewhere

# What a build could write of where, as whom and with what it runs; not where its source lies.
TELLS = """\
all:
\tcc -O2 -ffile-prefix-map=$(CURDIR)=. -g -o toy toy.c
install: all
\tmkdir -p $(PREFIX)/bin
\tcp toy $(PREFIX)/bin/
\tumask >$(PREFIX)/told
\tdate -d @$$SOURCE_DATE_EPOCH >>$(PREFIX)/told
\techo $$LANG $$LC_ALL $$TZ $$PYTHONHASHSEED >>$(PREFIX)/told
"""
TOY = "#include <stdio.h>\nint main(void) { puts(__DATE__ __TIME__); return 0; }\n"


def test_two_users_build_one_tree(workshop: Workshop) -> None:
    """With a second toy, on which the first one stands."""
    workshop.toy("below")
    workshop.toy("toy", files={"Makefile": TELLS, "toy.c": TOY}, dependencies=[("below", "1.0")])
    workshop.locked("toy/1.0", "toy-1.0.eb")
    (workshop.root / "build").chmod(0o1777)
    first, second = build_here_and_elsewhere(workshop, "toy/1.0", "daemon")
    assert (second["user"], second["host"]) == ("daemon" if AM_ROOT else first["user"], "elsewhere")
    assert "made" not in first | second


def test_path_of_a_build_that_is_in_its_files_is_named(workshop: Workshop) -> None:
    """By the build, the manifest, `show` and `verify`, also where another entry stands on it."""
    workshop.toy("below", buildopts="CFLAGS=-g && cc -g -o toy toy.c")
    workshop.toy("toy", dependencies=[("below", "1.0")])
    workshop.locked("toy/1.0", "toy-1.0.eb")
    done = workshop.ok("build", "toy/1.0")
    below, _ = workshop.items()
    place = f"{workshop.root}/build/envmgr-build-{BUILD_USER}/{below.replace('/', '-')}"
    assert (
        f"{below.replace('/', ' ')}: its files have the path {place} in them: built elsewhere, they may differ\n"
        in done.stderr
    )
    note = f"not reproducible: store/{below} was built in {place}"
    assert workshop.ok("list", "toy/1.0", "--format", "json").data["notes"] == [note]
    assert f"published, {note}\n" in workshop.ok("list", "toy/1.0").stdout
    line = f"not reproducible: store/{below}: built in {place}: elsewhere, or by another user, its files may differ\n"
    assert line in workshop.ok("verify").stdout
    assert workshop.ok("verify", "--format", "json").data["made_at"] == {f"store/{below}": [place]}
