"""Invariant 4: user, host, place and shell of a build are in no file of its install. EasyBuild's are in tests/easybuild/test_same_tree."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from envmgr.system.files import remove_tree
from tests.helpers.builders import builders, compiled
from tests.helpers.sandbox import PYTHON, Sandbox
from tests.helpers.second_build import AM_ROOT, build_here_and_elsewhere
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


def test_two_users_build_one_tree(box: Sandbox) -> None:
    """Of an sdist and a wheel."""
    scene = make_wheel_box(box, *builders())
    scene.house.sdist("here", "1.0", compiled("here", before=TELLS, extension=EXTENSION))
    scene.house.wheel("beside", scripts={"beside": "beside:main"})
    scene.entry(ENTRY, "here", "beside", build=["here"])
    scene.lock(ENTRY)
    first, second = build_here_and_elsewhere(box, ENTRY)
    assert [made["path"] for made in (*first["made"], *second["made"])] == ["/var/tmp", "/var/tmp"]
    assert (second["user"], second["host"]) == ("nobody" if AM_ROOT else first["user"], "elsewhere")
    told = next(box.prefix.glob("store/some/*/lib/python3*/site-packages/here/told.py")).read_text()
    assert "'/var/tmp/source/here-1.0', 'envmgr', 'envmgr', '/var/tmp/tmp', '/var/tmp/home'" in told


def test_two_users_build_one_tree_of_conda_packages(box: Sandbox) -> None:
    """With activation scripts, which run, and bytecode, which is compiled."""
    box.recipe("py/1.0", ["python", "numpy", "hello-activate"])
    box.ok("lock", "py/1.0")
    build_here_and_elsewhere(box, "py/1.0")
    assert next(box.prefix.glob(f"store/py/*/lib/**/os.cpython-{PYTHON.replace('.', '')}.pyc"))
