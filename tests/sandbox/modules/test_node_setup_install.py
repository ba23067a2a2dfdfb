"""The script that goes to nodes: what it writes, where, and that it can take everything away again."""

from __future__ import annotations

import hashlib
import os
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from envmgr.modules.nodesetup import BEGIN, END, install_script
from tests.helpers.node_scene import Scene
from tests.helpers.waiting import wait_for

OURS = {
    "/etc/envmgr/node/settings",
    "/etc/envmgr/node/pin",
    "/etc/envmgr/node/lmod/bin/module",
    "/etc/envmgr/node/task-prolog",
    "/etc/profile.d/zz-envmgr.sh",
    "/etc/profile.d/zz-envmgr.csh",
    "/etc/envmgr/node/gpus",
    "/etc/envmgr/node/gpus.sh",
    "/etc/systemd/system/envmgr-gpus.service",
    "/etc/systemd/system/multi-user.target.wants/envmgr-gpus.service",
    "/usr/local/share/jupyter/kernels",
    "/etc/envmgr/node/completion.bash",
    "/etc/envmgr/node/_envmgr",
    "/etc/fish/conf.d/zz-envmgr.fish",
    "/etc/fish/completions/envmgr.fish",
    *(
        f"/etc/envmgr/node/lmod/{part}.lua"
        for part in ("SitePackage", "prepend", "collections", "newer", "restore", "closure")
    ),
}
LINE = "[ ! -r /etc/profile.d/zz-envmgr.sh ] || . /etc/profile.d/zz-envmgr.sh"
BLOCK = f"# {BEGIN}\n{LINE}\n# {END}\n"


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    """A machine like Debian, whatever it is really."""
    made = Scene(tmp_path)
    for name in ("bashrc", "zshenv"):
        (made.etc / name).unlink(missing_ok=True)
    for folder in ("zsh", "fish/conf.d", "fish/completions"):
        (made.etc / folder).mkdir(parents=True, exist_ok=True)
    for name in ("bash.bashrc", "zsh/zshenv", "csh.cshrc"):
        (made.etc / name).write_text(f"# {name}\n")
    (made.etc / "systemd/system/multi-user.target.wants").mkdir(parents=True, exist_ok=True)
    (made.etc / "systemd/system/multi-user.target.wants/other.service").touch()
    return made


def tree(folder: Path) -> dict[str, tuple[int, str]]:
    """Every path with its mode and content."""
    found = {}
    for path in sorted(folder.rglob("*")):
        text = str(path.readlink()) if path.is_symlink() else ""
        if path.is_file() and not text:
            try:
                text = hashlib.sha256(path.read_bytes()).hexdigest()
            except PermissionError:
                continue
        found[str(path.relative_to(folder))] = (path.lstat().st_mode, text)
    return found


def test_apply_writes_everything_once_and_undo_leaves_what_was_there(scene: Scene) -> None:
    before = tree(scene.etc)
    blocks = {"/etc/bash.bashrc", "/etc/zsh/zshenv", "/etc/csh.cshrc"}
    assert scene.do("check") == dict.fromkeys(OURS | blocks, "would-write")
    assert tree(scene.etc) == before
    assert scene.do("apply") == dict.fromkeys(OURS | blocks, "written")
    applied = tree(scene.etc)
    assert scene.do("apply") == scene.do("check") == dict.fromkeys(OURS | blocks, "same")
    assert scene.do("undo-check") == dict.fromkeys(OURS | blocks, "would-remove")
    assert tree(scene.etc) == applied
    assert scene.do("undo") == dict.fromkeys(OURS | blocks, "removed")
    assert tree(scene.etc) == before
    assert scene.do("undo") == dict.fromkeys(OURS | blocks, "same")


SMI = """\
#!/bin/sh
case $* in
*compute_cap*) printf 'NVIDIA A100, SXM4, 8.0\\nTesla T4, [N/A]\\n' ;;
*) echo '| NVIDIA-SMI 535.183.01   Driver Version: 535.183.01   CUDA Version: 12.2  |' ;;
esac
"""


def test_what_the_node_has_of_gpus_is_written_and_taken_away(scene: Scene) -> None:
    scene.before = [
        "mount -t tmpfs none /sys/module; mkdir /sys/module/nvidia; echo 535.183.01 >/sys/module/nvidia/version",
        "mount -t tmpfs none /usr/local/bin",
        f"printf '%s' {shlex.quote(SMI)} >/usr/local/bin/nvidia-smi; chmod 755 /usr/local/bin/nvidia-smi",
    ]
    scene.do("apply")
    written = scene.folder / "run/envmgr/gpus"
    wait_for(written.exists, what="the facts of the GPUs")
    boot = Path("/proc/sys/kernel/random/boot_id").read_text()
    lines = written.read_text().splitlines()
    assert lines[:3] == ["schema 1", f"boot {boot.strip()}", "driver 535.183.01"]
    assert [line for line in lines if line.startswith(("gpu", "cuda"))] == [
        "gpu nvidia 8.0 535.183.01 NVIDIA A100, SXM4",
        "gpu nvidia ? 535.183.01 Tesla T4",
        "cuda 12.2",
    ]
    assert lines[-1] == "end yes"
    scene.do("undo")
    assert not written.parent.exists()


def test_node_without_systemd_is_told_what_to_run_at_boot(scene: Scene) -> None:
    shutil.rmtree(scene.etc / "systemd")
    done = scene.do("apply")
    assert done["/etc/systemd/system/envmgr-gpus.service"] == "skipped"
    assert done["/etc/systemd/system/multi-user.target.wants/envmgr-gpus.service"] == "skipped"
    assert (scene.folder / "run/envmgr/gpus").read_text().splitlines()[2:3] == ["driver -"]


def test_lines_stand_at_the_top_of_debians_bashrc_which_ends_early(scene: Scene) -> None:
    (scene.etc / "bash.bashrc").write_text('[ -z "$PS1" ] && return\n')
    scene.do("apply")
    assert (scene.etc / "bash.bashrc").read_text() == BLOCK + '[ -z "$PS1" ] && return\n'


def test_lines_stand_at_the_end_of_red_hats_bashrc_and_csh_has_them_from_profile_d(scene: Scene) -> None:
    for name in ("bash.bashrc", "zsh/zshenv"):
        (scene.etc / name).unlink()
    (scene.etc / "zsh/zshenv").parent.rename(scene.etc / "zsh-away")
    (scene.etc / "bashrc").write_text("# bashrc\n")
    (scene.etc / "zshenv").write_text("# zshenv\n")
    (scene.etc / "csh.cshrc").write_text("foreach i ( /etc/profile.d/*.csh )\n")
    done = scene.do("apply")
    assert (done["/etc/bashrc"], done["/etc/zshenv"], done["/etc/csh.cshrc"]) == ("written", "written", "skipped")
    assert (scene.etc / "bashrc").read_text() == "# bashrc\n" + BLOCK
    assert (scene.etc / "zshenv").read_text() == "# zshenv\n" + BLOCK


KERNELS = "/usr/local/share/jupyter/kernels"


def test_kernels_of_the_site_stay_and_the_result_says_the_other_way(scene: Scene) -> None:
    ours = scene.folder / "share/jupyter/kernels"
    (ours / "r").mkdir(parents=True)
    (ours / "r/kernel.json").write_text("{}")
    before = tree(ours.parent)
    for action in ("check", "apply", "undo-check", "undo"):
        done = scene.run("sh", "-c", install_script(scene.files, action))
        assert f"skipped\t{KERNELS}\twhat is there is the site's, and stays: let JupyterHub give its spawners JUPYTER_PATH={scene.prefix}/current\n" in done.stdout  # fmt: skip
    assert tree(ours.parent) == before
    shutil.rmtree(ours)
    ours.symlink_to("/srv/kernels")
    assert scene.do("apply")[KERNELS] == scene.do("undo")[KERNELS] == "skipped"
    assert str(ours.readlink()) == "/srv/kernels"


def test_link_that_node_setup_made_for_another_prefix_is_replaced_and_taken_away(scene: Scene) -> None:
    link = scene.folder / "share/jupyter/kernels"
    scene.do("apply")
    (scene.folder / "site.yaml").write_text(f"schema: 1\nprefix: {scene.folder}/other\n")
    assert scene.do("check")[KERNELS] == "would-write"
    assert scene.do("apply")[KERNELS] == "written"
    assert link.readlink() == scene.folder / "other/current/kernels"
    (scene.folder / "site.yaml").write_text(f"schema: 1\nprefix: {scene.prefix}\n")
    assert scene.do("undo")[KERNELS] == "removed"
    assert list((scene.folder / "share").iterdir()) == []
    assert not (scene.etc / "envmgr").exists()


def test_link_of_the_site_to_another_current_stays(scene: Scene) -> None:
    link = scene.folder / "share/jupyter/kernels"
    link.parent.mkdir()
    link.symlink_to("/opt/jupyterhub/current/kernels")
    assert [scene.do(action)[KERNELS] for action in ("check", "apply", "undo-check", "undo")] == ["skipped"] * 4
    assert link.is_symlink()
    link.unlink()
    assert scene.do("apply")[KERNELS] == "written"
    link.unlink()
    link.symlink_to("/opt/jupyterhub/current/kernels")  # since then
    assert scene.do("undo")[KERNELS] == "skipped"
    assert link.is_symlink()
    assert not (scene.etc / "envmgr").exists()


@pytest.mark.parametrize(
    ("prepare", "reason"),
    [
        ("mount -o remount,ro,bind /usr/local/share", "Read-only file system"),
        ("mkdir -p /usr/local/share; touch /usr/local/share/jupyter", "File exists"),
        ("ln -sfn /nowhere /usr/local/share/jupyter", "jupyter"),
    ],
)
def test_node_where_the_link_cannot_be_made_is_told_the_other_way(scene: Scene, prepare: str, reason: str) -> None:
    scene.before.append(prepare + " || :")
    done = scene.run("sh", "-c", install_script(scene.files, "apply"))
    (said,) = (line for line in done.stdout.splitlines() if KERNELS in line)
    assert said.startswith(f"skipped\t{KERNELS}\t")
    assert reason in said
    assert said.endswith(f": let JupyterHub give its spawners JUPYTER_PATH={scene.prefix}/current")
    assert KERNELS not in (scene.etc / "envmgr/written").read_text()
    assert scene.do("check")[KERNELS] == "skipped"
    assert scene.do("undo")[KERNELS] in {"same", "skipped"}


def test_site_whose_nodes_refuse_what_is_not_signed_has_no_link_past_that(scene: Scene) -> None:
    link = scene.folder / "share/jupyter/kernels"
    scene.do("apply")
    refuses = "signing: {allowed_signers: allowed}\npolicies: {unsigned: refuse}\n"
    (scene.folder / "site.yaml").write_text(f"schema: 1\nprefix: {scene.prefix}\n{refuses}")
    assert scene.do("check")[KERNELS] == "would-remove"
    assert scene.do("apply")[KERNELS] == "removed"
    assert not link.is_symlink()
    done = scene.run("sh", "-c", install_script(scene.files, "apply"))
    (said,) = (line for line in done.stdout.splitlines() if KERNELS in line)
    assert said.startswith(f"skipped\t{KERNELS}\t")
    assert "JUPYTER_PATH" not in said
    assert scene.do("undo")[KERNELS] == "same"


@pytest.mark.parametrize("text", ["", "no line", "\n", "a\n\n\n", "# héllo\r\n\t\\n $x `y` 'z'\n", f"x\n{BLOCK}y\n"])
def test_undo_gives_back_every_byte(scene: Scene, text: str) -> None:
    wanted = text.replace(BLOCK, "").encode()
    paths = [scene.etc / name for name in ("bash.bashrc", "zsh/zshenv", "csh.cshrc")]
    for path in paths:
        path.write_bytes(text.encode())
        path.chmod(0o640)
    scene.do("apply")
    for path in paths:
        assert path.read_text().count(BEGIN) == path.read_text().count(END) == 1
        assert path.read_text().splitlines()[-1 if "csh" in path.name or "zsh" in path.name else 2] == f"# {END}"
    assert set(scene.do("apply").values()) == {"same"}
    scene.do("undo")
    assert [path.read_bytes() for path in paths] == [wanted] * 3
    assert {path.stat().st_mode & 0o777 for path in paths} == {0o640}


def test_file_that_was_missing_goes_again(scene: Scene) -> None:
    (scene.etc / "zsh/zshenv").unlink()
    scene.do("apply")
    assert (scene.etc / "zsh/zshenv").read_text() == f"# {BEGIN} (new file)\n{LINE}\n# {END}\n"
    assert scene.do("apply")["/etc/zsh/zshenv"] == "same"
    scene.do("undo")
    assert not (scene.etc / "zsh/zshenv").exists()


def test_link_stays_a_link(scene: Scene) -> None:
    (scene.etc / "bash.bashrc").rename(scene.etc / "real.bashrc")
    (scene.etc / "bash.bashrc").symlink_to("real.bashrc")
    scene.do("apply")
    assert (scene.etc / "bash.bashrc").is_symlink()
    assert (scene.etc / "real.bashrc").read_text() == BLOCK + "# bash.bashrc\n"


def test_damaged_block_is_told_and_not_touched(scene: Scene) -> None:
    text = f"a\n# {BEGIN}\nb\n"
    (scene.etc / "bash.bashrc").write_text(text)
    done = scene.run("sh", "-c", install_script(scene.files, "apply"))
    reason = f"the line '# {BEGIN}' is there, and no '# {END}' follows: fix it by hand"
    assert f"failed\t/etc/bash.bashrc\t{reason}\n" in done.stdout
    assert (scene.etc / "bash.bashrc").read_text() == text


def test_changed_mode_and_content_are_mended(scene: Scene) -> None:
    scene.do("apply")
    (scene.etc / "envmgr/node/pin").chmod(0o644)
    (scene.etc / "profile.d/zz-envmgr.sh").write_text("old\n")
    done = scene.do("apply")
    assert {path for path, status in done.items() if status != "same"} == {
        "/etc/envmgr/node/pin",
        "/etc/profile.d/zz-envmgr.sh",
    }
    assert (scene.etc / "envmgr/node/pin").stat().st_mode & 0o777 == 0o755


def test_read_only_etc_is_told_for_each_file_and_leaves_nothing(scene: Scene) -> None:
    before = tree(scene.etc)
    scene.before = ["mount -o remount,bind,ro /etc"]
    done = scene.run("sh", "-c", install_script(scene.files, "apply"))
    lines = [line.split("\t") for line in done.stdout.splitlines()][:-1]
    assert {line[0] for line in lines} == {"failed"}
    assert all("Read-only file system" in line[2] for line in lines), lines
    assert tree(scene.etc) == before


def test_own_settings_of_the_administrator_stay_when_the_folders_go(scene: Scene) -> None:
    scene.do("apply")
    (scene.etc / "envmgr/site.yaml").write_text("mine\n")
    scene.do("undo")
    assert [path.name for path in (scene.etc / "envmgr").rglob("*")] == ["site.yaml"]


@pytest.mark.parametrize(
    ("conf", "state"),
    [
        ("ClusterName=x\n", "slurm\tunset\t/etc/slurm/slurm.conf"),
        ("#TaskProlog=/x\n", "slurm\tunset\t/etc/slurm/slurm.conf"),
        ("taskprolog = /etc/envmgr/node/task-prolog # ours\n", "slurm\tnamed\t/etc/slurm/slurm.conf"),
        ("TaskProlog=/site/prolog\n", "slurm\tother\t/site/prolog"),
    ],
)
def test_task_prolog_of_slurm_conf_is_told(scene: Scene, conf: str, state: str) -> None:
    (scene.etc / "slurm").mkdir(exist_ok=True)
    (scene.etc / "slurm/slurm.conf").write_text(conf)
    assert scene.run("sh", "-c", install_script(scene.files, "check")).stdout.splitlines()[-1] == state


def test_task_prolog_stays_while_slurm_conf_names_it(scene: Scene) -> None:
    (scene.etc / "slurm").mkdir(exist_ok=True)
    (scene.etc / "slurm/slurm.conf").write_text("TaskProlog=/etc/envmgr/node/task-prolog\n")
    scene.do("apply")
    done = scene.run("sh", "-c", install_script(scene.files, "undo"))
    assert (
        "failed\t/etc/envmgr/node/task-prolog\tstays: /etc/slurm/slurm.conf names it, and without it every task fails. "
        "Take the line out first\n"
    ) in done.stdout
    assert scene.run("/etc/envmgr/node/task-prolog").returncode == 0
    assert not (scene.etc / "envmgr/node/pin").exists()


def test_every_shell_parses_what_it_will_read(scene: Scene) -> None:
    texts = {file.path: file.text for file in scene.files.files}
    script = install_script(scene.files)
    for shell in ("sh", "dash", "bash", "zsh"):
        for text in [
            script,
            *(text for path, text in texts.items() if not path.endswith((".csh", ".lua", ".fish", "/_envmgr"))),
        ]:
            done = subprocess.run([shell, "-n"], input=text, capture_output=True, text=True, check=False)
            assert (done.returncode, done.stderr) == (0, ""), shell
    done = subprocess.run(
        ["tcsh", "-f", "-n"], input=texts["/etc/profile.d/zz-envmgr.csh"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_without_root_nothing_is_tried(scene: Scene) -> None:
    before = tree(scene.etc)
    script = "id() { case $1 in -u) echo 1000;; *) echo alice;; esac; }\n" + install_script(scene.files, "apply")
    assert scene.run("sh", "-c", script).stdout == "not-root\talice\t\n"
    assert tree(scene.etc) == before


def test_apply_clears_what_a_killed_run_left_and_says_why_a_link_failed(scene: Scene) -> None:
    """A living run's file, and what only looks like one, stay."""
    dead = [scene.etc / "bash.bashrc.envmgr-99999999", scene.etc / "profile.d/zz-envmgr.sh.envmgr-99999999"]
    others = [scene.etc / f"bash.bashrc.envmgr-{os.getpid()}", scene.etc / "bash.bashrc.envmgr-old"]
    for path in (*dead, *others):
        path.write_text("half")
    wants = scene.etc / "systemd/system/multi-user.target.wants"
    shutil.rmtree(wants)
    wants.write_text("no folder")
    done = scene.run("sh", "-c", install_script(scene.files, "apply"))
    assert done.stderr == ""
    (failed,) = (line.split("\t") for line in done.stdout.splitlines() if line.startswith("failed"))
    assert failed[1:] == [
        "/etc/systemd/system/multi-user.target.wants/envmgr-gpus.service",
        "mkdir: cannot create directory '/etc/systemd/system/multi-user.target.wants': File exists",
    ]
    assert [path for path in (*dead, *others) if path.exists()] == others
