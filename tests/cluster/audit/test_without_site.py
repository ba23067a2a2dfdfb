"""An audit where nothing is ours: no site, no prefix, nothing published; modules that others made, on a network file system and on nodes."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

import pytest

from tests.helpers.cluster.faults import unmounted
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
    assert {"contexts", "resolution", "modulefiles", "site-modules", "folders", "lmod"} <= set(result["checks"])
    assert result["modules"] >= 7
    assert {"contexts", "resolution", "system-files"} <= {name for name, count in result["compared"].items() if count}
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
    "unmounted": (
        "c2",
        f"umount -l {SHARED}; mkdir -p {SHARED}",
        "cluster-share mount",
        [("error", "folders", "c2", SHARED, "not mounted")],
    ),
    "lacks-a-folder": (
        "c3",
        f"sed -i '\\|^{LOCAL}|d' /etc/lmod/modulespath",
        f"echo {LOCAL}/modulefiles >>/etc/lmod/modulespath",
        [("warning", "contexts", "c3", None, f"MODULEPATH lacks {LOCAL}/modulefiles")],
    ),
    "edited-modulefile": (
        "c1",
        f"sed -i 's|intel/2023.1|intel/2024.0|' {LOCAL}/modulefiles/intel/2023.1",
        f"sed -i 's|intel/2024.0|intel/2023.1|' {LOCAL}/modulefiles/intel/2023.1",
        [
            ("warning", "modulefiles", "c1", f"{LOCAL}/modulefiles", "other content: intel/2023.1"),
            ("warning", "site-modules", "c1", None, None),
        ],
    ),
    "lost-modulefile": (
        "c2",
        f"mv {LOCAL}/modulefiles/blast /root/",
        f"mv /root/blast {LOCAL}/modulefiles/",
        [("warning", "resolution", "c2", f"{LOCAL}/modulefiles", "`module avail` does not list blast/2.14")],
    ),
    "another-default": (
        "c1",
        f"sed -i s/2023.1/2024.0/ {LOCAL}/modulefiles/intel/.version",
        f"sed -i s/2024.0/2023.1/ {LOCAL}/modulefiles/intel/.version",
        [("warning", "modulefiles", "c1", f"{LOCAL}/modulefiles", "other content: intel/.version")],
    ),
    "lost-program": (
        "c3",
        f"mv {LOCAL}/pkgs/blast /root/",
        f"mv /root/blast {LOCAL}/pkgs/",
        [
            (
                "warning",
                "modulefiles",
                "c3",
                f"{LOCAL}/modulefiles",
                f"blast/2.14 names {LOCAL}/pkgs/blast/2.14, which is not there",
            )
        ],
    ),
    "closed-folder": (
        "c2",
        f"chmod 700 {LOCAL}/pkgs/intel/2024.0",
        f"chmod 755 {LOCAL}/pkgs/intel/2024.0",
        [
            (
                "warning",
                "modulefiles",
                "c2",
                f"{LOCAL}/modulefiles",
                f"intel/2024.0 names {LOCAL}/pkgs/intel/2024.0, which alice cannot enter",
            )
        ],
    ),
    "program-does-not-start": (
        "c1",
        f"sed -i '1s|.*|#!/gone/sh|' {LOCAL}/pkgs/blast/2.14/bin/blast-run",
        f"sed -i '1s|.*|#!/bin/sh|' {LOCAL}/pkgs/blast/2.14/bin/blast-run",
        [("warning", "site-modules", "c1", "blast/2.14", None)],
    ),
    "another-setting": (
        "c2",
        "echo 'export LMOD_CASE_INDEPENDENT_SORTING=yes' >/etc/profile.d/00-lmod-site.sh",
        "rm /etc/profile.d/00-lmod-site.sh",
        [("warning", "lmod", "c2", "settings", None)],
    ),
    "without-lmod": (
        "c3",
        "mv /usr/share/lmod /usr/share/lmod.away",
        "mv /usr/share/lmod.away /usr/share/lmod",
        [("error", "lmod", "c3", "Lmod", None)],
    ),
}


@pytest.mark.parametrize("name", in_ci(DRIFTS, ("unmounted", "edited-modulefile", "without-lmod")))
def test_drift_is_told_of_its_node(foreign: Foreign, name: str) -> None:
    node, do, undo, expected = DRIFTS[name]
    foreign.cluster.sh(node, do, check=True)
    try:
        told = foreign.told(code=1)
    finally:
        foreign.cluster.sh(node, undo, check=True)
    for wanted in expected:
        found = [row for row in told if all(w in (None, have) for w, have in zip(wanted, row, strict=True))]
        assert found, (wanted, told)
    assert all(node in row[2] or row[2] == "" for row in told), told


@pytest.mark.slow
@pytest.mark.soak
def test_baseline_tells_what_has_changed_everywhere(foreign: Foreign) -> None:
    saved, again = "/root/baseline.yaml", "/root/again.yaml"
    foreign.audit("--save-baseline", saved, code=0)
    foreign.audit("--baseline", saved, "--save-baseline", again, code=0)
    text = foreign.cluster.sh("login", f"cat {saved}", check=True).stdout
    assert text == foreign.cluster.sh("login", f"cat {again}", check=True).stdout
    assert (
        f"        c[1-3]: /etc/lmod/modules:/usr/share/lmod/lmod/modulefiles:{SHARED}/modulefiles:{LOCAL}/modulefiles\n"
        in text
    )
    lines = f"sed -i 's/^.*whatis.*$//' {LOCAL}/modulefiles/blast/2.14"
    for node in ("c1", "c2", "c3"):
        foreign.cluster.sh(node, f"cp {LOCAL}/modulefiles/blast/2.14 /root/blast.saved; {lines}", check=True)
    try:
        assert foreign.told(code=0) == []
        told = foreign.told("--baseline", saved, code=1)
    finally:
        for node in ("c1", "c2", "c3"):
            foreign.cluster.sh(node, f"cp /root/blast.saved {LOCAL}/modulefiles/blast/2.14", check=True)
    assert ("warning", "modulefiles", "c[1-3]", f"{LOCAL}/modulefiles", "other content: blast/2.14") in told


def test_baseline_tells_which_line_changed_all_nodes(foreign: Foreign) -> None:
    saved, site = "/root/lines.yaml", "/etc/profile.d/zz-site.sh"
    asked = [word for name in ("contexts", "ambient", "lmod", "startup-files") for word in ("--check", name)]
    foreign.audit(*asked, "--save-baseline", saved, code=0)
    changes = f"export OMP_NUM_THREADS=7\nmodule use {LOCAL}/more\nexport LMOD_CASE_INDEPENDENT_SORTING=yes\n"
    for node in ("c1", "c2", "c3"):
        foreign.cluster.write(node, site, changes)
        foreign.cluster.sh(node, f"mkdir {LOCAL}/more", check=True)
    try:
        assert foreign.told(*asked, code=0) == []
        findings = foreign.audit(*asked, "--baseline", saved, code=1)["findings"]
    finally:
        for node in ("c1", "c2", "c3"):
            foreign.cluster.sh(node, f"rm {site}; rmdir {LOCAL}/more", check=True)
    hints = {(f["check"], f["where"], f["found"]): f["hint"] for f in findings if f["nodes"] == "c[1-3]"}
    login = "bash-login (root, alice)"
    variable = hints["ambient", login, "OMP_NUM_THREADS is 7"]
    assert variable.startswith(f"{site}:1 sets it on c[1-3]: take that line away")
    assert f"{site}:2 sets it on c[1-3]" in hints["contexts", login, f"MODULEPATH also has {LOCAL}/more"]
    assert f"{site}:3 sets it on c[1-3]" in hints["lmod", "settings", "LMOD_CASE_INDEPENDENT_SORTING is yes"]
    assert ("startup-files", site, "c[1-3]") in {(f["check"], f["where"], f["nodes"]) for f in findings}


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
    assert 'envmgr_audit_node_findings{node="c2",check="folders",severity="error"} 1' in text
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
        result = foreign.audit(code=0)
        assert "environment-modules" in result["checks"]
        text = foreign.cluster.sh("c1", "bash -lc 'module --version' 2>&1", check=True).stdout
        assert "Modules Release 5" in text
        foreign.cluster.write("c2", setting, "export MODULES_ICASE=never\n")
        foreign.cluster.sh("c3", f"mv {LOCAL}/modulefiles/blast /root/", check=True)
        told = foreign.told(code=1)
        assert ("warning", "environment-modules", "c2", "settings", "icase is never (env-var)") in told
        assert (
            "warning",
            "resolution",
            "c3",
            f"{LOCAL}/modulefiles",
            "`module avail` does not list blast/2.14",
        ) in told
        assert {row[2] for row in told} == {"c2", "c3"}
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
