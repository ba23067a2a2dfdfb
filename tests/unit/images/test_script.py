"""What a node does with an image that whoever builds can replace, by the script itself, here: what is copied is no root's program."""

from __future__ import annotations

import os
import stat
import subprocess
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import pytest

from envmgr.images.node import Act, NodeImage, WantedImage, node_script, read_answer
from tests.helpers.waiting import DEADLINE, HANGS

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root stages images")

BYTES = b"an image" * 100


@pytest.fixture
def install(tmp_path: Path) -> Path:
    made = tmp_path.resolve() / "store/tool/1.0-00000000"
    made.mkdir(parents=True)
    return made


def staged(install: Path, act: Act, image: Path, before: str = "") -> NodeImage:
    """What a node says, which has only the processes that `before` starts."""
    wanted = WantedImage(str(install), str(image), sha256(BYTES).hexdigest(), len(BYTES))
    script = node_script(act, [wanted], folder=str(install.parents[2] / "local"), quota=1 << 30, seconds=60)
    argv = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c", before + script]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=DEADLINE)
    answer = read_answer("here", done.stdout, [wanted])
    assert answer.fault == "", done
    return answer.images[0]


@pytest.mark.parametrize("mode", [0o4755, 0o2555, 0o600])
def test_copy_that_users_read_has_no_mode_of_the_builders(install: Path, mode: int) -> None:
    image = install / "image.sqfs"
    image.write_bytes(BYTES)
    image.chmod(mode)
    assert staged(install, "mount", image).why == ""
    found = staged(install, "copy", image)
    assert (found.mounted, found.why) == ("local", "")
    status = Path(found.source).stat()
    assert (stat.S_IMODE(status.st_mode), status.st_uid) == (0o444, 0)


def linked(path: Path) -> None:
    path.with_name("elsewhere").write_bytes(BYTES)
    path.symlink_to("elsewhere")


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir, linked])
@pytest.mark.parametrize("act", ["mount", "copy"])
@pytest.mark.parametrize("own", [True, False], ids=["an install that is an image", "an image of an install"])
def test_what_is_no_regular_file_is_not_waited_for(
    install: Path, make: Callable[[Path], None], act: Act, own: bool
) -> None:
    image = install / "image.sqfs" if own else install.parents[2] / "images/tool/1.0-00000000.sqfs"
    image.parent.mkdir(parents=True, exist_ok=True)
    make(image)
    assert staged(install, act, image).why == f"{image} is not there, or a link, or no regular file"


def test_pipe_is_not_copied_either_while_the_mount_waits_for_a_process(install: Path) -> None:
    image = install.parents[2] / "images/tool/1.0-00000000.sqfs"
    image.parent.mkdir(parents=True)
    os.mkfifo(image)
    process = f"(cd {install} && exec sleep {HANGS}) >/dev/null 2>&1 &\nuntil find /proc/[0-9]*/cwd -lname {install} | grep -q .; do :; done\n"
    assert staged(install, "copy", image, process).why == f"{image} is not there, or a link, or no regular file"
