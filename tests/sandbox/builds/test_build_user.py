"""Who builds, and whose the prefix is: root and the build user, others, umask and group of the site."""

from __future__ import annotations

import getpass
import json
import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from envmgr.system.files import remove_tree
from tests.helpers.builders import builders, compiled
from tests.helpers.open_folders import for_everybody
from tests.helpers.sandbox import Sandbox
from tests.helpers.scenes import HELLO, data, error_of, locked, log_of, processes, tamper
from tests.helpers.standin.channel import Channel
from tests.helpers.wheel_scene import make_wheel_box


def test_unknown_build_user(box: Sandbox) -> None:
    box.settings["build_user"] = "nobody-of-that-name"
    box.write_site()
    done = box.run("build", "hello/1.0")
    assert done.code == 2
    assert error_of(done, box) == (
        "error[unknown-user]: the build user `nobody-of-that-name` does not exist here\n"
        "\n"
        "hint: useradd --system --create-home nobody-of-that-name"
    )
    assert not box.prefix.exists()


@pytest.fixture
def build_user() -> Iterator[str]:
    """A system user made for the test when root runs it; else ourselves."""
    if os.geteuid() != 0:
        yield getpass.getuser()
        return
    name = f"envmgr-t{os.getpid()}"
    subprocess.run(["useradd", "--system", "--no-create-home", "--shell", "/usr/sbin/nologin", name], check=True)
    try:
        yield name
    finally:
        subprocess.run(["userdel", name], check=True, capture_output=True)


@dataclass
class OpenSandbox(Sandbox):
    """A sandbox that other users can enter. `wrap` comes before each command."""

    wrap: list[str] = field(default_factory=list)

    def command(self, *argv: str) -> list[str]:
        return [*self.wrap, *super().command(*argv)]


@pytest.fixture
def open_box(channel: Channel, build_user: str) -> Iterator[OpenSandbox]:
    """A site in a folder that other users can enter; only root has to give anything away."""
    root = Path(tempfile.mkdtemp(prefix="envmgr-open-"))
    root.chmod(0o755)
    box = OpenSandbox(root, str(channel.folder))
    if os.geteuid() == 0:
        box.wrap = for_everybody(root)
    (root / "cluster").mkdir()
    box.settings |= {"prefix": str(root / "cluster/prefix"), "build_user": build_user}
    box.write_site()
    locked(box, "hello/1.0", HELLO, tests=[{"name": "who", "run": "id -un"}])
    locked(box, "py/1.0", ["python"])
    yield box
    remove_tree(root)


def test_root_builds_as_the_build_user(open_box: OpenSandbox, build_user: str) -> None:
    """Also for an ordinary user, who is then the build user."""
    box = open_box
    done = box.ok("build", "hello/1.0", "py/1.0")
    uid = pwd.getpwnam(build_user).pw_uid
    prefix = Path(str(box.settings["prefix"]))
    assert {p.lstat().st_uid for p in [prefix, *prefix.rglob("*")]} == {uid}
    assert data(box, "history")["generations"][0]["user"] == build_user
    manifest = json.loads(next(prefix.glob("store/hello/*.manifest.json")).read_text())
    assert manifest["provenance"]["user"] == build_user
    assert log_of(done.stdout).stat().st_uid == uid
    assert oct(log_of(done.stdout).stat().st_mode & 0o777) == "0o644"  # the site's umask, not root's
    for argv in (["test"], ["verify"], ["publish", "--remove", "hello/1.0"], ["rollback"], ["gc"]):
        box.ok(*argv)
    assert {p.lstat().st_uid for p in [prefix, *prefix.rglob("*")]} == {uid}
    assert processes(box) == []


def test_code_of_a_source_runs_as_the_build_user_at_the_lock_and_at_the_build(
    open_box: OpenSandbox, build_user: str
) -> None:
    who = open_box.root / "who"
    who.mkdir()
    who.chmod(0o777)
    scene = make_wheel_box(open_box, *builders())
    before = f"import os, sys; open(f'{who}/{{os.getuid()}}-{{os.environ[\"HOME\"] != \"{Path.home()}\"}}-{{sys.argv[1]}}', 'w').close()"
    scene.house.sdist("here", "1.0", compiled("here", before=before))
    scene.entry("some/1.0", "here", build=["here"])
    uid = pwd.getpwnam(build_user).pw_uid
    open_box.ok("lock", "some/1.0")
    open_box.ok("lock", "--upgrade", "here", "some/1.0")  # its uv writes over what it keeps
    assert {path.name for path in who.iterdir()} == {f"{uid}-True-egg_info", f"{uid}-True-dist_info"}
    done = open_box.ok("build", "some/1.0")
    assert f"{uid}-True-bdist_wheel" in {path.name for path in who.iterdir()}
    assert all(path.stat().st_uid == uid for path in who.iterdir())
    assert "its build runs as root" not in done.stderr
    install = Path(data(open_box, "list", "some/1.0")["install"])
    tamper(next(install.rglob("*.so")), "damaged")
    (made,) = data(open_box, "build", "--again", "some/1.0")["installs"]
    assert (made["outcome"], made["other"]) == ("replaced", []), "at the same place, in a namespace in a namespace"
    open_box.ok("verify")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes a user")
def test_what_the_build_user_makes_again_is_in_the_group_of_the_site(open_box: OpenSandbox, build_user: str) -> None:
    """Its user namespace has no such group."""
    subprocess.run(["usermod", "-aG", "users", build_user], check=True)
    open_box.policies |= {"group": "users", "umask": "027"}
    open_box.write_site()
    open_box.ok("build", "hello/1.0")
    install = Path(data(open_box, "list", "hello/1.0")["install"])
    tamper(install / "bin/hello-prefix", "damaged")
    (made,) = data(open_box, "build", "--again", "hello/1.0")["installs"]
    assert made["outcome"] == "replaced"
    assert {(path.owner(), path.group()) for path in [install, *install.rglob("*")]} == {(build_user, "users")}
    assert open_box.leftovers() == []
    open_box.ok("verify")


def test_build_user_builds_too_and_others_are_refused(open_box: OpenSandbox, build_user: str) -> None:
    box = open_box
    box.ok("build", "hello/1.0")
    if os.geteuid() == 0:
        run = ["setpriv", f"--reuid={build_user}", f"--regid={build_user}", "--clear-groups"]
        done = as_user(box, run, "build", "py/1.0")
        assert done.returncode == 0, done.stderr
        nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
        refused = as_user(box, nobody, "build", "py/1.0")
        assert refused.returncode == 3
        assert refused.stderr == (
            f"error[wrong-user]: the prefix belongs to {build_user}, you are nobody\n"
            f"  build_user in site.yaml, prefix {box.settings['prefix']}\n"
            f"\n"
            f"hint: run as root or as {build_user}\n"
        )
        for argv in (
            ["list"],
            ["history"],
            ["shell-init", "bash"],
            ["test", "hello/1.0"],
            ["build", "py/1.0", "--dry-run"],
        ):
            looked = as_user(box, nobody, *argv)
            assert looked.returncode == 0, looked.stderr
    else:
        box.ok("build", "py/1.0")


def as_user(box: OpenSandbox, run: list[str], *argv: str) -> subprocess.CompletedProcess[str]:
    env = {**box.environ(), "HOME": "/nonexistent"}
    return subprocess.run(
        [*box.wrap, *run, *Sandbox.command(box, *argv)], cwd="/", env=env, capture_output=True, text=True, check=False
    )


def test_prefix_of_another_user_is_told_before_any_work(open_box: OpenSandbox, build_user: str) -> None:
    box = open_box
    prefix = Path(str(box.settings["prefix"]))
    if os.geteuid() == 0:
        prefix.mkdir()  # root's
        owner = "root"
    else:
        prefix.mkdir(mode=0o555)
        owner = build_user
    done = box.run("build", "hello/1.0")
    assert done.code == 3
    assert done.stderr == (
        f"error[not-writable]: cannot write {prefix}\n"
        f"  it belongs to {owner}, running as {build_user}\n"
        f"\n"
        f"hint: run as the site's build user (as root, envmgr changes to it), or give this user the whole prefix\n"
    )
    assert list(prefix.iterdir()) == []
    if os.geteuid() == 0:
        shutil.chown(prefix, build_user)
    else:
        prefix.chmod(0o755)
    box.ok("build", "hello/1.0")


@pytest.mark.parametrize("folder", ["store", "generations", "var/lock", "var/log"])
def test_folder_that_a_run_as_another_user_made_is_told(open_box: OpenSandbox, build_user: str, folder: str) -> None:
    box = open_box
    prefix = Path(str(box.settings["prefix"]))
    box.ok("build", "hello/1.0")
    if os.geteuid() == 0:
        os.chown(prefix / folder, 0, 0)
    else:
        (prefix / folder).chmod(0o555)
    done = box.run("build", "py/1.0")
    assert done.code == 3
    assert done.stderr.startswith(f"error[not-writable]: cannot write {prefix / folder}\n")


def test_lock_that_a_run_as_another_user_made_is_told(open_box: OpenSandbox) -> None:
    box = open_box
    prefix = Path(str(box.settings["prefix"]))
    box.ok("build", "hello/1.0")
    lock = prefix / "var/lock/publish.lock"
    if os.geteuid() == 0:
        os.chown(lock, 0, 0)
    lock.chmod(0o444)
    done = box.run("publish", "--remove", "hello/1.0")
    assert done.code == 3
    start = done.stderr.index("error[")
    assert done.stderr[start:].startswith(f"error[not-writable]: cannot write {lock}\n")
    assert box.ok("list", "--format", "json").data["generation"] == 1
    lock.unlink()
    box.ok("publish", "--remove", "hello/1.0")


def test_prefix_that_cannot_be_made(open_box: OpenSandbox) -> None:
    box = open_box
    (box.root / "cluster/file").write_text("")
    box.settings["prefix"] = str(box.root / "cluster/file/prefix")
    box.write_site()
    done = box.run("build", "hello/1.0")
    assert done.code == 3
    assert error_of(done, box).splitlines()[1].startswith("  [Errno 20] Not a directory: 'ROOT/cluster/file/prefix")


def test_prefix_folder_that_root_makes_belongs_to_the_build_user(open_box: OpenSandbox, build_user: str) -> None:
    """Its parents stay as they are, or root's."""
    box = open_box
    box.settings["prefix"] = str(box.root / "cluster/new/deep/prefix")
    box.write_site()
    box.ok("build", "hello/1.0")
    prefix = Path(str(box.settings["prefix"]))
    assert prefix.owner() == build_user
    assert prefix.parent.owner() == getpass.getuser()


def test_umask_and_group_of_the_site(box: Sandbox) -> None:
    box.policies["umask"] = "027"
    box.write_site()
    box.ok("build", "hello/1.0")
    install = Path(data(box, "list", "hello/1.0")["install"])
    assert {p.lstat().st_mode & 0o007 for p in [install, *install.rglob("*")] if not p.is_symlink()} == {0}
    box.ok("verify")
    assert oct((install / "bin/hello-prefix").stat().st_mode & 0o777) == "0o550"


def test_unknown_group_is_told(box: Sandbox) -> None:
    box.policies["group"] = "no-such-group"
    box.write_site()
    done = box.run("build", "hello/1.0")
    assert done.code == 2
    assert error_of(done, box) == (
        "error[unknown-group]: the group `no-such-group` does not exist here\n  policies.group in site.yaml"
    )
    assert box.leftovers() == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")
def test_root_signs_with_a_key_that_the_build_user_cannot_read(open_box: OpenSandbox, build_user: str) -> None:
    box = open_box
    keys = box.root / "keys"
    keys.mkdir(mode=0o700)
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", keys / "admin"], check=True)
    (box.root / "allowed_signers").write_text(f"root {(keys / 'admin.pub').read_text()}")
    box.settings["signing"] = {"key": str(keys / "admin"), "allowed_signers": "allowed_signers"}
    box.write_site()
    box.ok("build", "hello/1.0")
    box.ok("sign")
    prefix = Path(str(box.settings["prefix"]))
    assert {p.lstat().st_uid for p in [prefix, *prefix.rglob("*")]} == {pwd.getpwnam(build_user).pw_uid}
    assert box.ok("verify").stdout.splitlines()[0] == "flip 2, signed by root"
    run = ["setpriv", f"--reuid={build_user}", f"--regid={build_user}", "--clear-groups"]
    alone = as_user(box, run, "sign")
    assert alone.returncode == 3
    assert alone.stderr.startswith(f"error[not-signed]: the flip could not be signed with {keys}/admin\n")
    assert sorted(path.name for path in (prefix / "flips").glob("*.json")) == ["000001.json", "000002.json"]
    assert processes(box) == []
