"""Caches of other tools' modules, by a real Lmod: which it names, and what is wrong with them."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from envmgr.audit.checks import cache, get_check
from envmgr.modules.lmod import find_lmod
from envmgr.probe import shell as probe
from envmgr.probe.shell import read_lines
from envmgr.system.shelltext import assign, script_text
from tests.helpers.evidence import evidence, told


def test_cache_that_is_missing_or_old_is_told_and_one_that_is_well_is_not(tmp_path: Path) -> None:
    modules, folder, stamp = (tmp_path / name for name in ("modules", "cache", "stamp"))
    for path in (modules / "tool", folder):
        path.mkdir(parents=True)
    (modules / "tool/1.0.lua").write_text("")
    stamp.write_text("")
    rc = tmp_path / "rc.lua"
    rc.write_text(f'scDescriptT = {{ {{ ["dir"] = "{folder}", ["timestamp"] = "{stamp}" }} }}\n')
    given = assign(mark="", who="", room=str(tmp_path), prefix="/sw")
    text = f"{given}{script_text(probe.__file__ or '', 'library.sh')}{script_text(cache.__file__, 'login.sh')}"
    (tmp_path / "stage.sh").write_text(text)

    def found(**env: str) -> list[str]:
        environ = {
            "PATH": "/usr/bin:/bin",
            "LMOD_CMD": f"{find_lmod(None, {}).commands}/lmod",
            "LMOD_RC": str(rc),
            **env,
        }
        done = subprocess.run(
            ["/bin/sh", tmp_path / "stage.sh"],
            env={**environ, "MODULEPATH": str(modules)},
            capture_output=True,
            text=True,
            check=True,
        )
        lines = told(get_check("cache"), evidence({"c1": read_lines(done.stdout.splitlines())}))
        return [line.partition(" | ")[0] for line in lines]

    use = f"c1: {folder}: Lmod should use it, and"
    assert found() == [f"warning {use} there is no spiderT.lua that the user can read"]
    (folder / "spiderT.lua").write_text(f"-- {modules}")
    assert found() == []
    os.utime(modules / "tool", (2e9, 2e9))
    assert found() == [f"note {use} it is older than {modules}/tool: what is new there is not listed"]
    assert found(LMOD_CACHED_LOADS="yes")[0].startswith("warning ")
    os.utime(stamp, (2e9, 2e9))
    assert found() == [f"warning {use} it is older than its time stamp, so Lmod reads every modulefile"]
