"""What the audit's check says of node-setup's files on a node, by the real script and the real shell text."""

from __future__ import annotations

from pathlib import Path

import pytest

from envmgr.audit.checks import node_setup
from envmgr.modules.node_paths import CSH_PROFILE, FISH_PROFILE, GPU_UNIT, HOOK, PROFILE, TASK_PROLOG
from envmgr.modules.nodesetup import BEGIN, END, JUPYTER_LINK
from envmgr.probe import shell as probe
from envmgr.probe.shell import read_lines
from envmgr.system.shelltext import script_text
from tests.helpers.evidence import audit_plan
from tests.helpers.node_scene import Scene


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    made = Scene(tmp_path)
    for path, text in (("csh.cshrc", "set x\n"), ("bash.bashrc", "# ours\n")):
        (made.etc / path).write_text(text)
    for folder in ("zsh", "systemd/system", "fish/conf.d"):
        (made.etc / folder).mkdir(parents=True, exist_ok=True)
    return made


def faults(scene: Scene) -> list[str]:
    text = node_setup.probe(audit_plan(scene.site))["node"]
    script = scene.folder / "probe"
    script.write_text(f"mark=\nprobe_uid=0\n{script_text(probe.__file__ or '', 'library.sh')}\n{text}\n")
    done = scene.run("sh", str(script))
    assert (done.returncode, done.stderr) == (0, "")
    return read_lines(done.stdout.splitlines()).get("node_setup.faults", "").splitlines()


def test_node_that_was_never_set_up_and_one_that_just_was_have_no_fault(scene: Scene) -> None:
    assert faults(scene) == []
    scene.do("apply")
    assert faults(scene) == []
    scene.do("undo")
    assert faults(scene) == []


@pytest.mark.parametrize(
    ("do", "found"),
    [
        (f"rm {PROFILE}", [f"lost {PROFILE}"]),
        (f"echo true >>{TASK_PROLOG}", [f"changed {TASK_PROLOG}"]),
        (f"ln -sf /nowhere {CSH_PROFILE}", [f"lost {CSH_PROFILE}"]),
        (f"rm {HOOK}/newer.lua", [f"lost {HOOK}/newer.lua"]),
        ("rm /etc/zsh/zshenv", ["lines /etc/zsh/zshenv"]),
        ("echo '# another' >/etc/csh.cshrc", ["lines /etc/csh.cshrc"]),
        ("echo 'source /etc/profile.d/all' >/etc/csh.cshrc", []),  # it reads the folder itself
        ("sed -i '1i # first' /etc/bash.bashrc", []),
        (f"sed -i '/{END}/d' /etc/bash.bashrc", ["marks /etc/bash.bashrc"]),
        (f"sed -i '/{BEGIN}/d' /etc/zsh/zshenv", ["marks /etc/zsh/zshenv"]),
        ("sed -i 's/^.*zz-envmgr.*$/#&/' /etc/bash.bashrc", ["marks /etc/bash.bashrc"]),
        (f"rm {FISH_PROFILE} /etc/envmgr/node/_envmgr", ["lost /etc/envmgr/node/_envmgr", f"lost {FISH_PROFILE}"]),
        ("rm -r /etc/fish", []),  # its package was removed
        (f"ln -sf /dev/null {GPU_UNIT}", []),
    ],
)
def test_each_fault_is_told_and_a_new_run_of_node_setup_ends_it(scene: Scene, do: str, found: list[str]) -> None:
    scene.do("apply")
    assert scene.run("sh", "-c", do).returncode == 0
    assert faults(scene) == found
    if found and "bash.bashrc" not in found[0] and "sed" not in do:
        scene.do("apply")
        assert faults(scene) == []


def test_file_of_an_earlier_envmgr_is_old_and_not_changed(scene: Scene) -> None:
    scene.do("apply")
    (scene.folder / "site.yaml").write_text(f"schema: 1\nprefix: {scene.prefix}\nslurm: {{heal_export: true}}\n")
    assert faults(scene) == ["old /etc/envmgr/node/settings"]
    assert scene.run("rm", "/etc/envmgr/written").returncode == 0
    assert faults(scene) == ["changed /etc/envmgr/node/settings"]


def test_node_without_fish_gets_no_file_of_it_and_has_no_fault(scene: Scene) -> None:
    assert scene.run("rm", "-r", "/etc/fish").returncode == 0
    assert scene.do("apply")[FISH_PROFILE] == "skipped"
    assert not (scene.etc / "fish").exists()
    assert faults(scene) == []
    assert scene.do("undo")[FISH_PROFILE] == "skipped"


def test_link_past_a_signature_that_nodes_want_is_a_fault_until_the_next_run(scene: Scene) -> None:
    scene.do("apply")
    refuses = "signing: {allowed_signers: allowed}\npolicies: {unsigned: refuse}\n"
    (scene.folder / "site.yaml").write_text(f"schema: 1\nprefix: {scene.prefix}\n{refuses}")
    assert f"unchecked {JUPYTER_LINK}" in faults(scene)
    scene.do("apply")
    assert not [fault for fault in faults(scene) if JUPYTER_LINK in fault]
