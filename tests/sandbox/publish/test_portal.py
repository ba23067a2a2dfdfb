"""`generations/NNNN/portal`: Open OnDemand's list of the modules of exactly that generation."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path

import pytest

from tests.helpers import ondemand
from tests.helpers.lmod_shell import LMOD
from tests.helpers.ondemand import Shown
from tests.helpers.sandbox import Sandbox

HELLO, GREET = Shown("hello", "1.0"), Shown("greet", "1.0")


@pytest.mark.always
def test_portal_shows_the_modules_of_the_current_generation_and_a_rollback_takes_it_back(sandbox: Sandbox) -> None:
    portal = sandbox.prefix / "current/portal"
    assert ondemand.modules(portal, "sandbox") is None
    sandbox.recipe("hello/1.0", ["hello-prefix"])
    sandbox.recipe("greet/1.0", ["hello-prefix"], default=True)
    sandbox.recipe("greet/2.0", ["hello-prefix"])
    sandbox.recipe("greet/3.0", ["hello-prefix"], hidden=True)
    sandbox.ok("lock", "hello/1.0", "greet/1.0", "greet/2.0", "greet/3.0")
    sandbox.ok("build", "hello/1.0")
    assert ondemand.modules(portal, "sandbox") == [HELLO]
    sandbox.ok("build", "greet/1.0", "greet/2.0", "greet/3.0")
    assert ondemand.modules(portal, "sandbox") == [GREET, Shown("greet", "2.0"), HELLO]
    sandbox.ok("publish", "--remove", "hello/1.0")
    assert ondemand.modules(portal, "sandbox") == [GREET, Shown("greet", "2.0")]
    sandbox.ok("rollback", "1")
    assert ondemand.modules(portal, "sandbox") == [HELLO]
    record = json.loads((sandbox.prefix / "current/generation.json").read_text())
    file = portal / "sandbox.json"
    assert record["files"]["portal/sandbox.json"] == hashlib.sha256(file.read_bytes()).hexdigest()
    assert (file.stat().st_mode & 0o777, portal.stat().st_mode & 0o777) == (0o444, 0o555)
    assert {each["mpath"] for each in json.loads(file.read_text())["hello"].values()} == {
        str(sandbox.prefix / "generations/0001/modules")
    }
    sandbox.ok("verify")


def test_generation_without_entries_is_a_cluster_without_modules(sandbox: Sandbox) -> None:
    sandbox.recipe("hello/1.0", ["hello-prefix"])
    sandbox.ok("lock", "hello/1.0")
    sandbox.ok("build", "hello/1.0")
    sandbox.ok("publish", "--remove", "hello/1.0")
    assert ondemand.modules(sandbox.prefix / "current/portal", "sandbox") == []


@pytest.mark.parametrize(("name", "file"), [("../../x", "..-..-x.json"), ("Big Iron", "Big-Iron.json")])
def test_name_of_a_site_is_one_name_of_a_file(sandbox: Sandbox, name: str, file: str) -> None:
    sandbox.settings["name"] = name
    sandbox.write_site()
    sandbox.recipe("hello/1.0", ["hello-prefix"])
    sandbox.ok("lock", "hello/1.0")
    sandbox.ok("build", "hello/1.0")
    assert [path.name for path in (sandbox.prefix / "current/portal").iterdir()] == [file]


@pytest.mark.parametrize(
    ("says", "why"),
    [("exit 3", "exit status 3"), ("echo oops", "could not list the modules"), ("echo '{}'; echo no >&2", "no")],
)
def test_spider_that_fails_costs_the_portals_file_and_not_the_publish(
    sandbox: Sandbox, tmp_path: Path, says: str, why: str
) -> None:
    own = tmp_path / "lmod"
    shutil.copytree(LMOD.package, own, ignore=shutil.ignore_patterns("lib"))
    (own / "lib").symlink_to((LMOD.package / "lib").resolve())
    spider = own / "libexec/spider"
    spider.unlink()
    spider.write_text(f"#!/bin/sh\n{says}\n")
    spider.chmod(0o755)
    sandbox.settings["lmod"] = {"dir": str(own)}
    sandbox.write_site()
    sandbox.recipe("hello/1.0", ["hello-prefix"])
    sandbox.ok("lock", "hello/1.0")
    done = sandbox.ok("build", "hello/1.0")
    assert "published hello/1.0: generation 1 is current" in done.stdout
    (warning,) = [line for line in done.stderr.splitlines() if "portal" in line]
    assert "warning: generation 1 has no portal/" in warning
    assert why in warning
    assert not (sandbox.prefix / "current/portal").exists()
    sandbox.ok("verify")
