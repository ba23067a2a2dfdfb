"""The modules that `adopt` lists: what their files name, and on which nodes that is not there."""

from __future__ import annotations

from dataclasses import replace

from envmgr.probe.model import Fleet, Group
from envmgr.verbs.adopt import _modules
from tests.helpers.evidence import evidence


def test_software_that_a_node_lacks_is_named_with_the_node() -> None:
    line = "fftw/3.3.10|/apps/modulefiles|by hand|/apps/fftw/3.3.10"
    own = "tool/1|/opt/modulefiles|by hand|"
    answers = {"c1": f"{line}\n{own}", "c2": f"{line}|gone\n{own}", "c3": f"{line}|gone", "c4": "odd|line"}
    groups = tuple(Group({"other_modules.modules": text, "gate": "ok"}, (node,)) for node, text in answers.items())
    given = replace(evidence({}), ways={"ssh": Fleet(groups, {}, {}, ())})
    found = {module.name: module for module in _modules(given, {})}
    assert (found["fftw"].nodes, found["fftw"].missing) == ("c[1-3]", "c[2-3]")
    assert found["fftw"].software == "/apps/fftw/3.3.10 (not there on c[2-3])"
    assert (found["tool"].nodes, found["tool"].missing, found["tool"].software) == ("c[1-2]", "", "")
