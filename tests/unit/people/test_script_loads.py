"""The lines of job scripts that load modules, in the ways in which people write them."""

from __future__ import annotations

import pytest

from envmgr.people.script_loads import script_loads


@pytest.mark.parametrize(
    ("script", "found"),
    [
        ("module load sci/1.0", "+sci/1.0"),
        ("  module add 'sci/1.0' \"b\" # c", "+sci/1.0 +b"),
        ("module -s load x/1", "+x/1"),
        ("module --ignore_cache load x/1 2>/dev/null", "+x/1"),
        ("module load x/1 >log 2>&1 || exit 1", "+x/1"),
        ("module load x/1 &> log", "+x/1"),
        ("module purge; module load x/1", "purge +x/1"),
        ("if true; then module load x/1; fi", "+x/1"),
        ("time FOO=1 module load x/1&&run", "+x/1"),
        ("(module load x/1)", "+x/1"),
        ("module load a \\\n  b/2\nmodule load c", "+a +b/2 +c"),
        ("module swap a/1 a/2", "-a/1 +a/2"),
        ("module swap a/2", "+a/2"),
        ("module unload a", "-a"),
        ("ml", ""),
        ("ml a -b c/d/1", "-b +a +c/d/1"),
        ("ml load a", "+a"),
        ("ml purge", "purge"),
        ("module reset", "purge"),
        ("module restore mine", "purge ?module restore mine"),
        ("ml avail a; module list; module use /x", ""),
        ("module load $WANTED", "?module load $WANTED"),
        ("module load a ${b}", "+a ?module load a ${b}"),
        ("echo 'module load a'; # module load b", ""),
        ("echo it's no module", "?echo it's no module"),
        ("mymodule load a; module_load b; html c", ""),
    ],
)
def test_a_line_is_read_as_the_shell_reads_it(script: str, found: str) -> None:
    marks = {"load": "+", "unload": "-", "unread": "?", "purge": "purge"}
    assert " ".join(f"{marks[step]}{name}" for step, name in script_loads(script)) == found
