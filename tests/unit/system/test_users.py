"""Root drops to the build user: tried for real, in a subprocess, when root runs the tests; else the refusals are."""

from __future__ import annotations

import grp
import json
import os
import pwd
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from envmgr.errors import InputError
from envmgr.system.run import Runner, clean_env
from envmgr.system.users import command_as, drop_to, find_account, require_account, session_as, this_account
from tests.helpers.places import ROOT
from tests.helpers.waiting import DEADLINE, wait_for

AM_ROOT = os.geteuid() == 0
NOBODY = pwd.getpwnam("nobody")
ME = pwd.getpwuid(os.geteuid()).pw_name

# Drops to a user and tells what it has become. This Python and this checkout may lie in root's home, so the names of
# others that the user can read stand for them; the environment variables replace one.
BECOME = """
import json, os, sys
from pathlib import Path
from envmgr.system import users
from envmgr.errors import EnvmgrError

user, prefix, start_as = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
sys.executable = os.environ.get("EXECUTABLE", "/bin/sh")
users._PACKAGE = Path(os.environ.get("PACKAGE", "/usr"))
if start_as:
    os.setuid(start_as)
try:
    users.drop_to(user, prefix)
except EnvmgrError as error:
    print(json.dumps({"error": error.render(), "code": error.exit_code}))
    sys.exit()
try:
    os.setuid(0)
    regained = True
except PermissionError:
    regained = False
print(json.dumps({
    "uid": os.getresuid(), "gid": os.getresgid(), "groups": os.getgroups(), "regained": regained, "cwd": os.getcwd(),
    "env": {k: os.environ[k] for k in ("HOME", "USER", "LOGNAME")},
}))
"""


def become(user: str, prefix: Path, *wrapper: str, start_as: int = 0, cwd: Path = ROOT, **env: str) -> dict[str, Any]:
    done = subprocess.run(
        [*wrapper, sys.executable, "-c", BECOME, user, prefix, str(start_as)],
        cwd=cwd,
        env={"PATH": os.environ["PATH"], "HOME": "/root", "USER": "root", "PYTHONPATH": str(ROOT), **env},
        capture_output=True,
        text=True,
        check=False,
        timeout=DEADLINE,
    )
    assert (done.returncode, done.stderr) == (0, "")
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def wrong_user(user: str, me: str, prefix: Path) -> dict[str, Any]:
    text = (
        f"error[wrong-user]: the prefix belongs to {user}, you are {me}\n"
        f"  build_user in site.yaml, prefix {prefix}\n"
        "\n"
        f"hint: run as root or as {user}"
    )
    return {"error": text, "code": 3}


def test_drop_to_becomes_the_user_for_good_and_gives_it_the_prefix(tmp_path: Path) -> None:
    prefix = tmp_path / "shared" / "envmgr"
    found = become("nobody", prefix, cwd=Path("/"))
    if not AM_ROOT:
        assert found == wrong_user("nobody", ME, prefix)
        assert not prefix.exists()
        return
    uid, gid = NOBODY.pw_uid, NOBODY.pw_gid
    groups = {gid, *(g.gr_gid for g in grp.getgrall() if "nobody" in g.gr_mem)}
    assert (found["uid"], found["gid"], set(found["groups"])) == ([uid] * 3, [gid] * 3, groups)
    assert found["regained"] is False
    assert found["env"] == {"HOME": NOBODY.pw_dir, "USER": "nobody", "LOGNAME": "nobody"}
    status = prefix.stat()
    assert (status.st_uid, status.st_gid, stat.S_IMODE(status.st_mode) & 0o700) == (uid, gid, 0o700)
    above = prefix.parent.stat()
    assert (above.st_uid, above.st_gid) == (0, gid)


def test_drop_to_leaves_a_prefix_that_exists_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "kept").write_text("x")
    before = [(p, p.stat().st_uid, p.stat().st_mode) for p in (tmp_path, tmp_path / "kept")]
    found = become("nobody", tmp_path)
    assert found.get("uid") == ([NOBODY.pw_uid] * 3 if AM_ROOT else None)
    assert [(p, p.stat().st_uid, p.stat().st_mode) for p in (tmp_path, tmp_path / "kept")] == before


def test_drop_to_leaves_a_folder_that_the_user_cannot_read(tmp_path: Path) -> None:
    private, public = tmp_path / "private", Path("/usr")
    private.mkdir(mode=0o700)
    found = become("nobody", tmp_path, cwd=private)
    assert found == wrong_user("nobody", ME, tmp_path) or found["cwd"] == "/"
    found = become("nobody", tmp_path, cwd=public)
    assert found == wrong_user("nobody", ME, tmp_path) or found["cwd"] == "/usr"


@pytest.fixture
def reached() -> Iterator[Path]:
    """A folder that every user can enter; pytest's own are closed."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


def test_drop_to_tells_a_python_that_the_user_cannot_run(reached: Path) -> None:
    tmp_path = reached
    tool = tmp_path / "python"
    tool.write_text("#!/bin/sh\n")
    tool.chmod(0o700)
    found = become("nobody", tmp_path, EXECUTABLE=str(tool))
    if not AM_ROOT:
        assert found == wrong_user("nobody", ME, tmp_path)
        return
    assert found == {
        "error": f"error[user-cannot-run]: nobody cannot run {tool}\n"
        "  root started envmgr and changes to the build user\n"
        "\n"
        "hint: install envmgr where that user can read it, for example under /opt",
        "code": 3,
    }


def test_python_of_a_virtual_environment_that_leads_into_a_closed_home_is_told(reached: Path) -> None:
    """The environment can be read: who looks only at that path finds nothing wrong."""
    tmp_path = reached
    home = tmp_path / "home"
    (home / "bin").mkdir(parents=True)
    (home / "bin/python3").write_text("#!/bin/sh\n")
    (home / "bin/python3").chmod(0o755)
    home.chmod(0o700)
    for folder in ("venv/bin", "other"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "other/python").symlink_to("../home/bin/python3")
    (tmp_path / "venv/bin/python").symlink_to(tmp_path / "other/python")
    found = become("nobody", tmp_path, EXECUTABLE=str(tmp_path / "venv/bin/python"))
    if not AM_ROOT:
        assert found == wrong_user("nobody", ME, tmp_path)
        return
    assert found["error"].splitlines()[0] == (
        f"error[user-cannot-run]: nobody cannot run {tmp_path}/venv/bin/python: it leads to "
        f"{tmp_path}/other/../home/bin/python3, and {home} is closed to nobody"
    )
    assert (
        "hint: install envmgr with a Python that this user can run, such as /usr/bin/python3, where" in found["error"]
    )


def test_drop_to_tells_a_package_that_the_user_cannot_read(tmp_path: Path) -> None:
    """The verbs are imported after the change of user."""
    package = tmp_path / "envmgr"
    package.mkdir(mode=0o700)
    found = become("nobody", tmp_path, PACKAGE=str(package))
    first = f"error[user-cannot-run]: nobody cannot run {package}"
    assert found == wrong_user("nobody", ME, tmp_path) or found["error"].startswith(first)


@pytest.mark.parametrize(("uid", "name"), [(NOBODY.pw_uid, "nobody"), (61234, "uid 61234")])
def test_drop_to_refuses_anybody_else(tmp_path: Path, uid: int, name: str) -> None:
    prefix = tmp_path / "envmgr"
    found = become("daemon", prefix, start_as=uid if AM_ROOT else 0)
    assert found == wrong_user("daemon", name if AM_ROOT else ME, prefix)
    assert not prefix.exists()


def test_drop_to_tells_a_root_that_may_not_change_its_user(tmp_path: Path) -> None:
    """Root of a container with few capabilities."""
    if not AM_ROOT:
        assert become("nobody", tmp_path) == wrong_user("nobody", ME, tmp_path)
        return
    found = become("nobody", tmp_path, "setpriv", "--bounding-set", "-setuid,-setgid")
    assert found == {
        "error": "error[wrong-user]: root cannot become nobody here\n"
        "  [Errno 1] Operation not permitted\n"
        "\n"
        "hint: run as nobody",
        "code": 3,
    }


def test_drop_to_tells_a_prefix_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    prefix = tmp_path / "file" / "envmgr"
    found = become("nobody", prefix)
    assert found == wrong_user("nobody", ME, prefix) or found["error"].startswith("error[path-unusable]: ")


def test_drop_to_tells_a_user_that_does_not_exist(tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        drop_to("no-such-user", tmp_path / "p")
    assert caught.value.exit_code == 2
    assert caught.value.render() == (
        "error[unknown-user]: the build user `no-such-user` does not exist here\n\nhint: useradd --system --create-home no-such-user"
    )
    assert not (tmp_path / "p").exists()


@pytest.mark.parametrize("user", [None, ME])
def test_drop_to_changes_nothing_for_oneself_or_for_nobody_named(tmp_path: Path, user: str | None) -> None:
    before = (os.getresuid(), os.getresgid(), os.getgroups(), dict(os.environ), Path.cwd())
    drop_to(user, tmp_path / "p")
    assert (os.getresuid(), os.getresgid(), os.getgroups(), dict(os.environ), Path.cwd()) == before
    assert not (tmp_path / "p").exists()


only_root = pytest.mark.skipif(not AM_ROOT, reason="what root runs")


@only_root
def test_command_of_another_user_has_nothing_of_root_and_ends_with_what_it_left() -> None:
    nobody = require_account("nobody")
    script = "id -u; id -G; sleep 1200 </dev/null >/dev/null 2>&1 & echo $!"
    done = Runner().run(["/bin/sh", "-c", script], cwd=Path("/"), run_as=nobody)
    uid, *groups, left = done.stdout.split()
    assert (int(uid), {int(g) for g in groups}) == (nobody.uid, set(nobody.groups()))
    line = Path(f"/proc/{left}/cmdline")
    wait_for(lambda: not line.exists() or not line.read_bytes(), what="the end of what it left")


@only_root
def test_prefix_that_root_makes_for_a_user_is_within_reach_whatever_the_umask(tmp_path: Path) -> None:
    tmp_path.chmod(0o711)
    code = (
        "import os, sys; from pathlib import Path; from envmgr.system import users\n"
        "sys.executable = '/bin/sh'; users._PACKAGE = Path('/usr'); before = os.getresuid(), os.getresgid(), os.getgroups()\n"
        "users.runs_for_root('nobody', Path('shared/envmgr').absolute(), mask=0o027)\n"
        "assert (os.getresuid(), os.getresgid(), os.getgroups()) == before"
    )
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT)}
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=env, check=True, timeout=DEADLINE)
    found = [
        (p.stat().st_uid, p.stat().st_gid, stat.S_IMODE(p.stat().st_mode))
        for p in (tmp_path / "shared", tmp_path / "shared/envmgr")
    ]
    assert found == [(0, NOBODY.pw_gid, 0o750), (NOBODY.pw_uid, NOBODY.pw_gid, 0o750)]


@only_root
def test_words_before_a_command_make_it_another_users() -> None:
    told = ["/bin/sh", "-c", 'id -u; id -G; echo "$HOME $USER $LOGNAME"']
    nobody, env = require_account("nobody"), clean_env()
    words = session_as("nobody", env, find=lambda name: shutil.which(name, path=clean_env()["PATH"]) or "")
    uid, groups, *variables = Runner().run([*words, *told], env=env, cwd=Path("/")).stdout.splitlines()
    assert (int(uid), {int(g) for g in groups.split()}) == (nobody.uid, set(nobody.groups()))
    assert variables == [f"{nobody.home} nobody nobody"]
    uid, groups, _ = Runner().run([*command_as(nobody), *told], cwd=Path("/")).stdout.splitlines()
    assert (int(uid), {int(g) for g in groups.split()}) == (nobody.uid, set(nobody.groups()))


def test_session_of_nobody_named_and_of_root_is_the_own_one() -> None:
    env = {"HOME": "/own"}
    assert session_as(None, env, find=str) == session_as("root", env, find=str) == ()
    assert env == {"HOME": "/own"}


@only_root
def test_session_of_a_user_that_does_not_exist_is_told() -> None:
    with pytest.raises(InputError) as caught:
        session_as("no-such-user", {}, find=str)
    assert caught.value.render() == "error[unknown-user]: the user `no-such-user` does not exist here"


def test_accounts_are_as_the_machine_has_them() -> None:
    assert find_account("no-such-user") is None
    found = find_account("nobody")
    assert found is not None
    assert (found.uid, found.gid, found.home) == (NOBODY.pw_uid, NOBODY.pw_gid, NOBODY.pw_dir)
    assert this_account().name == ME
