"""What a probe waits for, and leaves behind: commands in a stage, and its jobs."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from envmgr.probe import shell as probe
from envmgr.system.shelltext import script_text

WAITING = """
trap '' TERM; mark= user=nobody limit=1 host_name=c1
with_limit 60 "$tmp/well" sh -c 'echo said; exit 3'; echo "$? $(cat "$tmp/well")"
with_limit 1 "$tmp/hangs" sleep 300; echo $?
start well true; start hangs sleep 300
join 60 well; join 1 well hangs; join 60 well
tell a. well; tell b. hangs
"""


@pytest.mark.parametrize("shell", ["dash", "bash", "bash -l", "zsh"])
def test_what_hangs_is_left_behind_also_where_term_is_ignored(shell: str, tmp_path: Path) -> None:
    texts = [script_text(probe.__file__ or "", part) for part in ("library.sh", "jobs.sh")]
    begin = f"emulate sh 2>/dev/null; mkfifo {tmp_path}/ended; exec 3<>{tmp_path}/ended\n"
    script = begin + "mark= user=nobody limit=1\n" + "".join(texts) + f"tmp={tmp_path}" + WAITING
    argv = ["unshare", "--pid", "--fork", "--kill-child", *shell.split(), "-c", script]
    done = subprocess.run(argv, capture_output=True, text=True, check=True)
    ended = "the shell ended before the probe in it: `exit` or `exec` in a start-up file?"
    assert done.stdout.splitlines() == ["3 said", "124", f"@a.end={ended}", "@b.end=no end in 1 s"]
