"""Files that are not envmgr's, of names that node-setup writes: they are refused, or kept and put back as they were."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from envmgr.modules.node_paths import SIGNERS
from envmgr.modules.nodesetup import BEGIN, END, NodeFiles, install_script, node_files
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
        "failed",
        "it is a link to /dev/null: somebody masked it",
    )
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


def test_what_no_list_says_is_kept_replaced_and_goes_again(scene: Signing) -> None:
    """Ansible keeps no list: nobody knows whose line an unknown text has, envmgr's or the site's."""
    before = tree_of(scene.etc)
    said(scene, "apply")
    (scene.etc / "envmgr/written").unlink()
    texts = {}
    for file in scene.files.files:
        path = on_node(scene, file.path)
        text = (
            path.read_text()
            .replace("-- Installed by `envmgr node-setup`.\n", "")
            .replace("# Installed by `envmgr node-setup`.\n", "")
        )
        texts[file.path] = f"{text}# of before, or of the site\n"
        path.write_text(texts[file.path])
    for action, status in (("check", "would-write"), ("apply", "written")):
        told = said(scene, action)
        for path in texts:
            reason = f"no list says that envmgr wrote it so: kept as /etc/envmgr/kept{path}.edited"
            assert told[path] == (status, reason), path
    said(scene, "undo")
    assert {path: (scene.etc / f"envmgr/kept{path}.edited").read_text() for path in texts} == texts
    shutil.rmtree(scene.etc / "envmgr")
    assert tree_of(scene.etc) == before


@pytest.mark.parametrize("damage", ["lost", "emptied", "filled"])
@pytest.mark.parametrize("then", ["undo", "apply and undo"])
def test_without_the_list_undo_takes_away_what_is_envmgr_s(scene: Signing, damage: str, then: str) -> None:
    """The list of signers bears no mark: it goes, too, and a copy of it stays, for it may be the site's."""
    before = tree_of(scene.etc)
    said(scene, "apply")
    signers = on_node(scene, SIGNERS).read_bytes()
    written = scene.etc / "envmgr/written"
    written.unlink() if damage == "lost" else written.write_bytes(b"" if damage == "emptied" else b"\0\xff nothing\n")
    if then != "undo":
        assert {status for status, _ in said(scene, "apply").values()} <= {"same", "skipped"}
    reason = f"no list says that envmgr wrote it so: kept as /etc/envmgr/kept{SIGNERS}.edited"
    assert said(scene, "undo-check")[SIGNERS] == ("would-remove", reason)
    told = said(scene, "undo")
    assert told.pop(SIGNERS) == ("removed", reason)
    assert set(told.values()) <= {
        ("removed", ""),
        *((status, told[path][1]) for path, (status, _) in told.items() if status == "skipped"),
    }
    kept = scene.etc / f"envmgr/kept{SIGNERS}.edited"
    assert kept.read_bytes() == signers
    shutil.rmtree(scene.etc / "envmgr")
    assert tree_of(scene.etc) == before


def test_an_edit_of_the_signers_without_a_list_is_not_put_back_as_the_site_s(scene: Signing) -> None:
    said(scene, "apply")
    (scene.etc / "envmgr/written").unlink()
    on_node(scene, SIGNERS).write_text("eve ssh-ed25519 BBBB\n")
    said(scene, "apply")
    said(scene, "undo")
    assert not on_node(scene, SIGNERS).exists()
    assert (scene.etc / f"envmgr/kept{SIGNERS}.edited").read_text() == "eve ssh-ed25519 BBBB\n"


@pytest.mark.parametrize(
    "text",
    [
        "# the site's own. It replaces the one Installed by `envmgr node-setup` and sets:\nexport SITE=1\n",
        "#1\n#2\n#3\n#4\n# Installed by `envmgr node-setup`.\nexport SITE=1\n",
        "export WHO='Installed by `envmgr node-setup`'\n",
        "export SITE=1 # Written by `envmgr node-setup`\n",
        "echo '-- SitePackage.lua: '\n",
    ],
)
def test_a_file_of_the_site_that_mentions_envmgr_is_the_site_s(scene: Signing, text: str) -> None:
    paths = [file.path for file in scene.files.files]
    for path in paths:
        on_node(scene, path).parent.mkdir(parents=True, exist_ok=True)
        on_node(scene, path).write_text(text)
    before = tree_of(scene.etc)
    told = said(scene, "apply")
    assert {told[path][1].partition(":")[0] for path in paths} == {"it is not envmgr's"}
    said(scene, "undo")
    assert tree_of(scene.etc) == before


def test_an_edit_of_ours_is_kept_and_told_at_apply_and_undo_and_no_edit_replaces_another(scene: Signing) -> None:
    said(scene, "apply")
    good = on_node(scene, PROFILE).read_text()
    texts = {}
    for number, (action, dry, would, status) in enumerate(
        (
            ("apply", "check", "write", "written"),
            ("apply", "check", "write", "written"),
            ("undo", "undo-check", "remove", "removed"),
        ),
        1,
    ):
        kept = f"/etc/envmgr/kept{PROFILE}.edited{f'.{number}' if number > 1 else ''}"
        reason = f"it was edited since envmgr wrote it: kept as {kept}"
        texts[kept] = f"{good}# the site's line {number}\n"
        on_node(scene, PROFILE).write_text(texts[kept])
        assert said(scene, dry)[PROFILE] == (f"would-{would}", reason)
        assert said(scene, action)[PROFILE] == (status, reason)
        assert {path: on_node(scene, path).read_text() for path in texts} == texts
    assert not on_node(scene, PROFILE).exists()
    said(scene, "apply")
    on_node(scene, PROFILE).write_text(f"{good}# the site's line 2\n")
    assert said(scene, "apply")[PROFILE][1].endswith(".edited.2")
    assert len([*(scene.etc / "envmgr/kept").rglob("*.edited*")]) == 3


@pytest.mark.parametrize("kind", ["link", "dangling", "pipe", "file"])
def test_what_the_site_puts_there_later_replaces_nothing_that_was_kept(scene: Signing, kind: str) -> None:
    """Undo puts back what lay there last; all that lay there before is kept beside it."""
    file, kept = on_node(scene, PROFILE), scene.etc / f"envmgr/kept{PROFILE}"
    for text in ("A\n", "B\n"):
        file.unlink(missing_ok=True)
        file.symlink_to("/nowhere") if text == "B\n" else file.write_text(text)
        said(scene, "apply")
    file.unlink()
    if kind == "file":  # ours was written there, so that a file is an edit of it
        file.write_text("C\n")
    else:
        put(scene, PROFILE, kind)
    there = {k: v for k, v in tree_of(file.parent).items() if k == file.name}
    dry, (_, reason) = said(scene, "check")[PROFILE], said(scene, "apply")[PROFILE]
    assert dry == ("would-write", reason)
    assert reason.endswith(f"what was kept before is /etc/envmgr/kept{PROFILE}.before.2") == (kind != "file")
    assert said(scene, "undo")[PROFILE] == ("removed", "what was there before is back")
    after = {k: v for k, v in tree_of(file.parent).items() if k == file.name}
    assert (after == there) == (kind != "file")
    second = file if kind == "file" else Path(f"{kept}.before.2")
    assert str(second.readlink()) == "/nowhere"
    assert kind != "file" or Path(f"{kept}.edited").read_text() == "C\n"
    assert Path(f"{kept}.before").read_text() == "A\n"


def test_a_nul_in_a_start_up_file_is_not_dropped(scene: Signing) -> None:
    paths = ["/etc/bash.bashrc", "/etc/zsh/zshenv", "/etc/csh.cshrc"]
    for path in paths:
        on_node(scene, path).write_bytes(b"export A='\0x'\n")
    before = tree_of(scene.etc)
    for action in ("check", "apply", "undo-check", "undo"):
        told = said(scene, action)
        assert {told[path] for path in paths} == {
            ("failed", "it has a NUL byte, which no shell reads: remove it by hand")
        }
    assert tree_of(scene.etc) == before


def test_a_nul_in_a_file_of_ours_is_an_edit(scene: Signing) -> None:
    said(scene, "apply")
    good = on_node(scene, PROFILE).read_bytes()
    on_node(scene, PROFILE).write_bytes(good + b"\0")
    assert said(scene, "apply")[PROFILE][0] == "written"
    assert on_node(scene, PROFILE).read_bytes() == good
    assert (scene.etc / f"envmgr/kept{PROFILE}.edited").read_bytes() == good + b"\0"


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
            assert told[path][1].endswith("fix it by hand")
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
