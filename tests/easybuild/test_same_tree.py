"""Invariant 4 of EasyBuild's installs: two users build one tree, or the manifest has the path that made the difference."""

from __future__ import annotations

from tests.helpers.eb_scene import AM_ROOT, Workshop
from tests.helpers.elsewhere import build_here_and_elsewhere

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
TOY = '#include <stdio.h>\nint main(void) { puts(__DATE__ __TIME__); return 0; }\n'


def test_two_users_build_one_tree(workshop: Workshop) -> None:
    """With a second toy, on which the first one stands."""
    workshop.toy("below")
    workshop.toy("toy", files={"Makefile": TELLS, "toy.c": TOY}, dependencies=[("below", "1.0")])
    workshop.locked("toy/1.0", "toy-1.0.eb")
    if AM_ROOT:
        workshop.root.joinpath("build").chmod(0o1777)
    first, second = _both(workshop)
    assert first["host"] != second["host"]


def _both(workshop: Workshop):
    return build_here_and_elsewhere(workshop, "toy/1.0", "daemon")
