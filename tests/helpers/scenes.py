"""What the tests of failures share: errors in a form that can be compared, and what must not be left behind."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import signal
import stat
import subprocess
from pathlib import Path
from typing import Any

from envmgr.store.manifest import read_manifest
from envmgr.store.verify import differences
from envmgr.system.files import sha256_file
from tests.helpers.done import Done
from tests.helpers.sandbox import Sandbox
from tests.helpers.waiting import DEADLINE, wait_for

STOPPED = "error[interrupted]: stopped by a signal"
INTERRUPTED = f"{STOPPED}; what is published is whole, and the next run cleans up"  # what changes the prefix


_LOCKS: dict[tuple[str, ...], dict[str, bytes]] = {}

HELLO = ["hello-prefix"]
RUNS = [{"name": "runs", "run": "hello-prefix"}]


def locked(box: Sandbox, entry: str, specs: list[str], **fields: Any) -> Path:
    """Like `box.recipe`, with its lock beside it. A lock does not name its entry: one of the same specs is used again."""
    folder = box.recipe(entry, specs, **fields)
    names = ("conda-lock.yml", "conda-lock.records.json")
    if tuple(specs) not in _LOCKS:
        box.ok("lock", entry)
        _LOCKS[tuple(specs)] = {name: (folder / name).read_bytes() for name in names}
    for name, data in _LOCKS[tuple(specs)].items():
        (folder / name).write_bytes(data)
    return folder


def complete(box: Sandbox, number: int | None) -> None:
    """`current` names this generation, and it and its installs are what their record and manifests say, to the byte."""
    assert box.current() == number
    if number is None:
        return
    folder = box.prefix / f"generations/{number:04d}"
    record = json.loads((folder / "generation.json").read_text())
    assert record["number"] == number
    present = {str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file()}
    assert present == {*record["files"], "generation.json"}
    for path, digest in record["files"].items():
        assert sha256_file(folder / path) == digest, path
    for entry in record["entries"].values():
        install = box.prefix / entry["path"]
        assert differences(install, read_manifest(install.with_name(f"{install.name}.manifest.json"))) == []


def error_of(done: Done, box: Sandbox) -> str:
    """The error on stderr, from `error[` to the end, with what differs from run to run replaced by words in capitals.

    A log that it names must exist and hold the same error.
    """
    assert done.stdout == "", done.stdout
    start = done.stderr.find("error[")
    assert start >= 0, done.stderr
    text = done.stderr[start:].rstrip("\n")
    if log := re.search(r"^  log: (.+)$", text, re.MULTILINE):
        told = (box.prefix / Path(log[1]).relative_to(box.root / "prefix")).read_text()
        assert text.splitlines()[0] in told
        text = text.replace(log[1], "LOG")
    return plain(text, box)


def plain(text: str, box: Sandbox) -> str:
    text = text.replace(str(box.root), "ROOT")
    text = re.sub(r"(?<=-)[0-9a-f]{8}(?![0-9a-f])", "DIGEST", text)
    text = re.sub(r"http://127\.0\.0\.1:\d+", "http://MIRROR", text)
    return re.sub(r"process \d+ on \S+ since [0-9TZ:-]+", "process N on HOST since TIME", text)


def processes(box: Sandbox) -> list[str]:
    """Command lines of living processes that name a path of the sandbox."""
    return [f"{pid}: {words}" for pid, words in box.processes().items()]


def no_processes(box: Sandbox) -> None:
    wait_for(lambda: not processes(box), what=f"the end of {processes(box)}")


def kill(process: subprocess.Popen[str]) -> None:
    """kill -9 to envmgr itself, not to its children: they must end by themselves."""
    process.send_signal(signal.SIGKILL)
    process.wait()
    for pipe in (process.stdout, process.stderr):
        assert pipe is not None
        pipe.close()


def finish(process: subprocess.Popen[str], timeout: float = DEADLINE) -> Done:
    stdout, stderr = process.communicate(timeout=timeout)
    assert "Traceback" not in stderr, stderr
    return Done(process.returncode, stdout, stderr)


def parts(box: Sandbox) -> list[str]:
    """Half a download: what a killed run may leave, and the next run with the same package must not."""
    return sorted(str(p.relative_to(box.prefix)) for p in box.prefix.glob("cache/**/*") if p.name.endswith(".part"))


def snapshot(*roots: Path) -> dict[str, tuple[object, ...]]:
    """Path -> mode, owner, time of change, and content, of everything below `roots`."""
    rows: dict[str, tuple[object, ...]] = {}
    for root in roots:
        for path in [root, *sorted(root.rglob("*"))]:
            if not path.exists() and not path.is_symlink():
                continue
            status = path.lstat()
            content = ""
            if path.is_symlink():
                content = str(path.readlink())
            elif stat.S_ISREG(status.st_mode):
                content = hashlib.sha256(path.read_bytes()).hexdigest()
            rows[str(path)] = (oct(status.st_mode), status.st_uid, status.st_mtime_ns, content)
    return rows


def wait_at(process: subprocess.Popen[str], lock: str) -> None:
    """Until the process has this lock file open, which another one holds, and sleeps between two tries."""

    def at_lock() -> bool:
        for link in Path(f"/proc/{process.pid}/fd").iterdir():
            try:
                if re.search(rf"/var/lock/{lock}", str(link.readlink())):
                    return True
            except FileNotFoundError:
                continue
        return False

    def sleeps() -> bool:
        threads = Path(f"/proc/{process.pid}/task").glob("*/stat")
        return all(path.read_text().rpartition(")")[2].split()[0] == "S" for path in threads)

    wait_for(lambda: at_lock() and sleeps(), what=f"the wait for {lock}")


def rerun(box: Sandbox, entry: str) -> int:
    """The same command again succeeds, and nothing of the run before is left. Returns the new generation."""
    done = box.ok("build", entry, "--format", "json").data
    number = box.current()
    assert number is not None
    assert done["generation"] == number
    complete(box, number)
    assert box.leftovers() == []
    assert parts(box) == []
    for folder in (box.prefix / "generations").iterdir():
        names = {p.name for p in folder.iterdir()}
        assert names == {"abandoned.json"} or "generation.json" in names, f"{folder.name}: {names}"
    assert not list(box.prefix.glob(".current.*"))
    no_processes(box)
    return number


def tamper(path: Path, text: str) -> None:
    path.chmod(0o755)
    path.write_text(text)
    path.chmod(0o555)


def data(box: Sandbox, *argv: str) -> dict[str, Any]:
    return box.ok(*argv, "--format", "json").data


def log_of(stdout: str) -> Path:
    found = re.search(r"^log: (.+)$", stdout, re.MULTILINE)
    assert found
    return Path(found[1])


def forget_manifests(box: Sandbox) -> None:
    """Nothing says any more what was published: records name no manifests, flips and the sums in the history are gone."""
    shutil.rmtree(box.prefix / "flips")
    for record in box.prefix.glob("generations/*/generation.json"):
        rows = json.loads(record.read_text())
        record.parent.chmod(0o755)
        record.chmod(0o644)
        record.write_text(json.dumps(rows | {"manifests": {}}))
        record.chmod(0o444)
        record.parent.chmod(0o555)
    history = box.prefix / "var/history.jsonl"
    lines = [json.loads(line) for line in history.read_text().splitlines()]
    history.write_text("".join(json.dumps({k: v for k, v in line.items() if k != "record"}) + "\n" for line in lines))


def times_tested(box: Sandbox) -> int:
    """How often the test of `tested` ran, which writes a line each time."""
    path = box.root / "tested"
    return len(path.read_text().split()) if path.exists() else 0
