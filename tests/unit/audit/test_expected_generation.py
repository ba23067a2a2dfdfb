"""What an audit expects of entries: a publish records it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from envmgr.audit.ask.expected_generation import read_published, with_published
from envmgr.audit.plan import AuditPlan, ExpectedInstall
from envmgr.catalog.site import Site, load_site
from envmgr.modules.lmod import find_lmod
from envmgr.modules.spec import EnvOp, ModuleSpec, Outside
from envmgr.publish.generations import publish
from envmgr.publish.plan import Change, NewModule
from envmgr.publish.records import SPECS
from envmgr.report import SilentReporter
from envmgr.store.manifest import InstallFacts, make_manifest, write_manifest
from envmgr.store.prefix import Install, Prefix
from envmgr.system.files import shipped
from envmgr.system.run import Runner
from tests.helpers.evidence import SHA, audit_plan
from tests.helpers.waiting import HANGS


@pytest.fixture
def site(tmp_path: Path) -> Site:
    (tmp_path / "site.yaml").write_text(f"prefix: {tmp_path}/prefix\n")
    return load_site(tmp_path / "site.yaml", {})


def install_of(site: Site, *files: str, name: str = "tool") -> Install:
    """An install with these programs, as a build leaves it."""
    install = Prefix(site.prefix).install_at(f"store/{name}/1-00000000")
    for file in files:
        (install.path / file).parent.mkdir(parents=True, exist_ok=True)
        (install.path / file).write_text(f"#!/bin/sh\n# {file}\n")
        (install.path / file).chmod(0o755)
    keep_manifest(install)
    return install


def keep_manifest(install: Install) -> None:
    install.path.mkdir(parents=True, exist_ok=True)
    write_manifest(install.manifest, make_manifest(install.path, SHA, InstallFacts(), {}, mask=0o022, workers=1))


def published(site: Site, *installs: Install, fresh: bool = False, **more: object) -> int | None:
    """Publish entries of these installs, with bin in PATH."""
    add = {}
    for install in installs:
        path = EnvOp(kind="prepend", name="PATH", value=f"{install.path}/bin")
        spec = ModuleSpec(
            name=install.path.parent.name, version="1", root=str(install.path), digest=SHA, description="for a test",
            environment=(path,), **more,
        )  # type: ignore[arg-type]  # fmt: skip
        add[spec.entry] = NewModule(spec, InstallFacts(), SHA)
    change = Change(add, (), "for a test", frozenset(i.relative for i in installs if fresh), anew=True)
    return publish(
        change, site, find_lmod(None, {}), Runner(), SilentReporter(), templates=shipped("modulefiles"),
        check=lambda *_: None, signer=None, extras={},
    ).number  # fmt: skip


def plan(site: Site) -> AuditPlan:
    current = read_published(Prefix(site.prefix), Runner(), HANGS)
    assert current is not None
    return with_published(audit_plan(site), current)


def test_what_a_publish_recorded_is_expected_and_no_manifest_is_read(site: Site) -> None:
    install = install_of(site, "bin/a", "bin/tool")
    published(site, install)
    install.manifest.unlink()
    assert plan(site).installs == (ExpectedInstall("tool/1", str(install.path), "bin/tool", "bin/tool", 21),)


def test_later_publish_keeps_what_is_expected_until_the_install_is_made_again(site: Site) -> None:
    install = install_of(site, "bin/tool")
    published(site, install)
    install_of(site, "bin/python")
    other = install_of(site, "bin/x", name="other")
    published(site, install, other)
    assert [each.program for each in plan(site).installs] == ["bin/x", "bin/tool"]
    published(site, install, fresh=True)
    assert [each.program for each in plan(site).installs] == ["bin/x", "bin/python"]


def test_what_was_not_recorded_is_recorded_by_the_next_publish(site: Site) -> None:
    install = install_of(site, "bin/tool")
    published(site, install)
    specs = Prefix(site.prefix).generation(1) / SPECS
    data = json.loads(specs.read_text())
    data["tool/1"].pop("expected")
    specs.chmod(0o644)
    specs.write_text(json.dumps(data))
    assert plan(site).installs == (ExpectedInstall("tool/1", str(install.path)),)
    published(site)
    assert plan(site).installs == (ExpectedInstall("tool/1", str(install.path), "bin/tool", "bin/tool", 21),)


def test_tree_that_is_not_ours_is_expected_at_its_own_place(site: Site) -> None:
    tree = Outside(path="/opt/t", roots=("/opt/t",), how="full", shape=SHA, program="bin/t", file="bin/t")
    published(site, install_of(site, "outside.json"), outside=tree)
    assert plan(site).installs == (ExpectedInstall("tool/1", "/opt/t", "bin/t", "bin/t"),)
