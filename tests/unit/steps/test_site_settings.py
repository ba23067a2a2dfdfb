"""`check`: five rows of a good site, and no bad value of a setting is `ok`."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from envmgr.catalog.settings import SiteFact
from envmgr.catalog.site import load_site
from envmgr.report import SilentReporter
from envmgr.steps import Context
from envmgr.system.run import Runner
from envmgr.verbs.check import site_facts
from tests.helpers.places import ROOT


def rows(folder: Path, **settings: Any) -> list[SiteFact]:
    path = folder / "site.yaml"
    path.write_text(json.dumps({"schema": 1, "prefix": str(folder / "sw"), **settings}))
    site = load_site(path, {})
    return list(site_facts(Context(site, Runner(), SilentReporter(), os.environ)))


SIGNING = {"key": "key", "allowed_signers": "signers"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """With a key, and a list that has it."""
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", tmp_path / "key"], check=True)
    public = (tmp_path / "key.pub").read_text()
    (tmp_path / "signers").write_text(f'admin namespaces="envmgr-flip" {public}')
    (tmp_path / "words").write_text("no key\n")
    (tmp_path / "words").chmod(0o600)
    return tmp_path


def test_a_good_site_has_five_rows(folder: Path) -> None:
    (folder / "recipes/toy/1.0").mkdir(parents=True)
    (folder / "recipes/toy/1.0/recipe.yaml").touch()
    (folder / "sw").mkdir()
    more = {"signing": SIGNING, "catalogs": ["recipes"], "groups": {"gpu": {"nodes": "localhost"}}}
    machines = {"audit.user", "cpu_level", "policies.min_free"}  # the machine's faults, not ours
    found = [fact for fact in rows(folder, **more) if fact.field not in machines and fact.status == "ok"]
    room = found[0].text.partition(", ")[2]
    shipped = len([*(ROOT / "recipes").glob("*/*/recipe.yaml")])
    assert [(fact.field, fact.text, fact.hint) for fact in found] == [
        ("prefix", f"{folder}/sw, {room}", ""),
        ("build_user", "none: installs belong to the user that runs envmgr", ""),
        ("groups", "gpu: localhost (1 node)", ""),
        ("transport.via", "ssh: `ssh` is here", ""),
        ("catalogs", f"{folder}/recipes: 1 recipe; {ROOT}/recipes: {shipped} recipes", ""),
    ]
    assert " free on " in room


def test_a_site_without_settings_says_what_it_has(folder: Path) -> None:
    own = {fact.field: fact.text for fact in rows(folder) if fact.status == "ok"}
    assert own["prefix"] == f"{folder}/sw does not exist yet; the first build makes it"
    assert own["groups"] == "none: this machine only"
    assert len(own) == 5


BAD = {
    "groups-malformed": ("groups.g", {"groups": {"g": {"nodes": "c[1-3"}}}, "`c[1-3` is not a node set"),
    "groups-empty": ("groups.g", {"groups": {"g": {"nodes": "c1!c1"}}}, "names no nodes"),
    "groups-blank": ("groups.g", {"groups": {"g": {"nodes": ""}}}, "names no nodes"),
    "groups-of-no-group": ("groups.g", {"groups": {"g": {"nodes": "@nosuch"}}}, "no group in site.yaml `nosuch`"),
    "groups-round": ("groups.g", {"groups": {"g": {"nodes": "@g"}}}, "a group contains itself"),
    "groups-huge": ("groups.g", {"groups": {"g": {"nodes": "c[1-99999999]"}}}, "99,999,999 nodes"),
    "groups-ansible": ("groups.g", {"groups": {"g": {"ansible": "nosuch"}}}, "ansible-inventory"),
    "groups-unresolved": ("groups.g", {"groups": {"g": {"nodes": "nosuch[1-2].invalid"}}}, "have no address here"),
    "login-malformed": ("login_nodes", {"login_nodes": "login[1"}, "is not a node set"),
    "login-unresolved": ("login_nodes", {"login_nodes": "nosuch.invalid"}, "nosuch.invalid has no address here"),
    "writable-malformed": ("mount.writable", {"mount": {"writable": "c1]"}}, "is not a node set"),
    "inventory-missing": ("transport.inventory", {"transport": {"inventory": "hosts"}}, "hosts does not exist"),
    "mount-source": ("mount.source", {"mount": {"source": "nosuch:/export"}}, "nosuch:/export"),
    "audit-user": ("audit.user", {"audit": {"user": "nosuch"}}, "nosuch: does not exist here"),
    "audit-root": ("audit.user", {"audit": {"user": "root"}}, "is root"),
    "build-user": ("build_user", {"build_user": "nosuch"}, "nosuch does not exist here"),
    "catalog-missing": ("catalogs", {"catalogs": ["nosuch"]}, "nosuch does not exist"),
    "catalog-file": ("catalogs", {"catalogs": ["key"]}, "key is no folder"),
    "build-dir-file": ("build_dir", {"build_dir": "key"}, "key is no folder"),
    "build-dir-spaces": ("build_dir", {"build_dir": "a b"}, "do not survive makefiles"),
    "key-missing": ("signing.key", {"signing": {**SIGNING, "key": "nosuch"}}, "nosuch does not exist"),
    "key-folder": ("signing.key", {"signing": {**SIGNING, "key": "."}}, "is no file"),
    "key-none": ("signing.key", {"signing": {"allowed_signers": "signers"}}, "not set"),
    "signers-missing": ("signing.allowed_signers", {"signing": {**SIGNING, "allowed_signers": "nosuch"}}, "nosuch"),
    "signers-empty": ("signing.allowed_signers", {"signing": {**SIGNING, "allowed_signers": "/dev/null"}}, "/dev/null"),
    "mirror-missing": ("sources.mirrors", {"sources": {"mirrors": ["nosuch"]}}, "nosuch does not exist"),
    "mirror-file": ("sources.mirrors", {"sources": {"mirrors": ["key"]}}, "key is no folder"),
    "no-source": ("sources.mirrors", {"sources": {"upstream": False}}, "only the cache has sources"),
    "channel-missing": (
        "backends.conda.channels.own",
        {"backends": {"conda": {"channels": {"own": {"url": "file:///nosuch"}}}}},
        "/nosuch does not exist",
    ),
    "channel-mirror": (
        "backends.conda.channels.own",
        {"backends": {"conda": {"channels": {"own": {"url": "https://h.invalid/x", "mirrors": ["nosuch"]}}}}},
        "nosuch does not exist",
    ),
    "index-missing": (
        "backends.wheels.indexes.own",
        {"backends": {"wheels": {"indexes": {"own": {"url": "file:///nosuch"}}}}},
        "/nosuch does not exist",
    ),
    "conda-missing": ("backends.conda.program", {"backends": {"conda": {"program": "nosuch"}}}, "is no program"),
    "conda-folder": ("backends.conda.program", {"backends": {"conda": {"program": "/usr"}}}, "is no program"),
    "easyconfigs-missing": (
        "backends.easybuild.easyconfigs",
        {"backends": {"easybuild": {"easyconfigs": ["nosuch"]}}},
        "nosuch does not exist",
    ),
    "cpu-level": ("cpu_level", {"cpu_level": "aarch64"}, "this machine is x86-64"),
    "lmod": ("lmod", {"lmod": {"dir": "/nosuch"}}, "there is no Lmod in /nosuch"),
    "umask-of-the-user": ("policies.umask", {"policies": {"umask": "777"}}, "nothing can be built"),
    "umask-of-users": ("policies.umask", {"policies": {"umask": "077"}}, "users cannot read"),
    "umask-without-group": ("policies.umask", {"policies": {"umask": "027"}}, "users cannot read"),
    "group": ("policies.group", {"policies": {"group": "nosuch"}}, "nosuch"),
    "unsigned": ("policies.unsigned", {"policies": {"unsigned": "refuse"}}, "it has no effect"),
    "min-free": ("policies.min_free", {"policies": {"min_free": 1 << 60}}, "builds stop"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_value_is_not_ok(folder: Path, case: str) -> None:
    field, settings, words = BAD[case]
    (folder / "sw").mkdir()
    wrong = [fact for fact in rows(folder, **settings) if fact.field == field and fact.status != "ok"]
    assert [fact for fact in wrong if words in fact.text], wrong
    assert all(fact.hint for fact in wrong), wrong


def test_signing_key_that_others_can_reach_is_an_error(folder: Path) -> None:
    (folder / "key").chmod(0o640)
    found = [(f.status, f.text) for f in rows(folder, signing=SIGNING) if f.field == "signing.key"]
    assert found == [("error", f"{folder}/key is a private key that other users can reach: ssh-keygen refuses it")]


def test_build_user_that_nobody_named_is_a_warning_for_root_only(folder: Path) -> None:
    own = [(fact.status, fact.text) for fact in rows(folder) if fact.field == "build_user"]
    root = [("warning", "EasyBuild does not build as root, and the site names no build user")]
    assert own[0] == ("ok", "none: installs belong to the user that runs envmgr")
    assert own[1:] == (root if os.geteuid() == 0 else [])


@pytest.mark.parametrize(
    ("file", "status"),
    [(None, None), ("t/Toy/Toy-1.0.eb", None), ("Toy-1.0.eb", "warning"), ("t/Toy-1.0.eb", "warning")],
)
def test_easyconfigs_that_lie_outside_of_the_layout_are_a_warning_and_an_empty_folder_is_fine(
    folder: Path, file: str | None, status: str | None
) -> None:
    own = folder / "own"
    own.mkdir()
    if file is not None:
        (own / file).parent.mkdir(parents=True, exist_ok=True)
        (own / file).touch()
    field = "backends.easybuild.easyconfigs"
    found = [fact for fact in rows(folder, backends={"easybuild": {"easyconfigs": ["own"]}}) if fact.field == field]
    assert [fact.status for fact in found] == ([status] if status else [])
