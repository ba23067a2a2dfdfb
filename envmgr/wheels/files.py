"""Whether the files of a lock need what the lock says: asked of the METADATA of each, downloaded and hashed, before any is unpacked."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from zipfile import BadZipFile

from packaging.version import Version

from envmgr.errors import EnvmgrError, InputError
from envmgr.wheels.closure import Part, faults_of
from envmgr.wheels.metadata import metadata_in
from envmgr.wheels.requirements import Question


def require_answer(
    wanted: Question,
    parts: Mapping[str, Part],
    files: Mapping[str, Path],
    python: str,
    entry: object,
    *,
    present: Mapping[str, str] | None = None,
    elsewhere: bool = False,
    asker: str = "the recipe",
) -> None:
    """`parts` are what the lock says (normalised name -> it), `files` the wheels of those that are there; for others the lock counts. See `faults_of`.

    Raises:
        EnvmgrError: `wheel-invalid`; InputError: `files-differ`.
    """
    told = {**parts, **parts_in(parts, files)}
    found = faults_of(wanted, told, python, present=present, elsewhere=elsewhere, asker=asker)
    if faults := [fault.text for fault in found]:
        raise files_differ(entry, faults)


def parts_in(parts: Mapping[str, Part], files: Mapping[str, Path]) -> dict[str, Part]:
    """Those of `files`, with what their METADATA says that they need. EnvmgrError `wheel-invalid`."""
    return {name: _part(name, parts[name], path) for name, path in files.items()}


def files_differ(entry: object, lines: Iterable[str], accept: str = "") -> InputError:
    """`accept` is what its recipe may say where that is meant."""
    return InputError(
        "files-differ",
        f"the files of {entry} need other packages than its lock has; nothing was installed",
        context=[*lines][:20],
        hint="\n  ".join(
            [f"find out who changed the lock; `envmgr lock {entry}` writes it again", *([accept] if accept else [])]
        ),
    )


def _part(name: str, said: Part, path: Path) -> Part:
    try:
        head = metadata_in(path)
        if head.name == name and Version(head.version) == Version(said.version):
            return Part(said.version, head.requires)
    except (OSError, ValueError, KeyError, BadZipFile) as error:
        raise EnvmgrError("wheel-invalid", f"the METADATA of {path.name} cannot be read", context=str(error)) from None
    raise EnvmgrError(
        "wheel-invalid",
        f"{path.name} says that it is {head.name} {head.version}",
        context=f"the lock has {name} {said.version}",
    )
