"""Bad days of a user: a quota, a home that root cannot read, a number without a name, an entry that is no longer there, packages that fit
nowhere, a prefix that nobody can write. Each is told in one error, and nothing is left.
"""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from envmgr.system.files import remove_tree
from tests.helpers.done import Done
from tests.helpers.faults.shim import FROM_HERE, SPACE, Fault
from tests.helpers.faults.shim import Scene as Faults
from tests.helpers.open_folders import for_everybody, open_to_all
from tests.helpers.programs import program
from tests.helpers.sandbox import PYTHON, Sandbox
from tests.helpers.small_disk import Small
from tests.helpers.standin.channel import Channel
from tests.helpers.wheel_scene import WheelBox, make_wheel_box

ENTRY, GONE = "sci/1.0", "old/1.0"
UID = 54321


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory, channel: Channel) -> Iterator[WheelBox]:
    box = Sandbox(tmp_path_factory.mktemp("bad-days"), str(channel.folder))
    box.write_site()
    made = make_wheel_box(box)
    made.index(pypi=made.house.simple.as_uri())
    box.recipe(ENTRY, [f"python {PYTHON}.*", "six"])
    box.recipe(GONE, [f"python {PYTHON}.*", "tabulate"])
    for entry in (ENTRY, GONE):
        box.ok("lock", entry)
        box.ok("build", entry)
    made.house.wheel("einops", "0.7")
    made.house.wheel("broad", files={f"broad_{number}/x.py": "X = 1\n" * 200 for number in range(60)})
    made.house.sdist("only-source", "1.0", {"setup.py": "open('/tmp/ran', 'w')"})
    made.house.wheel("younger", tag="cp39-cp39-manylinux_2_17_x86_64")
    yield made
    remove_tree(box.root / ".local")
    box.clear()


def run(box: Sandbox, *argv: str, home: Path | None = None, **extra: str) -> Done:
    return box.run("user", *argv, HOME=str(home or box.root), **extra)


def nothing_of(home: Path, name: str) -> bool:
    envs = home / ".local/share/envmgr/envs"
    inside = [each.name for each in (envs / ".envmgr").rglob(f"*{name}*") if each.suffix != ".lock"]
    return not os.path.lexists(envs / name) and inside == [] and [*(envs / ".envmgr/cache").glob("*")] == []


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_quota_in_the_middle_leaves_nothing_and_the_figures_are_named(
    scene: WheelBox, tmp_path: Path, share: float
) -> None:
    program("cc")
    box, home = scene.box, tmp_path / "home"
    home.mkdir()
    seen = Faults.make(tmp_path / "scene", [home])
    assert run(box, "create", "fits", "--on", ENTRY, "einops", home=home, **seen.environ()).code == 0
    seen = Faults.make(tmp_path / "scene", [home])
    assert run(box, "create", "full", "--on", ENTRY, "broad", home=home, **seen.environ()).code == 0
    calls = sum(bool(call.kind & SPACE) for call in seen.calls())
    assert run(box, "delete", "full", home=home).code == 0
    fault = Faults.make(tmp_path / "scene", [home], Fault(int(calls * share), FROM_HERE, SPACE, errno.EDQUOT))
    done = run(box, "create", "full", "--on", ENTRY, "broad", home=home, **fault.environ())
    assert (done.code, "error[disk-full]" in done.stderr) == (3, True), done.stderr
    assert "quota exceeded" in done.stderr
    assert "your environments take 2" in done.stderr  # inodes
    assert "`envmgr user list` shows what your environments take" in done.stderr
    assert nothing_of(home, "full")
    assert run(box, "create", "full", "--on", ENTRY, "broad", home=home).code == 0
    remove_tree(home)


@pytest.mark.parametrize("package", ["only-source", "younger"])
def test_package_that_has_no_wheel_for_this_python(scene: WheelBox, package: str) -> None:
    done = run(scene.box, "create", "misfit", "--on", ENTRY, package)
    assert (done.code, "error[unsolvable]" in done.stderr, package in done.stderr) == (3, True, True), done.stderr
    assert "administrators" in done.stderr  # who can build what has no wheel
    assert nothing_of(scene.box.root, "misfit")
    assert not Path("/tmp/ran").exists()


def test_entry_that_was_removed_or_damaged_is_said_and_the_environment_goes_on(scene: WheelBox) -> None:
    box = scene.box
    made = run(box, "create", "late", "--on", GONE, "einops", "--format", "json").data
    box.ok("publish", "--remove", GONE)
    box.ok("gc", "--now")
    script = "module load user/late\npython -c 'import einops, tabulate; print(tabulate.__file__)'\n"
    assert f"{box.prefix}/store/old/" in box.shell(script).stdout
    said = " ".join(box.shell(script).stderr.split())
    listed = run(box, "list")
    assert "old/1.0 is no longer published; its install is still there" in listed.stdout, said
    added = run(box, "add", "late", "broad")
    assert added.code == 0, added.stderr  # on the install that it stands on, by the generation that has it
    other = run(box, "create", "other", "--on", GONE, "einops")
    assert (other.code, "error[not-published]" in other.stderr) == (2, True)
    root = next(path for path in (box.prefix / "store/old").iterdir() if path.is_dir())
    subprocess.run(["chmod", "-R", "u+w", root], check=True)
    shutil.rmtree(root)
    assert "is not there" in run(box, "list").stdout or "gone" in run(box, "list").stdout
    broken = run(box, "add", "late", "einops>=0.7")
    assert (broken.code, "error[base-broken]" in broken.stderr) == (3, True), broken.stderr
    assert Path(made["path"]).is_dir()
    assert run(box, "delete", "late").code == 0


class Nameless(Sandbox):
    """envmgr runs as a number that has no name."""

    def command(self, *argv: str) -> list[str]:
        hide = 'mount --bind /dev/null /etc/passwd && exec "$@"'
        there = ["unshare", "--mount", "--propagation", "private", "sh", "-c", hide, "sh", *for_everybody(self.root)]
        return [*there, "setpriv", f"--reuid={UID}", f"--regid={UID}", "--clear-groups", *super().command(*argv)]


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to become another user")
def test_user_without_a_name_on_a_prefix_of_others(scene: WheelBox) -> None:
    """The prefix is root's, read-only for the user but for the folder of holds; then that is closed, too."""
    box = scene.box
    user = Nameless(box.root, box.mirror)
    open_to_all(box.root)
    home = box.root / "nameless"
    home.mkdir(mode=0o700)
    os.chown(home, UID, UID)
    made = run(user, "create", "mine", "--on", ENTRY, "einops", home=home, USER="", LOGNAME="")
    assert made.code == 0, made.stderr
    assert (box.prefix / f"var/users/{UID}").stat().st_uid == UID
    box.ok("gc", "--dry-run", "--now")  # root's, which knows no name for the number
    refused = run(user, "create", "mine", "--on", ENTRY, "einops", home=home)
    assert (refused.code, "error[name-taken]" in refused.stderr) == (2, True)
    (box.prefix / "var/users").chmod(0o755)
    closed = run(user, "add", "mine", "broad", home=home)
    (box.prefix / "var/users").chmod(0o1777)
    assert closed.code == 0, closed.stderr
    assert "the cluster may remove what it stands on" in closed.stderr + closed.stdout
    assert run(user, "delete", "mine", home=home).code == 0
    assert [each for each in home.rglob("*mine*") if each.suffix != ".lock"] == []


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to become another user")
def test_two_users_of_a_group_folder_have_folders_of_their_own_that_the_group_cannot_change(scene: WheelBox) -> None:
    box, home, project = scene.box, scene.box.root / "of-the-group", scene.box.root / "project"
    user = Nameless(box.root, box.mirror)
    open_to_all(box.root)
    home.mkdir(mode=0o700)
    os.chown(home, UID, UID)
    project.mkdir()
    os.chown(project, 0, UID)
    project.chmod(0o2775)
    before = os.umask(0o002)
    try:
        made = [
            run(who, "create", name, "--on", ENTRY, "einops", "--at", str(project / name), home=where, USER="")
            for who, name, where in ((user, "theirs", home), (box, "ours", None))
        ]
    finally:
        os.umask(before)
    assert [done.code for done in made] == [0, 0], made[0].stderr + made[1].stderr
    roots = [project / ".envmgr-root", project / f".envmgr-uid-{UID}"]
    assert sorted(project.iterdir()) == [*roots, project / "ours", project / "theirs"]
    assert [root.stat().st_uid for root in roots] == [0, UID]
    folders = [each for root in roots for each in (root, *root.rglob("*")) if each.is_dir() and not each.is_symlink()]
    assert [each for each in folders if each.stat().st_mode & 0o022] == []
    remove_tree(roots[0])
    roots[0].symlink_to(roots[1])  # as who may write the folder can
    said = run(box, "create", "more", "--on", ENTRY, "einops", "--at", str(project / "more"))
    assert (said.code, f"error[place-invalid]: {roots[0]} is no folder" in said.stderr) == (2, True), said.stderr
    assert run(box, "delete", "ours").code == 0
    assert run(user, "delete", "theirs", home=home).code == 0
    assert [*project.iterdir()] == [roots[0]]


# FUSE lets nobody but the user who mounted it in, not even root: as a file server with root_squash does for a closed home.
CLOSED_HOME = """
mknod {root}/fuse c 10 229; chmod 666 {root}/fuse; mount --bind {root}/fuse /dev/fuse
mkdir -m 700 {root}/real {root}/home; chown games:games {root}/real {root}/home; mkfifo -m 666 {root}/pipe
out=$(sshfs -h 2>&1 | grep -q contain_symlinks && echo ,no_contain_symlinks) || :  # the entry lies outside
cat >{root}/serve <<'END'
/usr/lib/openssh/sftp-server <{root}/pipe | exec sshfs -f :{root}/real {root}/home -o passive,cache=no$1 >{root}/pipe
END
setpriv --reuid=games --regid=games --clear-groups sh {root}/serve "$out" &
for try in $(seq 600); do ! grep -q ' {root}/home ' /proc/mounts || break; sleep 0.1; done
grep -q ' {root}/home ' /proc/mounts
"""


@pytest.mark.skipif(
    os.geteuid() != 0 or not Path("/dev/fuse").exists() or shutil.which("sshfs") is None,
    reason="needs root and sshfs, for a home that root cannot read",
)
def test_home_that_root_cannot_read(scene: WheelBox, tmp_path: Path) -> None:
    box = scene.box
    for folder in (box.root, tmp_path):
        open_to_all(folder)
    inside = Small.enter(tmp_path, CLOSED_HOME.format(root=tmp_path))
    home = tmp_path / "home"
    environ = box.environ(HOME=str(home))
    games = ["setpriv", "--reuid=games", "--regid=games", "--clear-groups"]

    def sh(*argv: str, text: str = "", root: bool = False) -> subprocess.CompletedProcess[str]:
        words = [*inside.words(), *for_everybody(box.root), *([] if root else games), *argv]
        return subprocess.run(words, env=environ, cwd="/", input=text, capture_output=True, text=True, check=False)

    try:
        assert sh("ls", str(home), root=True).returncode != 0
        for argv in (("create", "mine", "--on", ENTRY, "einops"), ("add", "mine", "broad"), ("list",)):
            done = sh(*box.command("user", *argv))
            assert done.returncode == 0, done.stderr
        init = sh(*box.command("shell-init", "bash")).stdout
        script = f"{init}\nmodule load user/mine; python -c 'import einops, broad, six; print(einops.VERSION)'\n"
        assert sh("bash", "--noprofile", "--norc", text=script).stdout == "0.7\n"
        assert '"environments": "mine"' in next((box.prefix / "var/users").iterdir()).read_text()
        kept = sh(*box.command("gc", "--now", "--dry-run"), root=True)
        assert kept.returncode == 0, kept.stderr
        assert sh(*box.command("user", "delete", "mine")).returncode == 0
    finally:
        inside.sh(f"umount -l {home}")
        inside.leave()
        remove_tree(tmp_path / "real")


def test_wheel_with_another_content_than_its_record_says_is_refused(scene: WheelBox, tmp_path: Path) -> None:
    """Its sha256 is that of the lock: nobody but the wheel itself can tell."""
    wheel = scene.house.wheel("liar")
    with zipfile.ZipFile(wheel) as archive:
        files = {info: archive.read(info) for info in archive.infolist()}
    with zipfile.ZipFile(wheel, "w") as archive:
        for info, data in files.items():
            archive.writestr(info, b"VERSION = 'another'\n" if info.filename == "liar.py" else data)
    scene.house.write()
    done = run(scene.box, "create", "lies", "--on", ENTRY, "liar", home=tmp_path)
    assert done.code == 3
    assert "error[install-differs]: 1 file of " in done.stderr
    assert "site-packages/liar.py: another sha256 than its package says" in done.stderr
    assert nothing_of(tmp_path, "lies")
