"""A look at what of a user's own files keeps modules, environments and notebooks from working. It changes nothing."""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from envmgr.errors import EnvmgrError
from envmgr.people.environments import base_state, strangers
from envmgr.people.kernel import kernel_file
from envmgr.people.lock import lock_of
from envmgr.people.places import UserPlaces
from envmgr.publish.records import GenerationRecord
from envmgr.report import Finding
from envmgr.store.prefix import Prefix
from envmgr.system.shelltext import quote
from envmgr.system.untrusted_files import ANYWHERE, Kind, read_json
from envmgr.system.usernames import own_home

_ROOM = 1 << 20  # bytes that a home must have
_KERNEL = Kind("kernel of Jupyter", 1 << 20)


def own_findings(
    environ: Mapping[str, str], places: UserPlaces, prefix: Prefix, record: GenerationRecord | None
) -> Iterator[Finding]:
    """Yield what is wrong with this shell's generation, environments, kernels and home; `record` is what is current."""
    home = Path(own_home(environ.get("HOME")))
    yield from _pin(environ, prefix, record)
    yield from _venvs(environ, home)
    yield from _environments(places, record)
    yield from _kernels(environ)
    yield from _room(home)


def _pin(environ: Mapping[str, str], prefix: Prefix, record: GenerationRecord | None) -> Iterator[Finding]:
    pin = environ.get("ENVMGR_PIN", "")
    if not pin.startswith(f"{prefix.generations}/"):
        return
    name, again = pin.rpartition("/")[2], "start a new login shell: it takes the current generation"
    if not Path(pin).is_dir():
        yield Finding("generation", "error", "this shell", f"its generation {name} was removed", hint=again)
    elif record is not None and name.isdecimal() and int(name) != record.number:
        found = f"it uses generation {int(name)}, and generation {record.number} is current"
        yield Finding("generation", "note", "this shell", found, hint=again)


def _venvs(environ: Mapping[str, str], home: Path) -> Iterator[Finding]:
    """Yield virtual environments whose Python is gone: that of the shell, and those of the usual folders."""
    named = environ.get("VIRTUAL_ENV", "")
    found = [Path(named)] if named else []
    for folder in (home, home / "venvs", home / ".virtualenvs", home / "envs"):
        with suppress(OSError):
            found += [each for each in folder.iterdir() if os.path.isfile(each / "pyvenv.cfg")]  # noqa: PTH113 - raises nothing
    for each in dict.fromkeys(found):
        python = each / "bin/python"
        if os.path.lexists(python) and not os.path.exists(python):  # noqa: PTH110 - raises nothing
            yield Finding(
                "environment",
                "error",
                str(each),
                f"the Python that it stands on is gone: {os.path.realpath(python)}",
                hint=f"make it again, or use `envmgr user create`; `rm -r {quote(str(each))}` removes it",
            )


def _environments(places: UserPlaces, record: GenerationRecord | None) -> Iterator[Finding]:
    for name in places.names():
        install = places.install(name)
        if install is None:
            continue
        where, delete = f"user/{name}", f"`envmgr user delete {name}`"
        try:
            lock = lock_of(install)
            state = "" if record is None else base_state(install, lock, record)
        except EnvmgrError as error:
            yield Finding("environment", "error", where, error.message, hint=f"{delete} removes what is left")
            continue
        rebase = f"`envmgr user update {name} --rebase`"
        if state == "gone":
            ways = (
                rebase if record and lock.on in record.entries else f"{delete}; `envmgr list` shows what is published"
            )
            yield Finding("environment", "error", where, f"the install of {lock.on} below it is gone", hint=ways)
        elif state in ("newer", "removed"):
            said = "has another install now" if state == "newer" else "is no longer published"
            yield Finding("environment", "note", where, f"{lock.on} {said}", hint=rebase if state == "newer" else "")
        if more := [*strangers(install, lock)]:
            found = f"its lock does not have {', '.join(more)}"
            lock_file = f"{name}.toml"
            again = f"envmgr user create {name} --from-lock {lock_file}"
            hint = f"`envmgr user export {name} -o {lock_file} && envmgr user delete {name} && {again}` makes it without that"
            yield Finding("environment", "warning", where, found, hint=hint)


def _kernels(environ: Mapping[str, str]) -> Iterator[Finding]:
    """Yield Jupyter's kernels whose program is not there."""
    for file in sorted(kernel_file(environ, "x").parents[1].glob("*/kernel.json")):
        program = ""
        with suppress(OSError, ValueError, LookupError, TypeError, EnvmgrError):
            program = str(read_json(file, _KERNEL, tree=ANYWHERE)["argv"][0])
        if program.startswith("/") and not os.path.exists(program):  # noqa: PTH110 - raises nothing
            hint = f"`rm -r {quote(str(file.parent))}` takes it away"
            yield Finding("kernel", "warning", str(file.parent), f"its program is gone: {program}", hint=hint)


def _room(home: Path) -> Iterator[Finding]:
    """Yield a home that has no room, by a file that is written and gone at once."""
    try:
        with tempfile.TemporaryFile(dir=home) as file:
            os.posix_fallocate(file.fileno(), 0, _ROOM)
    except OSError as error:
        whys: dict[int | None, Callable[[], str]] = {
            errno.EDQUOT: lambda: "your quota is used up",
            errno.ENOSPC: lambda: "its file system is full",
        }
        if error.errno in whys:
            found = f"{whys[error.errno]()}: there is no room for 1 MB"
            hint = f"`du -xh --max-depth=2 {quote(str(home))} | sort -h | tail` shows what takes it"
            yield Finding("home", "error", str(home), found, hint=hint)
