"""How a node has the prefix, by mountinfo: the mount that is seen, and what the check makes of it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from envmgr.audit.checks import mount
from envmgr.probe import prefix, shell
from envmgr.probe.model import Facts
from envmgr.probe.shell import read_lines
from envmgr.system.shelltext import script_text
from tests.helpers.evidence import evidence, told

ROOT = "21 1 0:20 / / rw - ext4 /dev/vda rw"
NFS = "30 21 0:30 / /apps/sw rw,relatime - nfs4 fs1:/export/sw rw,addr=1"
SEEN = "mount.point", "mount.type", "mount.source"


def facts(folder: Path, *lines: str) -> Facts:
    (folder / "mountinfo").write_text("".join(f"{line}\n" for line in lines))
    text = script_text(prefix.__file__, "node.sh")
    text = text.replace("/proc/self/mountinfo", str(folder / "mountinfo"))
    script = f"mark= prefix=/apps/sw\n{script_text(shell.__file__ or '', 'library.sh')}{text}"
    (folder / "text").write_text(script)
    done = subprocess.run(["/bin/sh", str(folder / "text")], capture_output=True, text=True, check=True)
    assert done.stderr == ""
    return read_lines(done.stdout.splitlines())


@pytest.mark.parametrize(
    ("lines", "seen"),
    [
        ([ROOT], "/ ext4 /dev/vda"),
        ([ROOT, NFS], "/apps/sw nfs4 fs1:/export/sw"),
        ([ROOT, NFS, "31 30 0:20 /old /apps/sw rw - ext4 /dev/vda rw"], "/apps/sw ext4 /dev/vda"),
        ([ROOT, NFS, "31 21 0:31 / /apps rw - tmpfs t rw"], "/apps tmpfs t"),
        (
            ["22 21 0:22 / /apps rw - xfs /dev/vdb rw", ROOT, NFS.replace("30 21", "30 22")],
            "/apps/sw nfs4 fs1:/export/sw",
        ),
        ([ROOT, "40 21 0:40 / / rw - overlay o rw", NFS.replace("30 21", "30 40")], "/apps/sw nfs4 fs1:/export/sw"),
    ],
)
def test_mount_that_is_seen_is_told(tmp_path: Path, lines: list[str], seen: str) -> None:
    found = facts(tmp_path, *lines)
    assert " ".join(found[key] for key in SEEN) == seen


# -- What is told of them ------------------------------------------------------------------------------------------------


def fact(point: str, kind: str, source: str, root: str = "/") -> dict[str, str]:
    return dict(zip((*SEEN, "mount.root"), (point, kind, source, root), strict=True))


RIGHT = fact("/sw", "nfs4", "fs1:/export/sw")
TOLD = "error c2: /sw: "


def lines(sick: dict[str, str], well: dict[str, str] = RIGHT, **settings: object) -> list[str]:
    return told(mount, evidence({"c1": well, "c2": sick, "c3": well}, settings=settings))


def test_prefix_that_is_not_what_the_site_says_or_cannot_be_used() -> None:
    def hint(sick: dict[str, str], **settings: object) -> str:
        (line,) = lines(sick, **settings)
        return line.removeprefix(TOLD)

    assert lines(fact("/sw", "nfs4", "old:/export/sw")) == []  # the inventory compares mounts
    said = hint(fact("/", "ext4", "/dev/vda"), mount={"source": "fs1:/export/sw"})
    assert said.startswith("mounted from /dev/vda | fs1:/export/sw, by mount.source in site.yaml | which is right")
    assert hint(RIGHT | {"gate": "hung"}) == (
        "does not answer (nfs4 fs1:/export/sw) | an answer in 5 s | "
        "is the server up? if so, on the node: `umount -l /sw && mount /sw`"
    )
    assert hint(RIGHT | {"gate": "Stale file handle"}).startswith("cannot be used: Stale file handle | ")
    assert "`mount -o remount,bind,exec,rw /sw`" in hint(RIGHT | {"mount.options": "noexec,rw"})
    it = evidence({"fs1": fact("/", "ext4", "/dev/vda"), "c1": RIGHT}, settings={"mount": {"source": "fs1:/export/sw"}})
    assert told(mount, it) == []  # the server has it on its own disk


def test_folder_on_the_way_is_opened_by_what_closes_it() -> None:
    (line,) = lines(RIGHT | {"mount.user_stopped": "700 rsw:rsw /sw"})
    assert line.startswith(f"{TOLD}alice cannot enter /sw (mode 700, rsw:rsw) | ")
    assert line.endswith("| `chmod a+rX /sw`")
    (line,) = lines(RIGHT | {"mount.user_stopped": "755 rsw:rsw /sw"})
    assert line.startswith(f"{TOLD}alice cannot enter /sw (mode 755, rsw:rsw) | ")
    assert line.endswith("| `getfacl /sw`: an ACL, or another rule of its server?")
