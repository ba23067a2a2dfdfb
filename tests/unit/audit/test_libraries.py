"""What the loader gives to entries from outside of the store: what a node says of it, and what is told."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from envmgr.audit.checks import libraries
from envmgr.audit.fit.install_facts import outside_libraries
from envmgr.probe.shell import read_lines
from envmgr.system.shelltext import script_text
from tests.helpers.evidence import evidence, told

LOOK = script_text(libraries.__file__, "look.sh")
LIBC = "libc.so.6 /lib/x/libc.so.6 /usr/lib/x/libc.so.6 GLIBC_2.36"
STD = "libstdc++.so.6 /lib/x/libstdc++.so.6 /usr/lib/x/libstdc++.so.6.0.30 GLIBCXX_3.4.30"


def node(*lines: str, system: str = "debian 12") -> dict[str, str]:
    return {"libraries.looked.t/1": "yes", "libraries.from.t/1": "\n".join(lines), "fitness.os": system}


def findings(*answers: dict[str, str]) -> list[str]:
    given = evidence({f"c{n}": facts for n, facts in enumerate(answers, 1)}, samples=("t/1",))
    return told(libraries, given)


def test_a_program_is_asked_with_its_version_and_its_own_library_is_not(tmp_path: Path) -> None:
    root = tmp_path / "store/t/1"
    (root / "bin").mkdir(parents=True)
    (root / "bin/run").write_bytes(Path("/bin/bash").read_bytes())
    (root / "bin/run").chmod(0o755)
    argv = ["/bin/sh", "-c", LOOK, "sh", "sample", "60", "9", "t/1", str(root)]
    done = subprocess.run(argv, capture_output=True, text=True, check=True)
    found = outside_libraries("t/1", read_lines(done.stdout.splitlines()))
    path, version, digest = found["libc.so.6"]
    assert os.path.realpath(path) in version
    assert "(GLIBC_2." in version
    assert len(digest) == 12
    (root / "lib").mkdir()
    (root / "lib/libc.so.6").touch()
    done = subprocess.run(argv, capture_output=True, text=True, check=True)
    assert "libc.so.6" not in outside_libraries("t/1", read_lines(done.stdout.splitlines()))


def test_same_libraries_are_fine_and_those_of_another_system_are_told_elsewhere() -> None:
    well = node(f"{LIBC} abc", f"{STD} def")
    assert findings(well, well, well) == []
    assert findings(well, well, node(f"{LIBC.replace('2.36', '2.41')} xyz", system="debian 13")) == []
    assert (
        findings(well, well, node("libstdc++.so.6 /opt/lib/libstdc++.so.6 /opt/lib/libstdc++.so.6 - x", f"{LIBC} abc"))
        == []
    )
    assert findings(well, well, {}) == []


def test_other_versions_are_one_error_and_other_builds_one_note() -> None:
    well = node(f"{LIBC} abc", f"{STD} def")
    odd = node(f"{LIBC.replace('2.36', '2.35')} xyz", f"{STD.replace('30', '29')} uvw")
    assert findings(well, well, odd) == [
        (
            "error c3: t/1: the loader gives it /usr/lib/x/libc.so.6 (GLIBC_2.35) for libc.so.6; also another libstdc++.so.6 | "
            "/usr/lib/x/libc.so.6 (GLIBC_2.36), as on c[1-2] | the same versions of the system's packages as on the other nodes: "
            "`dpkg -S libc.so.6` or `rpm -qf /lib/x/libc.so.6` names the package"
        )
    ]
    assert [line.partition(" | ")[0] for line in findings(well, well, node(f"{LIBC} xyz", f"{STD} def"))] == [
        "note c3: t/1: the loader gives it another build of /usr/lib/x/libc.so.6 (GLIBC_2.36) for libc.so.6"
    ]
