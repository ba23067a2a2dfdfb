"""What the scripts of a package set must be accepted before anybody loads it; the line is enough, and nothing is built again."""

from __future__ import annotations

import json

from tests.helpers.sandbox import Sandbox
from tests.helpers.scenes import locked


def accept(box: Sandbox, lines: dict[str, str]) -> None:
    path = box.root / "recipes/greet/1.0/recipe.yaml"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"accept": lines}))


def test_build_keeps_the_install_and_publishes_once_it_is_accepted(sandbox: Sandbox) -> None:
    locked(sandbox, "greet/1.0", ["hello-activate"])
    accept(sandbox, {})
    done = sandbox.run("build", "greet/1.0")
    assert done.code == 2
    assert "error[module-unaccepted]: the module of greet/1.0 would change what other programs" in done.stderr
    assert "  variable:HELLO_HOME: set ${root}/share/hello-activate\n" in done.stderr
    assert not (sandbox.root / "prefix/current").exists()
    refused = sandbox.run("publish", "greet/1.0")
    assert (refused.code, "error[module-unaccepted]" in refused.stderr) == (2, True)
    lines = done.stderr.partition("  accept:\n")[2].split("\n\n")[0]
    hinted = [line.strip().removesuffix(": why") for line in lines.splitlines() if line.endswith(": why")]
    accept(sandbox, dict.fromkeys(hinted, "its own"))
    built = sandbox.ok("build", "greet/1.0", "--format", "json").data
    assert (built["built"], built["generation"]) == ([], 1)
    shown = sandbox.ok("catalog", "check", "greet/1.0", "--format", "json").data["accepted"]
    assert {(each["rule"], each["reason"]) for each in shown} == {(rule, "its own") for rule in hinted}
    assert "accepted: greet/1.0: variable:HELLO_HOME: " in sandbox.ok("catalog", "check", "greet/1.0").stdout
