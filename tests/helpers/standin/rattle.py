"""Solve and install with rattler in a process of its own: an install that no entry has.

rattler can crash while the interpreter ends, after it succeeded: the process ends with `os._exit`, after its answer.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

DECLARED = {"__glibc": "2.28", "__linux": "5.0"}


def rattle(channel: str, specs: list[str], cache: Path, *, stage: Path, final: Path) -> dict[str, Any]:
    """Solve `specs`, and install them into `stage` for the prefix `final`.

    Returns `{"packages": ["name-version-build", ...]}`, sorted, or `{"error": "Type: text"}`.
    """
    job = {"channel": channel, "specs": specs, "cache": str(cache), "stage": str(stage), "final": str(final)}
    done = subprocess.run(
        [sys.executable, __file__],
        input=json.dumps(job),
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
        env=os.environ | {"RATTLER_CACHE_DIR": str(cache)},
    )
    assert done.stdout, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


async def _work(job: dict[str, Any]) -> list[str]:
    import rattler
    from rattler.repo_data import SourceConfig

    cache = Path(job["cache"])
    records = await rattler.solve(
        [rattler.Channel(job["channel"])],
        job["specs"],
        gateway=rattler.Gateway(cache_dir=cache / "repodata", default_config=SourceConfig(sharded_enabled=False)),
        platforms=["linux-64", "noarch"],
        virtual_packages=[
            rattler.GenericVirtualPackage(rattler.PackageName(name), rattler.Version(version), rattler.BuildString("0"))
            for name, version in DECLARED.items()
        ],
    )
    await rattler.install(
        records, job["stage"], cache_dir=cache / "pkgs", alternative_target_prefix=job["final"], show_progress=False
    )
    return sorted(f"{record.name.normalized}-{record.version}-{record.build}" for record in records)


def _main() -> None:
    try:
        answer: dict[str, Any] = {"packages": asyncio.run(_work(json.load(sys.stdin)))}
    except Exception as error:  # noqa: BLE001  # whatever it is, the asking test shows it
        answer = {"error": f"{type(error).__name__}: {error}"}
    sys.stdout.write(json.dumps(answer))
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    _main()
