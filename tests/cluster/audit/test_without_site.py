"""An audit where nothing is ours: no site, no prefix, nothing published; modules that others made, on a network file system and on nodes."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

import pytest

from tests.helpers.cluster.faults import unmounted
from tests.helpers.drift_measure import Expected, judged
from tests.helpers.environment_modules import instead_of_lmod, lmod_again
from tests.helpers.foreign_scene import LOCAL, NO_SITE, NODES, SHARED, Foreign, make
from tests.helpers.marks import in_ci
from tests.helpers.own_wheel import build_wheel, copy_source, pip
from tests.helpers.pages import Typist, to_type
from tests.helpers.waiting import DEADLINE, PATIENT


@pytest.fixture(scope="module")
def foreign(cluster_possible: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Foreign]:
    scene = make(tmp_path_factory.mktemp("foreign") / "lab")
    yield scene
    scene.cluster.down()


def test_healthy_cluster_is_green_without_a_site(foreign: Foreign) -> None:
    result = foreign.audit("--via", "both", code=0)
    assert (result["alone"], result["generation"], result["count"]) == (True, None, 3)
    assert {f["severity"] for f in result["findings"]} <= {"note"}
    assert {"contexts", "resolution", "site-modules", "inventory"} <= set(result["checks"])
    assert result["modules"] >= 7
    assert {"file", "mount", "pkg", "env", "avail", "modfile"} <= {
        name for name, count in result["compared"].items() if count
    }
    assert not {"generation", "loading", "software", "signature"} & set(result["checks"])
    text = foreign.cluster.envmgr(["audit", *PATIENT, "--nodes", "c[1-3]", "--user", "alice"], env=NO_SITE)
    assert text.stdout.startswith("modules of this cluster; c[1-3] by ssh in ")
    assert "all 3 nodes have the same modules" in text.stdout.splitlines()[-1]


def test_ordinary_user_may_run_it(foreign: Foreign) -> None:
    result = foreign.audit("--via", "ssh", code=0, user="alice")
    assert (result["alone"], result["accounts"]) == (True, ["alice"])
    assert {f["severity"] for f in result["findings"]} <= {"note"}


@pytest.mark.parametrize("user", ["root", "alice"])
def test_wheel_on_the_head_is_enough(foreign: Foreign, tmp_path: Path, user: str) -> None:
    """Without the checkout: what pip puts into a folder of the login node, with what it needs."""
    home = Path(f"/proc/{foreign.cluster.pid('login')}/root/opt/envmgr-of-{user}")
    (tmp_path / "source").mkdir()
    (tmp_path / "wheel").mkdir()
    wheel = build_wheel(copy_source(tmp_path / "source"), tmp_path / "wheel")
    pip("install", "--no-deps", "--target", home, wheel)
    there = f"/opt/envmgr-of-{user}"
    env = {"ENVMGR_SITE": "", "PYTHONPATH": there}
    program = [sys.executable, "-P", "-c", "import envmgr; print(envmgr.__file__)"]
    assert foreign.cluster.exec("login", program, user=user, env=env).stdout == f"{there}/envmgr/__init__.py\n"
    argv = [
        sys.executable,
        "-P",
        f"{there}/bin/envmgr",
        "audit",
        *PATIENT,
        "--nodes",
        "c[1-3]",
        "--via",
        "ssh",
        "--format",
        "json",
    ]
    done = foreign.cluster.exec("login", argv, user=user, env=env, timeout=DEADLINE)
    assert done.returncode == 0, done.stdout + done.stderr
    assert json.loads(done.stdout)["alone"]


DRIFTS = {
    "unmounted": ("c2", f"umount -l {SHARED}; mkdir -p {SHARED}", "cluster-share mount", SHARED),
    "edited-modulefile": (
        "c1",
        f"sed -i 's|intel/2023.1|intel/2024.0|' {LOCAL}/modulefiles/intel/2023.1",
        f"sed -i 's|intel/2024.0|intel/2023.1|' {LOCAL}/modulefiles/intel/2023.1",
        f"{LOCAL}/modulefiles/intel/2023.1",
    ),
    "lost-program": (
        "c3",
        f"mv {LOCAL}/pkgs/blast /root/",
        f"mv /root/blast {LOCAL}/pkgs/",
        f"{LOCAL}/pkgs/blast/2.14",
    ),
    "program-does-not-start": (
        "c1",
        f"sed -i '1s|.*|#!/gone/sh|' {LOCAL}/pkgs/blast/2.14/bin/blast-run",
        f"sed -i '1s|.*|#!/bin/sh|' {LOCAL}/pkgs/blast/2.14/bin/blast-run",
        f"{LOCAL}/pkgs/blast/2.14/bin/blast-run",
    ),
    "without-lmod": (
        "c3",
        "mv /usr/share/lmod /usr/share/lmod.away",
        "mv /usr/share/lmod.away /usr/share/lmod",
        "/usr/share/lmod…",
    ),
}


@pytest.mark.parametrize("name", in_ci(DRIFTS, ("unmounted", "edited-modulefile", "without-lmod")))
def test_drift_is_told_of_its_node(foreign: Foreign, name: str) -> None:
    node, do, undo, named = DRIFTS[name]
    foreign.cluster.sh(node, do, check=True)
    try:
        result = foreign.audit(code=1)
    finally:
        foreign.cluster.sh(node, undo, check=True)
    there = frozenset({node})
    assert judged(result, [Expected((named,), there, there)]).why == ()


@pytest.mark.slow
@pytest.mark.soak
def test_baseline_tells_what_has_changed_everywhere(foreign: Foreign) -> None:
    saved, again = "/root/baseline.yaml", "/root/again.yaml"
    foreign.audit("--save-baseline", saved, code=0)
    foreign.audit("--baseline", saved, "--save-baseline", again, code=0)
    text = foreign.cluster.sh("login", f"cat {saved}", check=True).stdout
    assert text == foreign.cluster.sh("login", f"cat {again}", check=True).stdout
    lines = f"sed -i 's/^.*whatis.*$//' {LOCAL}/modulefiles/blast/2.14"
    for node in ("c1", "c2", "c3"):
        foreign.cluster.sh(node, f"cp {LOCAL}/modulefiles/blast/2.14 /root/blast.saved; {lines}", check=True)
    try:
        assert foreign.told(code=0) == []
        told = foreign.told("--baseline", saved, code=1)
    finally:
        for node in ("c1", "c2", "c3"):
            foreign.cluster.sh(node, f"cp /root/blast.saved {LOCAL}/modulefiles/blast/2.14", check=True)
    assert {(nodes, where) for _, _, nodes, where, _ in told} == {("c[1-3]", f"{LOCAL}/modulefiles/blast/2.14")}


def test_baseline_tells_which_file_changed_all_nodes(foreign: Foreign) -> None:
    saved, site = "/root/lines.yaml", "/etc/profile.d/zz-site.sh"
    foreign.audit("--check", "contexts", "--check", "inventory", "--save-baseline", saved, code=0)
    for node in ("c1", "c2", "c3"):
        foreign.cluster.write(node, site, f"export SITE=7\nmodule use {LOCAL}/more\n")
        foreign.cluster.sh(node, f"mkdir {LOCAL}/more", check=True)
    try:
        result = foreign.audit("--check", "contexts", "--check", "inventory", "--baseline", saved, code=1)
    finally:
        for node in ("c1", "c2", "c3"):
            foreign.cluster.sh(node, f"rm {site}; rmdir {LOCAL}/more", check=True)
    assert ("c[1-3]", site) in {(cause["nodes"], cause["where"]) for cause in result["causes"]}


def test_metrics_of_an_audit_that_stands_alone(foreign: Foreign) -> None:
    file = "/root/envmgr.prom"
    foreign.cluster.sh("c2", f"umount -l {SHARED}; mkdir -p {SHARED}", check=True)
    try:
        asked = ["--nodes", "c[1-3]", "--user", "alice"]
        argv = ["audit", *PATIENT, *asked, "--format", "prometheus", "--output", file]
        assert foreign.cluster.envmgr(argv, env=NO_SITE).code == 1
    finally:
        foreign.cluster.sh("c2", "cluster-share mount", check=True)
    text = foreign.cluster.sh("login", f"cat {file}", check=True).stdout.splitlines()
    assert "envmgr_audit_success 1" in text
    assert 'envmgr_audit_node_findings{node="c2",check="inventory",severity="error"} 1' in text
    assert not [line for line in text if line.startswith("envmgr_published")]


def test_adopt_proposes_a_site_that_is_valid_and_lists_what_is_there(foreign: Foreign) -> None:
    file = "/root/proposed.yaml"
    argv = ["adopt", "--nodes", "c[1-3]", "--user", "alice", "--name", "lab", "--output", file, "--format", "json"]
    result = foreign.cluster.envmgr(argv, env=NO_SITE).data
    assert (result["nodes"], result["silent"], result["output"]) == ("c[1-3]", "", file)
    names = [(m["name"], m["version"], m["made_by"], m["nodes"], m["root"]) for m in result["modules"]]
    assert ("fftw", "3.3.10", "by hand", "c[1-3]", f"{SHARED}/pkgs/fftw/3.3.10") in names
    assert ("blast", "2.14", "by hand", "c[1-3]", f"{LOCAL}/pkgs/blast/2.14") in names
    assert {m["missing"] for m in result["modules"]} == {""}
    text = foreign.cluster.sh("login", f"cat {file}", check=True).stdout
    for line in (f"prefix: {SHARED}/envmgr", "login_nodes: login", "  user: alice", "  via: ssh"):
        assert line in text.splitlines()
    again = foreign.cluster.envmgr(argv, env=NO_SITE)
    assert (again.code, "site-exists" in again.stdout) == (2, True)
    site = {"ENVMGR_SITE": file}
    assert foreign.cluster.envmgr(["audit", *PATIENT, "--format", "json"], env=site).data["alone"]
    foreign.cluster.sh("login", f"rm {file}", check=True)


def test_adopt_names_the_nodes_on_which_software_is_not_there(foreign: Foreign) -> None:
    foreign.cluster.sh("c3", f"mv {LOCAL}/pkgs/blast /root/", check=True)
    try:
        argv = ["adopt", "--nodes", "c[1-3]", "--user", "alice", "--format", "json"]
        result = foreign.cluster.envmgr(argv, env=NO_SITE).data
    finally:
        foreign.cluster.sh("c3", f"mv /root/blast {LOCAL}/pkgs/", check=True)
    assert {(m["name"], m["nodes"], m["missing"]) for m in result["modules"] if m["missing"]} == {
        ("blast", "c[1-3]", "c3")
    }


def test_environment_modules_are_compared_as_lmod_is(foreign: Foreign) -> None:
    instead_of_lmod(foreign.cluster, NODES, f"{LOCAL}/modulefiles")
    setting = "/etc/profile.d/zz-modules.sh"
    try:
        foreign.audit(code=0)
        text = foreign.cluster.sh("c1", "bash -lc 'module --version' 2>&1", check=True).stdout
        assert "Modules Release 5" in text
        foreign.cluster.write("c2", setting, "export MODULES_ICASE=never\n")
        foreign.cluster.sh("c3", f"mv {LOCAL}/modulefiles/blast /root/", check=True)
        put = [
            Expected((setting,), frozenset({"c2"}), frozenset({"c2"})),
            Expected((f"{LOCAL}/modulefiles/blast…", "blast/2.14"), frozenset({"c3"}), frozenset({"c3"})),
        ]
        assert judged(foreign.audit(code=1), put).why == ()
    finally:
        foreign.cluster.sh("c2", f"rm -f {setting}")
        foreign.cluster.sh("c3", f"[ ! -e /root/blast ] || mv /root/blast {LOCAL}/modulefiles/")
        lmod_again(foreign.cluster, NODES)


@pytest.mark.slow
@pytest.mark.soak
def test_page_is_typed_as_it_stands_there(foreign: Foreign) -> None:
    cluster = foreign.cluster
    cluster.put_envmgr_on_path()
    typist = Typist(cluster)
    for block in to_type("docs/any-cluster.md"):
        broken = block.section == "Any cluster" and any("c2: /cluster/sw" in line for line in block.lines)
        with unmounted(cluster, "c2") if broken else nullcontext():
            typist.type(block)
