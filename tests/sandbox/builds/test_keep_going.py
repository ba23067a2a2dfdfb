"""What is published beside a failure, and what JSON says of both."""

from __future__ import annotations

import pytest

from tests.helpers.sandbox import PYTHON, Sandbox
from tests.helpers.scenes import locked

HELLO = ["hello-prefix"]


@pytest.fixture
def box(sandbox: Sandbox) -> Sandbox:
    """`good` is well; the test of `bad` fails, and `above` depends on it; the lock of `stale` is not of its recipe."""
    locked(sandbox, "good/1.0", HELLO, tests=[{"name": "runs", "run": "hello-prefix"}])
    locked(sandbox, "bad/1.0", HELLO, tests=[{"name": "no", "run": "false"}])
    locked(sandbox, "above/1.0", HELLO, depends=["bad/1.0"])
    locked(sandbox, "stale/1.0", HELLO)
    sandbox.recipe("stale/1.0", ["hello-activate"])
    return sandbox


def test_success_beside_failures_is_published_with_keep_going(box: Sandbox) -> None:
    done = box.run("build", "good/1.0", "above/1.0", "stale/1.0", "--keep-going", "--format", "json")
    assert done.code == 3
    assert [(f["what"], f["reference"]) for f in done.data["failed"]] == [
        ("stale/1.0", "lock-stale"),
        ("bad/1.0", "smoke-test-failed"),
    ]
    written = done.data["written"]
    assert {path.rpartition("-")[0] for path in written.pop("installs")} == {
        "store/good/1.0",
        "store/bad/1.0",
        "store/above/1.0",
    }
    assert written == {"locks": [], "fetched": [], "published": ["good/1.0"], "generation": 2}
    assert "not tried, because it stands on that: above/1.0" in done.data["context"]
    assert box.current() == 2, "the number of the generation that failed is not used again"
    assert [e["entry"] for e in box.ok("list", "--format", "json").data["entries"] if e["state"] == "published"] == [
        "good/1.0"
    ]
    again = box.run("build", "good/1.0", "bad/1.0", "-k")
    assert (again.code, box.current()) == (3, 2), "nothing new beside the failure: no generation for it"
    assert "published anyway" not in again.stderr


def test_broken_recipe_missing_dependency_and_tampered_install_cost_themselves_alone(sandbox: Sandbox) -> None:
    locked(sandbox, "good/1.0", HELLO)
    locked(sandbox, "kept/1.0", HELLO)
    sandbox.ok("build", "kept/1.0", "--no-publish")
    (program,) = sandbox.prefix.glob("store/kept/*/bin/hello-prefix")
    program.chmod(0o755)
    program.write_text("tampered")
    (locked(sandbox, "broken/1.0", HELLO) / "recipe.yaml").write_text("schema: 1\nbackend: conda\n")
    locked(sandbox, "above/1.0", HELLO, depends=["none/1.0"])
    done = sandbox.run("build", "good/1.0", "kept/1.0", "broken/1.0", "above/1.0", "-k", "--format", "json")
    assert [(f["what"], f["reference"]) for f in done.data["failed"]] == [
        ("broken/1.0", "recipe-invalid"),
        ("above/1.0", "unknown-entry"),
        ("kept/1.0", "install-differs"),
    ]
    assert (done.code, done.data["written"]["published"], sandbox.current()) == (2, ["good/1.0"], 1)


def test_failures_before_one_of_an_entry_that_was_not_named_are_told_with_it(sandbox: Sandbox) -> None:
    flag = sandbox.root / "flag"
    flag.write_text("")
    locked(sandbox, "old/1.0", [f"python {PYTHON}.*"], tests=[{"name": "flag", "run": f"test -e {flag}"}])
    locked(sandbox, "good/1.0", HELLO)
    locked(sandbox, "stale/1.0", HELLO)
    sandbox.recipe("stale/1.0", ["hello-activate"])
    sandbox.ok("build", "old/1.0")
    flag.unlink()
    sandbox.policies["user_site"] = True  # modules of Pythons are written anew
    sandbox.write_site()
    done = sandbox.run("build", "good/1.0", "stale/1.0", "-k", "--format", "json")
    assert [f["what"] for f in done.data["failed"]] == ["old/1.0", "stale/1.0"]
    assert sandbox.current() == 1


def test_without_it_a_failure_keeps_the_current_generation_and_names_what_was_built(box: Sandbox) -> None:
    done = box.run("build", "good/1.0", "bad/1.0", "--format", "json")
    assert done.code == 3
    assert [(f["what"], f["message"]) for f in done.data["failed"]] == [("bad/1.0", "`no` failed")]
    assert len(done.data["written"]["installs"]) == 2
    assert (done.data["written"]["published"], done.data["written"]["generation"], box.current()) == ([], None, None)


def test_locks_that_were_written_beside_a_failure_are_named(box: Sandbox) -> None:
    box.recipe("none/1.0", ["no-such-package-anywhere"])
    done = box.run("lock", "stale/1.0", "none/1.0", "--format", "json")
    assert done.code != 0
    assert [f["what"] for f in done.data["failed"]] == ["none/1.0"]
    assert done.data["written"]["locks"] == ["stale/1.0"]
