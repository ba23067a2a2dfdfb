"""The inventory's shell texts, run for real on this machine."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from envmgr.audit.inventory.facts import NodeInventory
from envmgr.audit.inventory.texts import inventory_texts
from envmgr.audit.shell.shared_shell import of_login
from envmgr.probe import shell as probe
from envmgr.probe.model import ProbeStage
from envmgr.system.shelltext import assign, script_text
from tests.helpers.evidence import audit_plan, site


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder that every account may write in."""
    with tempfile.TemporaryDirectory(prefix="inventory-") as folder:
        Path(folder).chmod(0o777)
        yield Path(folder)


def run(stage: ProbeStage, folder: Path, *argv: str, before: str = "", seconds: int = 200) -> str:
    """What this machine answers to the text of a stage, by a command that takes its file; `before` is of start-up files."""
    texts = inventory_texts(replace(audit_plan(site()), user="root", salt="salt", seconds=seconds))
    return run_text(
        (of_login(0, seconds) if stage == "login" else "") + texts[stage], stage, folder, *argv, before=before
    )


def run_text(text: str, stage: ProbeStage, folder: Path, *argv: str, before: str = "") -> str:
    given = assign(mark="", user="root", build_user="", prefix="/sw", room=str(folder), who=f"{folder}/who", job="")
    parts = ("library.sh", "found.sh") if stage == "context" else ("library.sh",)
    library = "".join(script_text(probe.__file__, part) for part in parts)
    file = folder / f"{stage}.sh"
    file.write_text(f"{before}\n{given}host_name=$(uname -n)\n{library}{text}\nput inventory.looked.{stage} yes\n")
    (folder / "who").write_text(f"root:x:{os.geteuid()}:0::/root:/bin/bash\n")
    env = {"PATH": "/usr/bin:/bin", "HOME": str(folder)}
    done = subprocess.run([*argv, file], capture_output=True, text=True, check=True, cwd="/", env=env, input="")
    assert done.stderr == ""
    return done.stdout


def changes(before: NodeInventory, after: NodeInventory) -> dict[tuple[str, str], tuple[str | None, str | None]]:
    keys = sorted({*before.values, *after.values})
    return {k: (before.values.get(k), after.values.get(k)) for k in keys if before.values.get(k) != after.values.get(k)}
