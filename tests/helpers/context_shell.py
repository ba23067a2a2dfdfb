"""What a check's text tells in a shell of this machine, behind start-up text of a test's own: as a context of a probe."""

from __future__ import annotations

import subprocess

from envmgr.audit.model import Check
from envmgr.audit.plan import AuditPlan
from envmgr.probe import shell as probe
from envmgr.probe.model import Facts
from envmgr.probe.shell import read_lines
from envmgr.system.shelltext import script_text
from tests.helpers.evidence import as_check, audit_plan, site


def context_facts(
    check: Check, shell: str, before: str = "", *, plan: AuditPlan | None = None, job: str = "", **env: str
) -> Facts:
    """`before` is what start-up files do; with `job`, it is that job's shell. The shell's own words on stderr go nowhere."""
    text = as_check(check).probe(plan or audit_plan(site()))["context"]
    library, found = (script_text(probe.__file__ or "", part) for part in ("library.sh", "found.sh"))
    script = f"{before}\nmark=\nwho=/dev/null\nroom=/tmp\njob={job}\nuser=alice\nhost_name=c1\n{library}{found}whole_path path_brought\n{text}\n"
    given = {"PATH": "/usr/bin:/bin", "HOME": "/", **env}
    done = subprocess.run([shell, "-c", script], capture_output=True, text=True, check=False, env=given, cwd="/")
    assert done.returncode == 0, done.stderr
    return read_lines(line for line in done.stdout.splitlines() if not line.startswith("@~"))  # a node's own: times
