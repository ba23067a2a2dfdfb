"""Invariant 4 of what is built from source: user, host, place and shell of a build are in no file of its install."""

from __future__ import annotations

import json
import os
import pwd
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from envmgr.system.files import remove_tree
from tests.helpers.builders import builders, compiled
from tests.helpers.open_folders import for_everybody
from tests.helpers.sandbox import Sandbox
from tests.helpers.standin.channel import Channel
from tests.helpers.wheel_scene import make_wheel_box

ENTRY = "some/1.0"
# What a build could write of where, as whom and with what it runs.
TELLS = """\
import getpass, locale, os, platform, sys, tempfile, time

told = [os.getcwd(), getpass.getuser(), platform.node(), tempfile.gettempdir(), os.path.expanduser("~"), time.tzname, str(hash("x"))]
told += [locale.setlocale(locale.LC_ALL, ""), sys.prefix, os.environ["PATH"], [*os.environ.keys() - {"MAX_JOBS"}].sort()]
mask = os.umask(0)
os.umask(mask)
open("here/told.py", "w").write(f"TOLD = {[*told, mask]!r}\\n")
"""
EXTENSION = (
    'const char *place = __FILE__;\nconst char *compiled = __DATE__ " " __TIME__;\nint answer(void) { return 42; }\n'
)


@pytest.fixture
def box(channel: Channel) -> Iterator[Sandbox]:
    """In a folder that other users can enter: pytest closes its own whenever another run of it starts."""
    root = Path(tempfile.mkdtemp(prefix="envmgr-open-"))
    root.chmod(0o755)
    made = Sandbox(root, str(channel.folder))
    made.write_site()
    yield made
    made.clear()
    remove_tree(root)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be two users")
def test_two_users_build_one_tree(box: Sandbox) -> None:
    """With another host name, TMPDIR, HOME, umask, locale, time zone, hash seed and number of processors; with an sdist and a wheel."""
    scene = make_wheel_box(box)
    scene.house.add(*builders())
    scene.house.sdist("here", "1.0", compiled("here", before=TELLS, extension=EXTENSION))
    scene.house.wheel("beside", scripts={"beside": "beside:main"})
    scene.entry(ENTRY, "here", "beside", build=["here"])
    scene.lock(ENTRY)
    box.ok("build", "--no-publish", "-j", "2", ENTRY)
    first = manifest(box)
    assert [made["path"] for made in first["provenance"]["made"]] == ["/var/tmp"]
    remove_tree(box.prefix)
    account = pwd.getpwnam("nobody")
    (other := box.root / "other").mkdir()
    for folder in (other, box.prefix):
        folder.mkdir(exist_ok=True)
        os.chown(folder, account.pw_uid, account.pw_gid)
    become = f"setpriv --reuid={account.pw_uid} --regid={account.pw_gid} --clear-groups"
    script = f'hostname elsewhere && umask 077 && cd / && exec taskset --cpu-list 0 {become} "$@"'
    subprocess.run(
        [*for_everybody(box.root), "unshare", "--uts", "sh", "-c", script, "sh", *box.command("build", "--no-publish", "-j", "1", ENTRY)],
        env=box.environ(TMPDIR=str(other), HOME=str(other), LANG="C", LC_ALL="C", TZ="Asia/Tokyo", PYTHONHASHSEED="7", USER="nobody"),
        stdout=subprocess.DEVNULL, check=True,
    )  # fmt: skip
    second = manifest(box)
    assert second["provenance"]["user"] == "nobody"
    assert (second["paths"], second["tree"]) == (first["paths"], first["tree"])
    told = next(box.prefix.glob("store/some/*/lib/python3*/site-packages/here/told.py")).read_text()
    assert "'/var/tmp/source/here-1.0', 'envmgr', 'envmgr', '/var/tmp/tmp', '/var/tmp/home'" in told


def manifest(box: Sandbox) -> dict[str, object]:
    found: dict[str, object] = json.loads(next(Path(box.prefix).glob("store/some/*.manifest.json")).read_text())
    return found
