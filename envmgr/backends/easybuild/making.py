"""A private EasyBuild's environment, made by uv: of the files that a lock names, without a network, or else of the package index."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from envmgr.backends.easybuild.lock import EasyBuildFile
from envmgr.errors import CommandError, EnvmgrError
from envmgr.report import Reporter
from envmgr.system.pip_settings import uv_settings
from envmgr.system.run import Runner, clean_env
from envmgr.system.sandbox import without_network
from envmgr.system.scratch import scratch_folder

_LIMIT = 1800.0  # seconds that making the environment may take


@dataclass(frozen=True, slots=True)
class Files:
    """What it is made of: as the lock names them, and how they come here (file name -> path, each with the lock's sha256)."""

    locked: Sequence[EasyBuildFile]
    bring: Callable[[], Mapping[str, Path]]


def make_from_files(
    version: str,
    home: Path,
    locked: Sequence[EasyBuildFile],
    paths: Mapping[str, Path],
    runner: Runner,
    reporter: Reporter,
) -> None:
    """Of these files and nothing else. uv holds each against its sha256 once more.

    Raises EnvmgrError `easybuild-unavailable`.
    """
    from uv import find_uv_bin

    shut, said = without_network(runner)
    if shut is None:
        reporter.log(f"EasyBuild {version}: uv alone keeps its installation off the network: {'; '.join(said)}")
    with scratch_folder("easybuild") as folder:
        scratch = str(folder)
        for file in locked:
            (folder / file.name).symlink_to(paths[file.name])
        wanted, builds = folder / "wanted.txt", folder / "builds.txt"
        wanted.write_text(_rows(file for file in locked if not file.builds), encoding="utf-8")
        builds.write_text(_rows(file for file in locked if file.builds), encoding="utf-8")
        env = clean_env(HOME=scratch, TMPDIR=scratch, UV_NO_PROGRESS="1")
        uv: list[str | Path] = [*(shut or ()), find_uv_bin()]
        offline = ("--quiet", "--no-config", "--offline", "--no-python-downloads", "--cache-dir", folder / "cache")
        venv = [*uv, "venv", *offline, "--python", sys.executable, home]
        install = [
            *uv,
            "pip",
            "install",
            *offline,
            "--no-index",
            "--find-links",
            folder,
            "--no-deps",
            "--require-hashes",
            "--build-constraints",
            builds,
            "--compile-bytecode",
            "--python",
            home / "bin" / "python",
            "--requirements",
            wanted,
        ]
        hint = "the lock names its files, and they are here: what uv said is about this host, or its Python"
        _run(version, [venv, install], env, runner, hint=hint)


def _rows(files: Iterable[EasyBuildFile]) -> str:
    return "".join(f"{file.package}=={file.version} --hash=sha256:{file.sha256}\n" for file in files)


def make_from_index(version: str, home: Path, environ: Mapping[str, str], runner: Runner, *, label: str = "") -> None:
    """Of what the index has of that version today, for a lock that names no files. `label` is the lock's entry.

    Raises EnvmgrError `easybuild-unavailable`.
    """
    from uv import find_uv_bin

    uv, python = find_uv_bin(), home / "bin" / "python"
    venv: list[str | Path] = [uv, "venv", "--quiet", "--python", sys.executable, home]
    install: list[str | Path] = [uv, "pip", "install", "--quiet", "--compile-bytecode", "--python", python]
    install.append(f"easybuild=={version}")
    hint = (
        "it comes from the Python package index: is that reachable, or UV_DEFAULT_INDEX set to a mirror, or UV_FIND_LINKS to a "
        "folder that has it and what builds it, with UV_NO_INDEX=1?"
    )
    if label:
        hint += f"\n  `envmgr lock {label}` writes EasyBuild's files into the lock, and `envmgr fetch` brings them then"
    _run(version, [venv, install], _uv_environment(environ), runner, hint=hint)


def _run(
    version: str, commands: Sequence[Sequence[str | Path]], env: Mapping[str, str], runner: Runner, *, hint: str
) -> None:
    try:
        for argv in commands:
            runner.run(argv, env=env, timeout=_LIMIT)
    except CommandError as error:
        raise EnvmgrError(
            "easybuild-unavailable", f"EasyBuild {version} could not be installed", context=error.context, hint=hint
        ) from error


def _uv_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Proxies, certificates, and where packages come from, pass; nothing else of the caller's shell does."""
    passed = {
        key: value
        for key, value in environ.items()
        if key.startswith("UV_") or key.upper().endswith("_PROXY") or key in ("SSL_CERT_FILE", "SSL_CERT_DIR")
    }
    passed = uv_settings(environ) | passed
    env = clean_env(UV_NATIVE_TLS="1", UV_NO_PROGRESS="1", **passed)
    if not os.access(env.get("HOME", "/nonexistent"), os.W_OK):
        env["UV_NO_CACHE"] = "1"  # a build user without a home
    return env
