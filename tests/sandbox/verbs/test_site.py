"""`check` of a build user: what a build would end in."""

from __future__ import annotations

import json
import os
import pwd
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from envmgr.system.files import remove_tree
from tests.helpers.places import ROOT
from tests.helpers.sandbox import Sandbox

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="what root sees of another user")

NOBODY = pwd.getpwnam("nobody")
# In the place of this Python and this package, which the build user may not reach, are others.
CHECK = """
import sys; from pathlib import Path; from envmgr.system import users
sys.executable = sys.argv[2]; users._PACKAGE = Path("/usr")
from envmgr.cli.run import open_site; from envmgr.verbs.check import site_facts
from envmgr.cli.render import to_data; import json
ctx = open_site(Path(sys.argv[1]), "mount", "json")
print(json.dumps(to_data(site_facts(ctx))))
"""


@pytest.fixture
def folder() -> Iterator[Path]:
    """All users reach it."""
    made = Path(tempfile.mkdtemp(prefix="envmgr-site-", dir="/tmp"))
    made.chmod(0o755)
    (made / "recipes/toy/1.0").mkdir(parents=True)
    (made / "recipes/toy/1.0/recipe.yaml").write_text("schema: 1\n")
    yield made
    remove_tree(made)


def facts(folder: Path, executable: str = "/bin/sh", **settings: object) -> dict[str, tuple[str, str, str]]:
    """The facts on the build user and the prefix: field -> status, text, hint; the prefix's folder as FOLDER."""
    site = {"schema": 1, "prefix": str(folder / "sw"), "catalogs": ["recipes"], "build_user": "nobody", **settings}
    (folder / "site.yaml").write_text(json.dumps(site))
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT)}
    argv = [sys.executable, "-c", CHECK, str(folder / "site.yaml"), executable]
    done = subprocess.run(argv, env=env, capture_output=True, text=True, check=False, cwd="/")
    assert done.returncode == 0, done.stderr
    found = [f for f in json.loads(done.stdout) if f["field"] == "build_user" or f["status"] == "error"]
    return {
        f["field"]: (f["status"], f["text"].replace(str(folder), "FOLDER"), f["hint"].replace(str(folder), "FOLDER"))
        for f in found
    }


KNOWN = ("ok", f"nobody (uid {NOBODY.pw_uid}): it can run envmgr, read the site and write the prefix", "")


def test_build_user_that_can_do_all_is_well(folder: Path) -> None:
    assert facts(folder) == {"build_user": KNOWN}
    (folder / "sw/store").mkdir(parents=True)
    for path in (folder / "sw", folder / "sw/store"):
        shutil.chown(path, "nobody")
    assert facts(folder) == {"build_user": KNOWN}
    assert os.geteuid() == 0


def test_build_user_that_cannot_run_envmgr_is_an_error(folder: Path) -> None:
    tool = folder / "python"
    tool.write_text("#!/bin/sh\n")
    tool.chmod(0o700)
    assert facts(folder, str(tool)) == {
        "build_user": (
            "error",
            "user-cannot-run: nobody cannot run FOLDER/python",
            "install envmgr where that user can read it, for example under /opt",
        )
    }


@pytest.mark.parametrize("closed", ["recipes", "recipes/toy", "recipes/toy/1.0/recipe.yaml"])
def test_build_user_that_cannot_read_the_catalog_is_an_error(folder: Path, closed: str) -> None:
    (folder / closed).chmod(0o600)
    assert facts(folder) == {
        "build_user": (
            "error",
            f"user-cannot-read: nobody cannot read FOLDER/{closed}",
            "keep the site and its catalogs where that user can read them, for example under /etc/envmgr",
        )
    }


def test_build_user_that_cannot_write_the_prefix_is_an_error(folder: Path) -> None:
    (folder / "sw").mkdir()
    shutil.chown(folder / "sw", "nobody")
    (folder / "sw/store").mkdir()  # as root made it, before the site named its build user
    assert facts(folder)["build_user"][:2] == ("error", "not-writable: cannot write FOLDER/sw/store")
    shutil.chown(folder / "sw/store", "nobody")
    (folder / "sw/cache/sources").mkdir(parents=True)
    (folder / "sw/cache").chmod(0o700)
    status, text, _ = facts(folder)["build_user"]
    assert (status, text.startswith("not-writable: cannot write FOLDER/sw/cache/")) == ("error", True), text
    closed = folder / "closed"
    closed.mkdir(mode=0o700)
    assert facts(folder, prefix=str(closed / "sw")) == {
        "build_user": (
            "error",
            "not-writable: nobody cannot reach FOLDER/closed/sw: FOLDER/closed is closed to it",
            "`ls -ld FOLDER/closed`: who closed it, and is that meant? whether nobody may enter it is for the owner to say",
        )
    }


def test_build_user_that_is_no_member_of_the_group_is_an_error(folder: Path) -> None:
    assert facts(folder, policies={"group": "daemon"}) == {
        "build_user": (
            "error",
            "group-not-yours: nobody cannot give FOLDER/sw to the group daemon",
            "make the build user a member: usermod -aG daemon nobody",
        )
    }


def test_build_dir_that_the_build_user_cannot_write_is_an_error(folder: Path) -> None:
    (folder / "tmp").mkdir()
    assert facts(folder, build_dir="tmp") == {
        "build_user": KNOWN,
        "build_dir": ("error", "nobody cannot write FOLDER/tmp", "chown -h nobody FOLDER/tmp"),
    }


def test_catalog_below_a_closed_folder_is_no_bug(folder: Path) -> None:
    """As its own user runs envmgr: root without the right to pass by modes. Nothing is made."""
    (folder / "closed/more").mkdir(parents=True)
    (folder / "closed").chmod(0o700)
    os.chown(folder / "closed", NOBODY.pw_uid, NOBODY.pw_gid)
    site = {"schema": 1, "prefix": str(folder / "sw"), "catalogs": ["recipes", "closed/more"]}
    (folder / "site.yaml").write_text(json.dumps(site))
    before = sorted(folder.iterdir())
    rights = "-dac_override,-dac_read_search"
    ordinary = ["setpriv", "--bounding-set", rights, "--inh-caps", rights, sys.executable, "-m", "envmgr"]
    for verb, code in (["list"], 3), (["build", "toy/1.0", "--dry-run"], 3), (["check"], 1):
        done = subprocess.run(
            [*ordinary, *verb, "--site", folder / "site.yaml"],
            capture_output=True,
            text=True,
            check=False,
            cwd=ROOT,
            env={"PATH": os.environ["PATH"]},
        )
        said = done.stdout + done.stderr
        assert f"the catalog {folder}/closed/more is closed to you" in said, said
        assert (done.returncode, "error[bug]" in said) == (code, False), said
    assert sorted(folder.iterdir()) == before


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("prefix: [", 2),
        ("prefix: relative", 2),
        ("prefix: /x\nnosuch: 1", 2),
        ("prefix: /x\ngroups: {g: {nodes: 'c[1'}}", 1),
        ("prefix: /x\nbuild_user: nosuch", 1),
        ("prefix: /x\npolicies: {group: nosuch}", 1),
    ],
)
def test_site_check_tells_a_site_that_cannot_be_read_from_one_with_faults(
    sandbox: Sandbox, text: str, code: int
) -> None:
    file = sandbox.root / "other.yaml"
    file.write_text(f"{text}\n")
    assert sandbox.run("check", "--site", str(file)).code == code
