from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import signal
import socket
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envmgr.errors import EnvmgrError
from envmgr.system.files import (
    atomic_write,
    canonical_json,
    clear_temporaries,
    exchange,
    explain_os_error,
    free_bytes,
    pretty_json,
    read_regular,
    remove_tree,
    sha256_bytes,
    sha256_file,
    sha256_regular,
)
from envmgr.system.locks import file_lock, try_file_lock
from tests.helpers.places import ROOT
from tests.helpers.waiting import DEADLINE, HANGS, soon

# Holds the lock named by argv, says so, and waits for its stdin to end.
HOLDER = """
import sys
from pathlib import Path
from types import SimpleNamespace
from envmgr.system.locks import file_lock
with file_lock(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


def python(code: str, *argv: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", code, *argv], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


def names(folder: Path) -> list[str]:
    return sorted(p.name for p in folder.iterdir())


def mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


def test_canonical_json_has_one_byte_form() -> None:
    assert canonical_json({"b": [1, None, True], "a": "ä\n"}) == '{"a":"ä\\n","b":[1,null,true]}'.encode()


@given(st.dictionaries(st.text(), st.integers() | st.text() | st.lists(st.text()), max_size=6), st.randoms())
def test_canonical_json_does_not_depend_on_order(data: dict[str, object], random: object) -> None:
    items = list(data.items())
    random.shuffle(items)  # type: ignore[attr-defined]
    assert canonical_json(dict(items)) == canonical_json(data)


def test_canonical_json_takes_names_that_are_not_utf_8() -> None:
    assert canonical_json([os.fsdecode(b"\xff")]) != canonical_json([os.fsdecode(b"\xfe")])


def test_pretty_json_is_for_diffs() -> None:
    assert pretty_json({"b": 1, "a": ["ä"]}) == '{\n "a": [\n  "ä"\n ],\n "b": 1\n}\n'


def test_sha256_of_file_and_bytes_agree(tmp_path: Path) -> None:
    data = os.urandom(300_000)
    (tmp_path / "f").write_bytes(data)
    assert sha256_file(tmp_path / "f") == sha256_bytes(data)
    assert sha256_bytes(b"") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"


@pytest.mark.parametrize("wanted", [0o644, 0o444, 0o600, 0o755])
def test_atomic_write_sets_the_mode_whatever_the_umask(tmp_path: Path, wanted: int) -> None:
    before = os.umask(0o077)
    try:
        atomic_write(tmp_path / "new" / "folder" / "f", "text", mode=wanted)
    finally:
        os.umask(before)
    assert mode(tmp_path / "new" / "folder" / "f") == wanted


def test_atomic_write_replaces_text_and_bytes_and_leaves_nothing_beside(tmp_path: Path) -> None:
    atomic_write(tmp_path / "f", "ä")
    atomic_write(tmp_path / "f", b"\xff\0", mode=0o444)
    atomic_write(tmp_path / "f", "last")
    assert (tmp_path / "f").read_text() == "last"
    assert names(tmp_path) == ["f"]


def test_atomic_write_replaces_a_link_and_not_what_it_points_to(tmp_path: Path) -> None:
    (tmp_path / "target").write_text("target")
    (tmp_path / "link").symlink_to("target")
    atomic_write(tmp_path / "link", "new")
    assert ((tmp_path / "target").read_text(), (tmp_path / "link").is_symlink()) == ("target", False)


def test_atomic_write_keeps_the_old_content_when_the_write_fails(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("old")
    code = (
        "import resource, signal, sys\n"
        "from pathlib import Path\n"
        "from envmgr.system.files import atomic_write\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"
        "try:\n"
        "    atomic_write(Path(sys.argv[1]), 'x' * 5000)\n"
        "except OSError as error:\n"
        "    print(error.errno)\n"
    )
    process = python(code, str(tmp_path / "f"))
    assert process.communicate(timeout=DEADLINE) == (f"{errno.EFBIG}\n", None)
    assert (tmp_path / "f").read_text() == "old"
    assert names(tmp_path) == ["f"]


def test_atomic_write_tells_a_folder_that_stands_in_the_way_and_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "f").mkdir()
    with pytest.raises(EnvmgrError) as caught:
        atomic_write(tmp_path / "f", "x")
    assert caught.value.reference == "path-unusable"
    assert names(tmp_path) == ["f"]


def test_atomic_write_tells_a_parent_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("")
    with pytest.raises(EnvmgrError) as caught:
        atomic_write(tmp_path / "f" / "g", "x")
    assert caught.value.reference == "path-unusable"


def test_atomic_write_readers_see_old_or_new_never_a_part(tmp_path: Path) -> None:
    path = tmp_path / "f"
    texts = ["a" * 200_000, "b" * 200_000]
    atomic_write(path, texts[0])
    seen: set[str] = set()
    done = threading.Event()

    def read() -> None:
        while not done.is_set():
            seen.add(path.read_text())

    reader = threading.Thread(target=read)
    reader.start()
    try:
        for n in range(20):
            atomic_write(path, texts[n % 2])
        assert soon(lambda: seen)
    finally:
        done.set()
        reader.join()
    assert seen <= set(texts)


def test_remove_tree_removes_read_only_trees(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    (tree / "a" / "b").mkdir(parents=True)
    (tree / "a" / "b" / "f").write_text("x")
    (tree / "a" / "f").write_text("x")
    for path in sorted(tree.rglob("*"), reverse=True):
        path.chmod(0o444 if path.is_file() else 0o555)
    (tree / "closed").mkdir()
    (tree / "closed").chmod(0)
    tree.chmod(0o555)
    remove_tree(tree)
    assert names(tmp_path) == []


def test_remove_tree_does_not_follow_links(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "keep").write_text("kept")
    outside.chmod(0o555)
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "folder").symlink_to(outside)
    (tree / "file").symlink_to(outside / "keep")
    (tree / "broken").symlink_to("nowhere")
    (tree / "loop").symlink_to("loop")
    (tree / "up").symlink_to("..")
    remove_tree(tree)
    assert not tree.exists()
    assert (outside / "keep").read_text() == "kept"
    assert mode(outside) == 0o555
    outside.chmod(0o755)


def test_remove_tree_of_a_link_removes_the_link_only(tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "link").symlink_to("outside")
    remove_tree(tmp_path / "link")
    assert names(tmp_path) == ["outside"]


def test_remove_tree_of_a_file_or_of_nothing_is_fine(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("")
    (tmp_path / "f").chmod(0o400)
    remove_tree(tmp_path / "f")
    remove_tree(tmp_path / "f")
    assert names(tmp_path) == []


def test_remove_tree_takes_odd_names(tmp_path: Path) -> None:
    folder = tmp_path / "tree" / os.fsdecode(b"a\n\xff")
    folder.mkdir(parents=True)
    (folder / os.fsdecode(b"\xfe")).write_text("")
    folder.chmod(0o555)
    remove_tree(tmp_path / "tree")
    assert names(tmp_path) == []


def test_remove_tree_by_two_at_once_is_fine(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    for n in range(300):
        (tree / f"{n}").mkdir(parents=True)
        (tree / f"{n}" / "f").write_text("")
    errors: list[BaseException] = []

    def remove() -> None:
        try:
            remove_tree(tree)
        except BaseException as error:  # noqa: BLE001 - told by the assertion below
            errors.append(error)

    threads = [threading.Thread(target=remove) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert not tree.exists()


def test_free_bytes_asks_the_nearest_existing_parent(tmp_path: Path) -> None:
    status = os.statvfs(tmp_path)
    assert abs(free_bytes(tmp_path / "not" / "there") - status.f_bavail * status.f_frsize) < 1 << 30


DISK_FULL = "free some space (`envmgr gc` removes old generations and unused installs), then run the same command again"


@pytest.mark.parametrize(
    ("number", "reference", "message", "hint"),
    [
        *((n, "disk-full", "no space left for /p/f", DISK_FULL) for n in (errno.ENOSPC, errno.EDQUOT)),
        (
            errno.EACCES,
            "not-writable",
            "cannot write /p/f",
            "run as the site's build user, or give this user the folder",
        ),
        (
            errno.EROFS,
            "not-writable",
            "cannot write /p/f",
            f"mount its file system read-write on {socket.gethostname()}",
        ),
        *(
            (n, "mount-lost", "the file system under /p/f does not answer properly", "")
            for n in (errno.ESTALE, errno.EIO, errno.EREMOTEIO, errno.ESHUTDOWN, errno.ETIMEDOUT, errno.EFAULT)
        ),
        *(
            (n, "path-unusable", "/p/f cannot be used", "")
            for n in (errno.ENOTDIR, errno.ENOTEMPTY, errno.EBUSY, errno.ENXIO)
        ),
    ],
)
def test_explain_os_error_says_who_must_act(number: int, reference: str, message: str, hint: str) -> None:
    with pytest.raises(EnvmgrError) as caught, explain_os_error(Path("/other")):
        raise OSError(number, os.strerror(number), "/p/f")
    error = caught.value
    assert (error.reference, error.message, error.hint, error.exit_code) == (reference, message, hint, 3)
    assert error.context == (f"[Errno {number}] {os.strerror(number)}: '/p/f'",)


def test_explain_os_error_names_the_path_given_when_the_error_has_none() -> None:
    with pytest.raises(EnvmgrError, match="no space left for /the/path"), explain_os_error(Path("/the/path")):
        raise OSError(errno.ENOSPC, "No space left on device")


def test_explain_os_error_of_a_real_full_device() -> None:
    with pytest.raises(EnvmgrError) as caught, explain_os_error(Path("/dev/full")):
        Path("/dev/full").write_text("x")
    assert caught.value.reference == "disk-full"


def test_explain_os_error_lets_other_errors_pass() -> None:
    with pytest.raises(BlockingIOError), explain_os_error(Path("/x")):
        raise OSError(errno.EAGAIN, "busy")


def test_file_lock_excludes_another_process_and_tells_who_holds_it(tmp_path: Path) -> None:
    path = tmp_path / "var" / "lock" / "publish.lock"
    holder = python(HOLDER, str(path))
    assert holder.stdin is not None
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    told: list[str] = []
    polls: list[float] = []

    def poll() -> None:
        polls.append(time.monotonic())
        if len(polls) == 3:
            holder.stdin.close()  # type: ignore[union-attr]

    with try_file_lock(path) as had:
        assert not had
    with file_lock(path, on_wait=told.append, check=poll):
        assert holder.wait(timeout=DEADLINE) == 0
    holder.stdout.close()
    assert len(polls) >= 3
    (text,) = told
    assert text.startswith(f"process {holder.pid} on {os.uname().nodename} since 20")


@pytest.mark.parametrize(("umask", "mode"), [(0o022, 0o600), (0o002, 0o660), (0o077, 0o600), (0o027, 0o600)])
def test_lock_can_be_opened_by_nobody_but_those_who_may_publish(tmp_path: Path, umask: int, mode: int) -> None:
    """Who can read a file can lock it, and would stop every publish."""
    new, old = tmp_path / "new.lock", tmp_path / "old.lock"
    before = os.umask(umask)
    try:
        old.touch()
        old.chmod(0o664 & ~umask)
        for path in (new, old):
            with file_lock(path):
                assert stat.S_IMODE(path.stat().st_mode) == mode
    finally:
        os.umask(before)


def test_lock_that_is_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("text")
    (tmp_path / "l.lock").symlink_to("precious")
    with pytest.raises(EnvmgrError), file_lock(tmp_path / "l.lock"):
        pass
    assert (tmp_path / "precious").read_text() == "text"


def test_file_lock_is_not_blocked_by_a_killed_holder(tmp_path: Path) -> None:
    holder = python(HOLDER, str(tmp_path / "l"))
    assert holder.stdin is not None
    assert holder.stdout is not None
    holder.stdout.readline()
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    holder.stdin.close()
    holder.stdout.close()
    told: list[str] = []
    with file_lock(tmp_path / "l", on_wait=told.append):
        assert told == []


def test_file_lock_stops_waiting_when_check_raises(tmp_path: Path) -> None:
    def check() -> None:
        raise KeyboardInterrupt

    with file_lock(tmp_path / "l"), pytest.raises(KeyboardInterrupt), file_lock(tmp_path / "l", check=check):
        pytest.fail("had the lock twice")
    with try_file_lock(tmp_path / "l") as had:
        assert had


def test_file_lock_names_nobody_when_the_record_cannot_be_read(tmp_path: Path) -> None:
    told: list[str] = []

    def check() -> None:
        raise KeyboardInterrupt

    with file_lock(tmp_path / "l"):
        (tmp_path / "l").write_text("")
        with pytest.raises(KeyboardInterrupt), file_lock(tmp_path / "l", on_wait=told.append, check=check):
            pytest.fail("had the lock twice")
    assert told == ["another process"]


def test_file_lock_is_not_inherited_by_children(tmp_path: Path) -> None:
    with file_lock(tmp_path / "l"):
        child = subprocess.Popen(["sleep", str(HANGS)], close_fds=False)
    try:
        with try_file_lock(tmp_path / "l") as had:
            assert had
    finally:
        child.kill()
        child.wait()


def test_try_file_lock_tells_whether_it_was_had_and_gives_it_back(tmp_path: Path) -> None:
    with try_file_lock(tmp_path / "a" / "l") as first, try_file_lock(tmp_path / "a" / "l") as second:
        assert (first, second) == (True, False)
    with try_file_lock(tmp_path / "a" / "l") as again:
        assert again


def test_file_lock_tells_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("")
    with pytest.raises(EnvmgrError) as caught, file_lock(tmp_path / "f" / "l"):
        pytest.fail("had a lock that cannot be")
    assert caught.value.reference == "path-unusable"


@pytest.mark.parametrize("way", ["at once", "by renames", "not on this file system"])
def test_exchange_gives_each_the_other_s_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    if way == "by renames":
        monkeypatch.setattr(ctypes, "CDLL", lambda *_, **__: object())
    elif way != "at once":

        def refused(*_: object) -> int:
            ctypes.set_errno(errno.EINVAL)
            return -1

        monkeypatch.setattr(ctypes, "CDLL", lambda *_, **__: SimpleNamespace(renameat2=refused))
    (tmp_path / "one").mkdir()
    (tmp_path / "other").write_text("other")
    exchange(tmp_path / "one", tmp_path / "other")
    assert ((tmp_path / "one").read_text(), (tmp_path / "other").is_dir()) == ("other", True)
    assert len(list(tmp_path.iterdir())) == 2
    exchange(tmp_path / "one", tmp_path / "third")
    assert (tmp_path / "third").read_text() == "other"
    with pytest.raises(FileNotFoundError):
        exchange(tmp_path / "gone", tmp_path / "third")
    assert (tmp_path / "third").read_text() == "other"


@pytest.mark.parametrize("size", [0, 1, (256 << 10) - 1, 256 << 10, (256 << 10) + 1, 3 << 20])
@pytest.mark.parametrize("told", [0, 1, 256 << 10, 3 << 20])
def test_sha256_of_a_regular_file_is_of_all_of_it_whatever_size_was_told(tmp_path: Path, size: int, told: int) -> None:
    data = bytes(range(251)) * (size // 251 + 1)
    (tmp_path / "f").write_bytes(data[:size])
    for each in (told, size):
        assert sha256_regular(str(tmp_path / "f"), each) == sha256_bytes(data[:size])
    assert read_regular(tmp_path / "f") == data[:size]


def test_what_is_no_regular_file_is_not_read_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("/etc/passwd")
    for name in ("pipe", "link", "."):
        with pytest.raises(OSError):
            read_regular(tmp_path / name)
    with pytest.raises(OSError):
        sha256_regular(str(tmp_path / "link"), 1)


def test_temporary_of_a_killed_write_goes_with_the_next_and_of_a_living_one_stays(tmp_path: Path) -> None:
    dead, living, others = tmp_path / ".note.77.88.tmp", tmp_path / ".note.77.99.tmp", tmp_path / ".other.77.88.tmp"
    for path in (dead, living, others):
        path.write_text("half")
    link, pipe = tmp_path / ".note.77.1.tmp", tmp_path / ".note.77.2.tmp"
    link.symlink_to(others)
    os.mkfifo(pipe)
    with living.open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        atomic_write(tmp_path / "note", "whole")
        assert sorted(tmp_path.iterdir()) == sorted([tmp_path / "note", living, others, link, pipe])
    clear_temporaries(tmp_path)
    assert sorted(tmp_path.iterdir()) == sorted([tmp_path / "note", link, pipe])
    assert (tmp_path / "note").read_text() == "whole"


def test_write_whose_temporary_is_taken_for_a_dead_one_is_done_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between its making and its lock another run may remove it."""
    taken: list[Path] = []
    real = Path.replace

    def replace(self: Path, target: Path) -> Path:
        if not taken:
            taken.append(self)
            self.unlink()
        return real(self, target)

    monkeypatch.setattr(Path, "replace", replace)
    atomic_write(tmp_path / "note", "whole")
    assert (len(taken), [path.name for path in tmp_path.iterdir()]) == (1, ["note"])
