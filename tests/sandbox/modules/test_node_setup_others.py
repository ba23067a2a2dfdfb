"""Files that are not envmgr's, of names that node-setup writes: they are refused, or kept and put back as they were."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from envmgr.modules.nodesetup import BEGIN, END, SIGNERS, NodeFiles, install_script, node_files
from tests.helpers.node_scene import Scene

LINE = "[ ! -r /etc/profile.d/zz-envmgr.sh ] || . /etc/profile.d/zz-envmgr.sh"
PROFILE = "/etc/profile.d/zz-envmgr.sh"
LINK = "/etc/systemd/system/multi-user.target.wants/envmgr-gpus.service"


class Signing(Scene):
    """A site that signs: more files go to a node."""

    @property
    def files(self) -> NodeFiles:
        return node_files(self.site, "anna ssh-ed25519 AAAA\n")


@pytest.fixture
def scene(tmp_path: Path) -> Signing:
    """A machine like Debian, whatever it is really."""
    made = Signing(tmp_path, f"signing: {{allowed_signers: {tmp_path}/signers}}\n", ["mount -t tmpfs none /var/lib"])
    for name in ("bashrc", "zshenv"):
        (made.etc / name).unlink(missing_ok=True)
    for name in ("zsh", "systemd/system/multi-user.target.wants", "systemd/system/timers.target.wants", "cron.d"):
        (made.etc / name).mkdir(parents=True, exist_ok=True)
    for name in ("zsh", "systemd/system/multi-user.target.wants", "systemd/system/timers.target.wants"):
        (made.etc / name / "other").touch()
    for name in ("bash.bashrc", "zsh/zshenv", "csh.cshrc"):
        (made.etc / name).write_text(f"# {name}\n")
    return made


def tree_of(folder: Path) -> dict[str, tuple[int, int, int, bytes]]:
    """Every path with its mode, owner, group and content."""
    found = {}
    for path in sorted(folder.rglob("*")):
        stat = path.lstat()
        content = str(path.readlink()).encode() if path.is_symlink() else path.read_bytes() if path.is_file() else b""
        found[str(path.relative_to(folder))] = (stat.st_mode, stat.st_uid, stat.st_gid, content)
    return found


def whole(scene: Scene) -> list[str]:
    """Every path that is wholly envmgr's."""
    files = scene.files
    paths = [f.path for f in files.files]
    paths += [path for unit in files.linked for path in (unit.unit.path, unit.link)]
    return [*paths, *(timer.service.path for timer in files.timers)]


def said(scene: Scene, action: str) -> dict[str, tuple[str, str]]:
    """path -> (status, reason)."""
    done = scene.run("sh", "-c", install_script(scene.files, action))  # type: ignore[arg-type]
    assert (done.returncode, done.stderr) == (0, "")
    return {line.split("\t")[1]: (line.split("\t")[0], line.split("\t")[2]) for line in done.stdout.splitlines()[:-1]}


def on_node(scene: Scene, path: str) -> Path:
    return scene.folder / path[1:]


def put(scene: Scene, path: str, kind: str) -> None:
    """Something of the site's."""
    file = on_node(scene, path)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.unlink(missing_ok=True)
    if kind == "link":
        (scene.etc / "elsewhere").write_text("the site's\n")
        file.symlink_to("/etc/elsewhere")
    elif kind == "dangling":
        file.symlink_to("/nowhere/at/all")
    elif kind == "pipe":
        os.mkfifo(file, 0o640)
    else:
        file.write_bytes(b"the site's own \xff, with envmgr\r\nand no end")
        file.chmod(0o2751)
        if os.geteuid() == 0:
            os.chown(file, 1234, 4321)


@pytest.mark.parametrize("kind", ["file", "link", "dangling", "pipe"])
def test_what_was_there_is_told_kept_and_put_back(scene: Signing, kind: str) -> None:
    paths = whole(scene)
    for path in paths:
        put(scene, path, kind)
    before = tree_of(scene.etc)
    for action, status in (("check", "would-write"), ("apply", "written")):
        told = said(scene, action)
        for path in paths:
            reason = f"it is not envmgr's: kept as /etc/envmgr/kept{path}, and --undo puts it back"
            assert told[path] == (status, reason), path
        assert (tree_of(scene.etc) == before) == (action == "check")
    assert {status for status, _ in said(scene, "apply").values()} <= {"same", "skipped"}
    assert {on_node(scene, path).is_symlink() for path in paths if path != LINK and "wants" not in path} == {False}
    told = said(scene, "undo-check")
    assert {told[path] for path in paths} == {("would-remove", "what was there before comes back")}
    told = said(scene, "undo")
    assert {told[path] for path in paths} == {("removed", "what was there before is back")}
    assert tree_of(scene.etc) == before
    assert {said(scene, "undo")[path] for path in paths} == {("same", "it is not envmgr's: it stays")}
    assert tree_of(scene.etc) == before


def test_folders_of_these_names_are_refused_and_stay(scene: Signing) -> None:
    paths = whole(scene)
    for path in paths:
        on_node(scene, path).mkdir(parents=True)
        (on_node(scene, path) / "inside").write_text("the site's\n")
    before = tree_of(scene.etc)
    for action in ("check", "apply"):
        told = said(scene, action)
        assert {told[path] for path in paths} == {("failed", "there is a folder of that name")}
    said(scene, "undo")
    assert tree_of(scene.etc) == before


def test_a_unit_that_the_site_masked_stays_masked(scene: Signing) -> None:
    unit = scene.etc / "systemd/system/envmgr-gpus.service"
    unit.symlink_to("/dev/null")
    assert said(scene, "apply")["/etc/systemd/system/envmgr-gpus.service"] == (
        "failed", "it is a link to /dev/null: somebody masked it",
    )  # fmt: skip
    said(scene, "undo")
    assert str(unit.readlink()) == "/dev/null"


def test_a_list_of_signers_that_the_site_made_is_not_taken_away(scene: Signing) -> None:
    """On the host that publishes docs/signing.md puts it where nodes get theirs."""
    file = on_node(scene, SIGNERS)
    file.parent.mkdir()
    file.write_text("anna ssh-ed25519 AAAA\n")
    assert said(scene, "apply")[SIGNERS] == ("same", "")
    assert said(scene, "undo")[SIGNERS] == ("same", "it is not envmgr's: it stays")
    assert file.read_text() == "anna ssh-ed25519 AAAA\n"


def test_what_an_earlier_envmgr_wrote_is_replaced_and_goes_again(scene: Signing) -> None:
    before = tree_of(scene.etc)
    said(scene, "apply")
    (scene.etc / "envmgr/written").unlink()  # it kept no list
    for file in scene.files.files:
        path = on_node(scene, file.path)
        text = path.read_text().replace("-- Installed by `envmgr node-setup`.\n", "").replace(
            "# Installed by `envmgr node-setup`.\n", ""
        )  # fmt: skip
        path.write_text(f"{text}# of before\n")
    told = said(scene, "apply")
    assert {told[f.path] for f in scene.files.files if f.path != SIGNERS} == {("written", "")}
    shutil.rmtree(scene.etc / "envmgr/kept")  # the list of before
    said(scene, "undo")
    assert tree_of(scene.etc) == before


def test_an_edit_of_ours_is_kept_and_told_at_apply_and_undo(scene: Signing) -> None:
    reason = f"it was edited since envmgr wrote it: kept as /etc/envmgr/kept{PROFILE}.edited"
    said(scene, "apply")
    for action, dry, would, status in (
        ("apply", "check", "write", "written"),
        ("undo", "undo-check", "remove", "removed"),
    ):
        text = f"{on_node(scene, PROFILE).read_text()}# the site's line {action}\n"
        on_node(scene, PROFILE).write_text(text)
        assert said(scene, dry)[PROFILE] == (f"would-{would}", reason)
        assert said(scene, action)[PROFILE] == (status, reason)
        assert (scene.etc / f"envmgr/kept{PROFILE}.edited").read_text() == text
    assert not on_node(scene, PROFILE).exists()


INSIDE = {
    "other text": f"# {BEGIN}\nexport OURS=1\n# {END}\n",
    "more text": f"# {BEGIN}\n{LINE}\nexport OURS=1\n# {END}\n",
    "nothing": f"# {BEGIN}\n# {END}\n",
    "no end": f"# {BEGIN}\n{LINE}\n",
    "no begin": f"{LINE}\n# {END}\n",
    "reversed": f"# {END}\n{LINE}\n# {BEGIN}\n",
    "begin twice": f"# {BEGIN}\n# {BEGIN}\n{LINE}\n# {END}\n",
    "end twice": f"# {BEGIN}\n{LINE}\n# {END}\n# {END}\n",
    "its own marks": f"# {BEGIN} of the site\n{LINE}\n# {END} of the site\n",
    "one of two": f"# {BEGIN}\n{LINE}\n# {END}\n# {BEGIN}\nexport OURS=1\n# {END}\n",
    "of another system": f"# {BEGIN}\r\n{LINE}\r\n# {END}\r\n",
}


@pytest.mark.parametrize("text", INSIDE.values(), ids=INSIDE)
def test_text_between_marks_that_is_not_ours_is_refused(scene: Signing, text: str) -> None:
    paths = ["/etc/bash.bashrc", "/etc/zsh/zshenv", "/etc/csh.cshrc"]
    for path in paths:
        on_node(scene, path).write_text(f"before\n{text}after\n", newline="")
    for action in ("check", "apply", "undo-check", "undo"):
        told = said(scene, action)
        for path in paths:
            assert told[path][0] == "failed"
            assert told[path][1].endswith("mend it by hand")
            assert on_node(scene, path).read_bytes() == f"before\n{text}after\n".encode()


@pytest.mark.parametrize("kind", ["device", "pipe", "loop", "folder"])
def test_what_is_no_file_gets_no_lines(scene: Signing, kind: str) -> None:
    file = scene.etc / "bash.bashrc"
    file.unlink()
    if kind == "device":
        file.symlink_to("/dev/null")
    elif kind == "pipe":
        os.mkfifo(file)
    elif kind == "loop":
        file.symlink_to("bash.bashrc")
    else:
        file.mkdir()
    for action in ("check", "apply", "undo"):
        assert said(scene, action)["/etc/bash.bashrc"][0] == ("failed" if kind != "loop" else "skipped")
    assert Path("/dev/null").is_char_device()
    assert (file.is_symlink(), file.is_fifo(), file.is_dir()) == (
        kind in ("device", "loop"),
        kind == "pipe",
        kind == "folder",
    )


def test_killed_anywhere_nothing_of_the_site_is_lost(scene: Signing) -> None:
    """A run dies before the Nth command that changes something; the next run, or an undo, makes it right."""
    paths = [PROFILE, "/etc/envmgr/node/pin", SIGNERS, LINK]
    for path in paths:
        put(scene, path, "file")
    before = tree_of(scene.etc)
    for number in range(1, 60, 9):
        for last in ("undo", "apply"):
            names = "mv cp rm ln mkdir chmod chown"
            shims = " ".join(
                f'{name}() {{ deaths=$((deaths + 1)); [ $deaths -lt {number} ] || kill -9 $$; command {name} "$@"; }};'
                for name in names.split()
            )
            script = f"deaths=0; {shims}\n{install_script(scene.files, 'apply')}"
            scene.run("sh", "-c", script)
            if last == "apply":
                said(scene, "apply")
            said(scene, "undo")
            assert tree_of(scene.etc) == before, (number, last)
