"""A stand-in for conda that solves with rattler: as much of its command line as conda-lock uses, and no more.

`install_shim(folder)` makes the program. It answers `create --dry-run --json --override-channels --channel URL… SPEC…` with
what conda would fetch and link, and `--version`. As conda does, it takes virtual packages (`__glibc`) for facts of the
machine: here from the channel of made-up records that conda-lock puts beside the real ones.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit


def install_shim(folder: Path) -> Path:
    """Write an executable `conda` into `folder` that runs this file with the running interpreter."""
    program = folder / "conda"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{Path(__file__).resolve()}" "$@"\n')
    program.chmod(0o755)
    return program


def _parse(arguments: list[str]) -> tuple[list[str], list[str]]:
    """The channels and the specs of a `create` command line; SystemExit for what a dry run does not have."""
    channels: list[str] = []
    specs: list[str] = []
    rest = iter(arguments)
    for argument in rest:
        if argument == "--channel":
            channels.append(next(rest))
        elif argument == "--prefix":
            next(rest)
        elif not argument.startswith("--"):
            specs.append(argument)
    if missing := {"--dry-run", "--json", "--override-channels"} - set(arguments):
        raise SystemExit(f"the shim needs {' '.join(sorted(missing))}")
    return channels, specs


def _records(channel: str, subdirs: list[str]) -> list[dict[str, Any]]:
    """All records of a channel that is a folder; none for one that is not."""
    parts = urlsplit(channel)
    files = [Path(unquote(parts.path)) / s / "repodata.json" for s in subdirs] if parts.scheme == "file" else []
    found = [json.loads(f.read_bytes()) for f in files if f.is_file()]
    return [r for d in found for key in ("packages", "packages.conda") for r in d.get(key, {}).values()]


async def _solve(channels: list[str], specs: list[str], subdir: str) -> list[dict[str, Any]]:
    import rattler
    from rattler.repo_data import SourceConfig

    subdirs = [subdir, "noarch"]
    facts = {c: [r for r in _records(c, subdirs) if r["name"].startswith("__")] for c in channels}
    with tempfile.TemporaryDirectory() as cache:
        solved = await rattler.solve(
            [rattler.Channel(c) for c in channels if not facts[c]],
            [rattler.MatchSpec(s, strict=False) for s in specs],
            gateway=rattler.Gateway(cache_dir=cache, default_config=SourceConfig(sharded_enabled=False)),
            platforms=subdirs,
            virtual_packages=[
                rattler.GenericVirtualPackage(
                    rattler.PackageName(r["name"]), rattler.Version(r["version"]), rattler.BuildString(r["build"])
                )
                for records in facts.values()
                for r in records
            ],
        )
    return [json.loads(r.to_json()) for r in solved]


def _answer(records: list[dict[str, Any]], subdir: str) -> dict[str, Any]:
    link = [
        {
            "name": r["name"],
            "version": r["version"],
            "base_url": str(r["url"]).rsplit("/", 2)[0],
            "channel": r["channel"],
            "dist_name": f"{r['name']}-{r['version']}-{r['build']}",
            "platform": subdir,
        }
        for r in records
    ]
    return {"success": True, "dry_run": True, "actions": {"FETCH": records, "LINK": link}}


def _main(arguments: list[str]) -> None:
    subdir = os.environ.get("CONDA_SUBDIR", "linux-64")
    if arguments == ["--version"]:
        sys.stdout.write("conda 25.0.0\n")
        return
    if arguments[:1] == ["create"]:
        answer: dict[str, Any]
        try:
            answer = _answer(asyncio.run(_solve(*_parse(arguments[1:]), subdir)), subdir)
        except Exception as error:  # noqa: BLE001  # as conda: whatever it is, the caller gets it as JSON
            answer = {"success": False, "error": type(error).__name__, "message": str(error)}
    else:
        raise SystemExit(f"the shim has no `{' '.join(arguments)}`")
    sys.stdout.write(json.dumps(answer))
    sys.stdout.flush()
    os._exit(0 if answer.get("success", True) else 1)  # rattler can crash at interpreter exit


if __name__ == "__main__":
    _main(sys.argv[1:])
