"""The worked example of the documentation loads, and says what its comments say."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from envmgr.backends.conda.models import DEFAULT_CHANNELS, channels_of
from envmgr.catalog.site import Site, load_site
from envmgr.catalog.site_file import NodeGroup
from tests.helpers.places import ROOT

EXAMPLE = ROOT / "docs" / "examples" / "small-cluster" / "site.yaml"


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """The file as the caller's own: a checkout may belong to somebody else, and would then be refused."""
    target = tmp_path / "site.yaml"
    shutil.copyfile(EXAMPLE, target)
    target.chmod(0o644)
    return target


@pytest.fixture
def site(copy: Path) -> Site:
    return load_site(copy, {})


def test_small_cluster_says_where_things_lie(site: Site) -> None:
    assert site.name == "small-cluster"
    assert site.prefix == Path("/mnt/storage0/envmgr")
    assert site.catalogs == (Path("/mnt/storage0/envmgr-recipes"), site.shipped_catalog)
    assert (site.build_user, site.audit.user) == ("envmgr", "alice")


def test_small_cluster_names_its_nodes(site: Site) -> None:
    assert site.login_nodes == "master"
    assert site.groups == {"gpu": NodeGroup(nodes="c[1-3]")}
    assert (site.transport.via, site.transport.user, site.transport.fanout) == ("ssh", "root", 3)


def test_small_cluster_asks_the_folder_then_the_mirror_then_the_channel(site: Site) -> None:
    channel = channels_of(site)["conda-forge"]
    assert channel.url == DEFAULT_CHANNELS["conda-forge"].url
    assert channel.mirrors == ("file:///mnt/storage0/mirror/conda-forge", "http://mirror.example.edu/conda-forge")
    assert set(channels_of(site)) == set(DEFAULT_CHANNELS)


def test_small_cluster_policies_are_what_the_comments_say(site: Site) -> None:
    policies = site.policies
    assert site.cpu_level == "x86-64-v3"
    assert (policies.keep_generations, policies.keep_days) == (10, 60)
    assert (policies.driver_gate, policies.user_site, policies.mask) == ("warn", False, 0o022)
    assert policies.min_free == 20_000_000_000
    assert (policies.stall_timeout, policies.download_retries) == (120, 4)


def test_site_check_of_the_small_cluster_finds_only_what_this_machine_lacks(copy: Path) -> None:
    """The user, the mounts: they are the cluster's. Everything else is fine anywhere."""
    argv = [sys.executable, "-m", "envmgr", "check", "--site", str(copy), "--format", "json"]
    keep = {key: os.environ[key] for key in ("PATH", "HOME") if key in os.environ}
    done = subprocess.run(argv, capture_output=True, text=True, check=False, env=keep)
    result = json.loads(done.stdout)
    assert result["source"] == str(copy)
    wrong = {fact["field"] for fact in result["facts"] if fact["status"] != "ok"}
    own = {
        "prefix",
        "build_user",
        "audit.user",
        "build_dir",
        "policies.min_free",
        "cpu_level",
        "login_nodes",
        "groups.gpu",
    }
    assert wrong <= {*own, "catalogs", "backends.conda.channels.conda-forge"}
    assert {fact["field"]: fact["text"] for fact in result["facts"]}["groups"] == "gpu: c[1-3] (3 nodes)"
