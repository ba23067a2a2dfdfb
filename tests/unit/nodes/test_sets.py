"""Node sets: ClusterShell's algebra over groups of site.yaml, Slurm and Ansible, whatever this machine has configured."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envmgr.catalog.site import Site, load_site
from envmgr.errors import EnvmgrError, InputError
from envmgr.nodes.sets import NodeSets, fold, resolve_nodes
from envmgr.system.run import Runner

GROUPS = {"gpu": {"nodes": "c[1-4]"}, "cpu": {"nodes": "n[09-11]"}, "both": {"nodes": "@gpu,@cpu"}}


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return site_with(tmp_path, groups=GROUPS)


def site_with(folder: Path, **settings: Any) -> Site:
    path = folder / "site.yaml"
    path.write_text(json.dumps({"schema": 1, "prefix": "/opt/x", **settings}))
    return load_site(path, {})


def program(folder: Path, name: str, text: str) -> None:
    path = folder / name
    path.write_text(text)
    path.chmod(0o755)


@pytest.mark.parametrize(
    ("expression", "nodes"),
    [
        ("c2", ("c2",)),
        ("c[10,9,1-2]", ("c1", "c2", "c9", "c10")),
        ("@gpu", ("c1", "c2", "c3", "c4")),
        ("@gpu!c2", ("c1", "c3", "c4")),
        ("c[1-10]&@gpu", ("c1", "c2", "c3", "c4")),
        ("@gpu^c[4-5]", ("c1", "c2", "c3", "c5")),
        ("@both!@gpu", ("n09", "n10", "n11")),
        ("@site:cpu", ("n09", "n10", "n11")),
        ("n*", ("n09", "n10", "n11")),
        ("@*&c[1-2]", ("c1", "c2")),
        ("fs1,login", ("fs1", "login")),
        (None, ("c1", "c2", "c3", "c4", "n09", "n10", "n11")),
    ],
)
def test_resolve_nodes_knows_the_whole_algebra(site: Site, expression: str | None, nodes: tuple[str, ...]) -> None:
    assert resolve_nodes(expression, site, Runner()) == nodes


def test_groups_has_each_group_of_the_site(site: Site) -> None:
    found = NodeSets(site, Runner()).groups()
    assert found["gpu"] == ("c1", "c2", "c3", "c4")
    assert found["both"] == ("c1", "c2", "c3", "c4", "n09", "n10", "n11")
    assert list(found) == ["gpu", "cpu", "both"]


@pytest.mark.parametrize(
    ("expression", "context"),
    [
        ("c[1-3", 'missing bracket: "c[1-3"'),
        ("c1,", "missing nodeset operand with ',' operator: \"c1\""),
        ("c[3-1]", ""),
        ("", None),
        ("c[1-9999999999]", "at most 100,000 are asked"),
        ("c[1-1000]n[1-1000]", "at most 100,000 are asked"),
        ("-oProxyCommand=x", ""),
        ("c1;reboot", ""),
        ("$(id)", ""),
        ("@gpu:", None),
    ],
)
def test_resolve_nodes_refuses_what_cannot_be_nodes(site: Site, expression: str, context: str | None) -> None:
    with pytest.raises(InputError) as caught:
        resolve_nodes(expression, site, Runner())
    if context is None:
        assert caught.value.reference in {"no-nodes", "unknown-node-group"}
    else:
        assert caught.value.reference == "bad-node-set"
        assert context in "\n".join(caught.value.context)


def test_resolve_nodes_says_what_is_near_an_unknown_group(site: Site) -> None:
    with pytest.raises(InputError) as caught:
        resolve_nodes("@gpus", site, Runner())
    assert str(caught.value) == (
        "error[unknown-node-group]: there is no group in site.yaml `gpus`\n\nhint: there is `@gpu`"
    )
    with pytest.raises(InputError) as caught:
        resolve_nodes("@pbs:long", site, Runner())
    assert str(caught.value).startswith("error[unknown-node-group]: `@pbs:` is not a source of node groups")


def test_resolve_nodes_without_groups_says_how_to_name_nodes(tmp_path: Path) -> None:
    site = site_with(tmp_path)
    with pytest.raises(InputError) as caught:
        resolve_nodes(None, site, Runner())
    assert str(caught.value) == (
        f"error[no-nodes]: no nodes are named, and the site has no groups\n  {tmp_path}/site.yaml\n\n"
        "hint: name them: `--nodes 'c[1-3]'`, `--nodes '@slurm:*'` for all that Slurm knows, or `groups:` in site.yaml"
    )
    assert resolve_nodes("c1", site, Runner()) == ("c1",)


def test_resolve_nodes_refuses_groups_in_a_circle(tmp_path: Path) -> None:
    site = site_with(tmp_path, groups={"a": {"nodes": "@b"}, "b": {"nodes": "@a"}})
    with pytest.raises(InputError, match="contains itself") as caught:
        resolve_nodes("@a", site, Runner())
    assert caught.value.reference == "bad-node-set"


def test_resolve_nodes_does_not_read_this_machines_clustershell_files(site: Site, tmp_path: Path) -> None:
    config = tmp_path / "clustershell"
    config.mkdir()
    (config / "groups.conf").write_text(
        "[Main]\ndefault: bad\n[bad]\nmap: echo evil1\nall: echo evil2\nlist: echo gpu\n"
    )
    (config / "defaults.conf").write_text("[nodeset]\nfold_axis: 0\n[task.info]\nfanout: 1\nssh_options: -p 1\n")
    code = """
import sys
from pathlib import Path
from envmgr.nodes.sets import fold, resolve_nodes
from envmgr.system.run import Runner
from envmgr.catalog.site import (load_site)
print(*resolve_nodes("@gpu", load_site(Path(sys.argv[1]), {}), Runner()))
print(fold(["r1c1", "r1c2", "r2c1", "r2c2"]))
"""
    done = subprocess.run(
        [sys.executable, "-c", code, tmp_path / "site.yaml"],
        capture_output=True,
        text=True,
        check=True,
        env={"PATH": "/usr/bin:/bin", "CLUSTERSHELL_CFGDIR": str(config)},
    )
    assert done.stdout == "c1 c2 c3 c4\nr[1-2]c[1-2]\n"


def clustershell(monkeypatch: pytest.MonkeyPatch, folder: Path, text: str) -> NodeSets:
    """Node sets of the embedded site, where ClusterShell's groups.conf is `text`."""
    (folder / "groups.conf").write_text(text)
    monkeypatch.setenv("CLUSTERSHELL_CFGDIR", str(folder))
    return NodeSets(load_site(None, {"XDG_DATA_HOME": "/nowhere"}), Runner())


ONE_GROUP = "[Main]\ndefault: own\n[own]\nmap: [ $GROUP != gpu ] || echo c[1-3]\n"


def test_groups_without_a_site_are_those_of_clustershell(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Also of a source that cannot list them."""
    for text in (ONE_GROUP, f"{ONE_GROUP}list: echo gpu\n"):
        sets = clustershell(monkeypatch, tmp_path, text)
        assert sets.resolve("@gpu!c2") == sets.resolve("@clustershell:gpu!c2") == ("c1", "c3")
        with pytest.raises(InputError) as caught:
            sets.resolve("@cpu")
        assert caught.value.reference == "unknown-node-group"
    assert caught.value.hint == "there is `@clustershell:gpu`"


@pytest.mark.parametrize(
    "text", ["garbage\n", "[Main]\ndefault: gone\n", "[Main]\ndefault: x\n[x]\nmap: exit 3\n", "[Main]\n\udcff\n"]
)
def test_groups_of_clustershell_that_cannot_be_read_are_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, text: str
) -> None:
    sets = clustershell(monkeypatch, tmp_path, "")
    (tmp_path / "groups.conf").write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(EnvmgrError) as caught:
        sets.resolve("@gpu")
    assert caught.value.reference == "groups-unreadable"


def test_importing_nodes_does_not_import_clustershell() -> None:
    code = "import sys, envmgr.nodes; print([m for m in sys.modules if 'ClusterShell' in m])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


@given(st.sets(st.integers(0, 300), min_size=1).map(lambda numbers: [f"c{n}" for n in numbers]))
def test_fold_and_resolve_are_each_others_inverse(nodes: list[str]) -> None:
    site = load_site(None, {"HOME": "/nonexistent"})
    assert set(resolve_nodes(fold(nodes), site, Runner())) == set(nodes)


def test_fold_writes_short_what_is_alike() -> None:
    assert fold(["c7", "c2", "c1"]) == "c[1-2,7]"
    assert fold(["login"]) == "login"
    assert fold([]) == ""


# -- Slurm and Ansible -------------------------------------------------------------------------------------------------

INVENTORY = {  # as ansible-inventory 2.19 prints it
    "_meta": {"hostvars": {"c3": {"ansible_host": "10.0.0.3"}}, "profile": "inventory_legacy"},
    "all": {"children": ["ungrouped", "compute"]},
    "compute": {"children": ["gpu", "cpu"]},
    "cpu": {"hosts": ["c3"]},
    "gpu": {"hosts": ["c1", "c2"]},
}


def with_programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, **texts: str) -> None:
    folder = tmp_path / "bin"
    folder.mkdir()
    for name, text in texts.items():
        program(folder, name.replace("_", "-"), f"#!/bin/sh\n{text}\n")
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")


def test_ansible_groups_come_with_their_children(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with_programs(
        tmp_path, monkeypatch, ansible_inventory=f'echo "$@" >{tmp_path}/argv\ncat <<X\n{json.dumps(INVENTORY)}\nX'
    )
    site = site_with(
        tmp_path, groups={"all": {"ansible": "compute"}, "g": {"ansible": "gpu"}}, transport={"inventory": "hosts.ini"}
    )
    assert NodeSets(site, Runner()).groups() == {"all": ("c1", "c2", "c3"), "g": ("c1", "c2")}
    assert (tmp_path / "argv").read_text() == f"--list -i {tmp_path}/hosts.ini\n"
    assert resolve_nodes("@ansible:compute!@g", site, Runner()) == ("c3",)
    assert resolve_nodes("@ansible:*", site, Runner()) == ("c1", "c2", "c3")
    with pytest.raises(InputError) as caught:
        resolve_nodes("@ansible:gqu", site, Runner())
    assert caught.value.hint == "there is `@ansible:gpu`"


def test_ansible_runs_in_the_folder_of_the_site_wherever_the_caller_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It takes an `ansible.cfg` from the folder that it runs in, which names programs: a stranger's folder is not that one."""
    with_programs(
        tmp_path, monkeypatch, ansible_inventory=f"pwd >{tmp_path}/stood\ncat <<X\n{json.dumps(INVENTORY)}\nX"
    )
    site = site_with(tmp_path, groups={"g": {"ansible": "gpu"}})
    (tmp_path / "stranger").mkdir()
    monkeypatch.chdir(tmp_path / "stranger")
    resolve_nodes("@g", site, Runner())
    assert (tmp_path / "stood").read_text() == f"{tmp_path}\n"


def test_ansible_groups_of_the_real_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where ansible-core is installed beside envmgr (the extra `ansible`); the test above has its output anyway."""
    real = shutil.which("ansible-inventory", path=str(Path(sys.executable).parent))
    if real is not None:
        monkeypatch.setenv("PATH", f"{Path(real).parent}:/usr/bin:/bin")
        (tmp_path / "hosts.ini").write_text("[gpu]\nc[1:2]\n[cpu]\nc3\n[compute:children]\ngpu\ncpu\n")
        site = site_with(tmp_path, groups={"all": {"ansible": "compute"}}, transport={"inventory": "hosts.ini"})
        assert resolve_nodes(None, site, Runner()) == ("c1", "c2", "c3")
        missing = site_with(tmp_path, groups={"all": {"ansible": "compute"}}, transport={"inventory": "missing.ini"})
        with pytest.raises(EnvmgrError) as caught:
            resolve_nodes(None, missing, Runner())
        assert caught.value.reference == "groups-unreadable"
        assert "missing.ini" in str(caught.value)


SAYS_NOT = "error[groups-unreadable]: `{}` does not say which nodes there are\n  {}"
NO_ANSIBLE = (
    "error[groups-unreadable]: `ansible-inventory` is not installed here\n\n"
    "hint: pip install 'envmgr[ansible]', or name the nodes"
)
ANSIBLE_FAILS = SAYS_NOT.format(
    "ansible-inventory", "`{bin}/ansible-inventory --list` failed: exit status 4\n  ERROR! no inventory"
)
ANSIBLE_BABBLES = SAYS_NOT.format("ansible-inventory", "its output: Expecting value: line 1 column 1 (char 0)")
SINFO_FAILS = SAYS_NOT.format(
    "sinfo", "`{bin}/sinfo -h -o %R|%N` failed: exit status 1\n  Unable to contact slurm controller"
)


@pytest.mark.parametrize(
    ("texts", "expression", "message"),
    [
        ({}, "@ansible:gpu", NO_ANSIBLE),
        ({"ansible_inventory": "echo 'ERROR! no inventory' >&2; exit 4"}, "@ansible:gpu", ANSIBLE_FAILS),
        ({"ansible_inventory": "echo nonsense"}, "@ansible:gpu", ANSIBLE_BABBLES),
        ({"sinfo": "echo 'Unable to contact slurm controller' >&2; exit 1"}, "@slurm:all", SINFO_FAILS),
    ],
)
def test_groups_unreadable_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, texts: dict[str, str], expression: str, message: str
) -> None:
    with_programs(tmp_path, monkeypatch, **texts)
    with pytest.raises(EnvmgrError) as caught:
        resolve_nodes(expression, site_with(tmp_path), Runner())
    assert str(caught.value) == message.format(bin=tmp_path / "bin")
    assert caught.value.exit_code == 3
