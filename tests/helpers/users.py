"""What users do on a cluster while generations come and go: collections in every shell and set-up, open shells, jobs, a venv.

For the short form in tests/cluster and the campaign in tests/soak.
"""

from __future__ import annotations

import os
import select
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.helpers.audit_scene import Audited
from tests.helpers.cluster import Cluster
from tests.helpers.cluster.cluster import Share
from tests.helpers.cluster.site import settings
from tests.helpers.waiting import DEADLINE

LOGIN = {"bash": ["bash", "-lc"], "zsh": ["zsh", "-lc"], "csh": ["tcsh", "-c"]}
BARE = {"bash": ["bash", "--norc", "--noprofile"], "zsh": ["zsh", "-f"], "csh": ["tcsh", "-f"]}
STATUS = {"bash": "$?", "zsh": "$?", "csh": "$status"}
HOME = "/home/alice"
PYTHON = "hello/1.0"  # an entry with a Python


def make_scene(folder: Path, share: Share) -> Audited:
    """A cluster with node-setup, on which `app/1.0` depends on `lib/1.0`, and `publish` changes that. `gc` keeps few generations."""
    cluster = Cluster(folder, share=share)
    cluster.up()
    scene = Audited(cluster)
    policies = {"min_free": 0, "stall_timeout": 60.0, "download_retries": 1, "keep_generations": 3, "keep_days": 0}
    cluster.write_site(policies=policies, transport={**settings(cluster.compute)["transport"], "persist": 0})
    cluster.recipe(PYTHON, ["python"])
    for entry in ("lib/1.0", "lib/1.1"):
        cluster.recipe(entry, ["hello-prefix"])
    cluster.recipe("app/1.0", ["hello-activate"], depends=["lib/1.0"])
    entries = (PYTHON, "lib/1.0", "lib/1.1", "app/1.0")
    scene.envmgr("lock", *entries)
    scene.envmgr("build", *entries)
    scene.set_up("login,c[1-3]")
    scene.task_prolog()
    return scene


def publish(scene: Audited) -> None:
    """A new generation, in which the dependency of `app/1.0` is the other one."""
    now = (scene.cluster.host_prefix / "current/modules/app/1.0.lua").read_text()
    other = "lib/1.1" if "lib/1.0" in now else "lib/1.0"
    scene.cluster.recipe("app/1.0", ["hello-activate"], depends=[other], help=f"after generation {scene.generation}")
    before = scene.generation
    scene.envmgr("publish", "app/1.0")
    assert scene.generation > before


@dataclass
class Conversation:
    """A shell or job that is told a command at a time."""

    name: str
    shell: str
    process: Any
    pin: str = ""
    _text: bytes = b""

    def ask(self, command: str) -> tuple[str, str]:
        """The command's exit status and output; the status is `gone` where the shell is."""
        try:
            self.process.stdin.write(f"{command}; echo END {STATUS[self.shell]}\n")
            self.process.stdin.flush()
        except OSError:
            return "gone", ""
        end = time.monotonic() + DEADLINE
        while b"END " not in self._text or not self._text.endswith(b"\n"):
            ready, _, _ = select.select([self.process.stdout], [], [], max(0.0, end - time.monotonic()))
            part = os.read(self.process.stdout.fileno(), 65536) if ready else b""
            if not part:
                return "gone", self._text.decode(errors="replace")
            self._text += part
        text, _, status = self._text.decode(errors="replace").rpartition("END ")
        self._text = b""
        return status.strip(), text


@dataclass
class Users:
    """alice, with a home for each shell and set-up: in some, shell-init is her only start-up file."""

    scene: Audited
    talks: list[Conversation] = field(default_factory=list)

    @property
    def cluster(self) -> Cluster:
        return self.scene.cluster

    def begin(self) -> None:
        """Save the collections, open the shells, start the jobs, make the venv: all in the generation that is current."""
        for setup in ("node-setup", "shell-init"):
            for shell in LOGIN:
                self.cluster.exec("login", ["mkdir", "-p", f"{HOME}/{setup}/{shell}"], user="alice", check=True)
                lines = self.scene.envmgr("shell-init", shell).stdout
                self.cluster.write("login", f"{HOME}/init.{shell}", lines)
                script = f"module load app {PYTHON}; module save {shell}; module save"
                done = self._run("login", setup, shell, script)
                assert done.returncode == 0, (setup, shell, done.stdout, done.stderr)
        venv = f"module load {PYTHON} && python -m venv --system-site-packages {HOME}/venv"
        self.cluster.exec("login", ["bash", "-lc", venv], user="alice", check=True)
        self.start()

    def start(self) -> None:
        """Open shells on the login node, and jobs on two nodes."""
        for name, shell, argv in (
            ("open bash", "bash", "exec bash -l"),
            ("open zsh", "zsh", "exec zsh -l"),
            ("open csh", "csh", "exec tcsh"),
            ("job on c1", "bash", "exec bash -lc 'exec srun -Q -w c1 /bin/bash'"),
            ("job on c2", "csh", "exec bash -lc 'exec srun -Q -w c2 --export=HOME /bin/csh'"),
        ):
            self.talks.append(self._talk(name, shell, argv))

    def _talk(self, name: str, shell: str, argv: str) -> Conversation:
        """A machine that is very slow may have started the shell without modules, which is told: then another one is."""
        talk = Conversation(name, shell, self.cluster.start("login", ["sh", "-c", f"{argv} 2>&1"], user="alice"))
        if talk.ask("printenv ENVMGR_AWAY")[0] == "0":
            talk.process.stdin.close()
            talk.process.wait()
            return self._talk(name, shell, argv)
        talk.pin = talk.ask("echo $ENVMGR_PIN")[1].split()[-1]
        return talk

    def check(self, *, lacking: Sequence[str] = ()) -> list[str]:
        """What failed, a line each. A collection may lack only the entries `lacking`, which were removed."""
        pairs = [(setup, shell) for setup in ("node-setup", "shell-init") for shell in LOGIN]
        with ThreadPoolExecutor(2) as pool:
            failed = [line for lines in pool.map(lambda p: list(self._restored(*p, lacking)), pairs) for line in lines]
        for talk in self.talks:
            steps = [f"module load {PYTHON}", "python -c 'print(6 * 7)'", f"module unload {PYTHON}", "module load app"]
            between = "\n" if talk.shell == "csh" else " && "
            status, text = talk.ask(between.join([*steps, "module unload app"]))
            there = (self.cluster.host_prefix / "generations" / Path(talk.pin).name / "modules").is_dir()
            if there and (status, "42" in text) != ("0", True):
                failed.append(f"{talk.name}: {status} {text[-500:]}")
        venv = self.cluster.exec("c3", [f"{HOME}/venv/bin/python", "-c", "print(6 * 7)"], user="alice")
        if venv.stdout != "42\n":
            failed.append(f"venv: {venv.stderr[-500:]}")
        return failed

    def _restored(self, setup: str, shell: str, lacking: Sequence[str]) -> Iterator[str]:
        node = self.cluster.compute[sorted(LOGIN).index(shell) % len(self.cluster.compute)]
        lib = "lib/1.0" if "lib/1.0" in self._depends() else "lib/1.1"
        wanted = ({lib, "app/1.0", PYTHON} if "app/1.0" not in lacking else {PYTHON}) - set(lacking)
        for collection in (shell, ""):
            script = f'module restore {collection}; echo "{STATUS[shell]} $LOADEDMODULES"; echo "$ENVMGR_GENERATION $MODULEPATH"'
            done = self._run(node, setup, shell, script)
            lines = done.stdout.splitlines()[-2:]
            status, _, loaded = lines[0].partition(" ") if len(lines) == 2 else ("", "", "")
            number, _, path = lines[-1].partition(" ") if lines else ("", "", "")
            ours = [part for part in path.split(":") if "/generations/" in part]
            current = f"{self.cluster.prefix}/generations/{self.scene.generation:04d}/modules"
            found = (status, set(loaded.split(":")), number, ours)
            if found != ("1" if lacking else "0", wanted, str(self.scene.generation), [current]):
                yield f"{setup} {shell} {collection or 'default'} on {node}: {done.stdout[-300:]}{done.stderr[-500:]}"

    def _depends(self) -> str:
        """The module of app in the current generation."""
        module = self.cluster.host_prefix / "current/modules/app/1.0.lua"
        return module.read_text() if module.exists() else ""

    def _run(self, node: str, setup: str, shell: str, script: str) -> Any:
        done = self._run_once(node, setup, shell, f"printenv ENVMGR_AWAY; {script}")
        is_late = done.stdout.partition("\n")[0].endswith(" hung")  # the prefix did not answer within the shell's limit
        return self._run(node, setup, shell, script) if is_late else done

    def _run_once(self, node: str, setup: str, shell: str, script: str) -> Any:
        home = {"HOME": f"{HOME}/{setup}/{shell}", "LMOD_TERM_WIDTH": "400"}
        if setup == "node-setup":
            return self.cluster.exec(node, [*LOGIN[shell], script], user="alice", env=home)
        argv = ["env", "-i", *(f"{k}={v}" for k, v in home.items()), "PATH=/usr/bin:/bin", *BARE[shell]]
        text = (
            f"source {HOME}/init.{shell}\n" + script.replace("; ", "\n") + "\n"
        )  # csh knows an alias from the next line on
        return self.cluster.exec(node, argv, user="alice", stdin=text)


__all__ = ["Users", "make_scene", "publish"]
