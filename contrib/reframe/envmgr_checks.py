"""A check for ReFrame 4: every published entry loads on every partition, and its own tests pass there, in a job of the user.

    envmgr export --to reframe --output /etc/envmgr/reframe.yaml
    reframe -C /etc/envmgr/reframe.yaml -c envmgr_checks.py -r

It needs only what the export writes: an environment's `extras` have the entry's tests.
"""

from __future__ import annotations

import shlex
from pathlib import Path

import reframe as rfm
import reframe.utility.sanity as sn
from reframe.core.backends import getlauncher

SCRIPT = "envmgr_entry.sh"
LOADED, PASSED, FAILED = "envmgr: loaded", "envmgr: passed", "envmgr: failed"


@rfm.simple_test
class EnvmgrEntry(rfm.RunOnlyRegressionTest):
    """The entry's module is loaded, its install is there, and its tests exit with 0, each within its time."""

    descr = "an entry loads, and its tests pass"
    valid_systems = ["*"]
    valid_prog_environs = ["+envmgr"]
    executable = "bash"
    executable_opts = [SCRIPT]
    maintainers = ["envmgr"]

    @run_after("setup")
    def write_script(self) -> None:
        """A test may start jobs or mpirun itself: it runs in the job's own shell, under no launcher."""
        self.job.launcher = getlauncher("local")()
        Path(self.stagedir, SCRIPT).write_text(self.script(), encoding="utf-8")

    def script(self) -> str:
        extras = self.current_environ.extras
        entry, root = shlex.quote(extras["entry"]), shlex.quote(extras["root"])
        lines = [
            'echo "envmgr: $(uname -n)"',
            f'case ":$LOADEDMODULES:" in *:{entry}:*) ;; *) echo "{FAILED} the module is not loaded"; exit 1 ;; esac',
            f"[ -n \"$(ls -A {root})\" ] || {{ echo '{FAILED} the install is not there'; exit 1; }}",
            f"echo '{LOADED}'",
        ]
        for number, test in enumerate(self.tests()):
            command = f"timeout {test['timeout']} bash -c {shlex.quote(test['run'])} </dev/null"
            name = shlex.quote(f"{number} {test['name']}")
            lines.append(f"if {command}; then echo '{PASSED}' {name}; else echo '{FAILED}' {name}: exit $?; fi")
        return "\n".join(lines) + "\n"

    def tests(self) -> list[dict]:
        """Those that can run here: as `envmgr test`, none for a GPU where there is none, none with jobs outside of Slurm.

        Those of several nodes are left out: the job has one.
        """
        has = {"mpi"}
        if "gpu" in self.current_partition.features:
            has.add("gpu")
        if self.current_partition.scheduler.registered_name in {"slurm", "squeue"}:
            has.add("slurm")
        tests = self.current_environ.extras["tests"]
        tests = [test for test in tests if test.get("nodes", 1) == 1]  # a file of an earlier export has no word of them
        return [test for test in tests if has.issuperset(test["needs"])]

    @sanity_function
    def all_passed(self) -> object:
        return sn.all(
            [
                sn.assert_found(f"^{LOADED}$", self.stdout, "its module was not loaded, or its install is not there"),
                sn.assert_not_found(f"^{FAILED}", self.stdout, "a test failed"),
                sn.assert_eq(
                    sn.count(sn.findall(f"^{PASSED} ", self.stdout)), len(self.tests()), "{0} of {1} tests passed"
                ),
            ]
        )
