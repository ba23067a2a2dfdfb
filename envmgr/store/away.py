"""A prefix that this host cannot see: its server does not answer, or it is not mounted.

An empty folder may be a new prefix or the mount point of an old one. What tells them apart is what this host says of
its mounts: /etc/fstab, autofs, units of systemd, and `mount.source` in site.yaml.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from envmgr.catalog.site import Site
from envmgr.errors import EnvmgrError
from envmgr.system.locks import mount_of
from envmgr.system.run import run_detached
from envmgr.system.shelltext import quote

SECONDS = 15  # in which a prefix on a network file system must answer once

_MEMORY = {"tmpfs", "ramfs", "overlay", "zfs", "rootfs", "aufs"}  # `nodev` in /proc/filesystems, and local
# Names come from a cache of attributes for a while; opening asks the server.
_LOOK = 'ls "$1/." >/dev/null 2>&1; head -c 1 "$1/prefix.json" >/dev/null 2>&1; exit 0'
_MAPS = (("/etc", "fstab"), ("/etc", "auto.*"), ("/etc/auto.master.d", "*"), ("/etc/systemd/system", "*.mount"))


@dataclass(frozen=True, slots=True)
class Expected:
    """A mount that this host's files name: its point, what is mounted there (may be empty), and the file."""

    point: str
    source: str
    file: Path


def require_answer(prefix: Path) -> None:
    """Raise EnvmgrError `prefix-away` if the prefix is on a network file system that does not answer.

    A process of its own touches it: one that hangs there cannot be ended, and is left behind.
    """
    found = _network_mount(prefix)
    if found is None:
        return
    if run_detached(["/bin/sh", "-c", _LOOK, "sh", str(prefix)], seconds=SECONDS).returncode is not None:
        return
    kind, source = found
    raise EnvmgrError(
        "prefix-away",
        f"{prefix} does not answer on this host",
        context=f"no answer in {SECONDS} s from {source} ({kind})",
        hint="is the file server up? Nothing was changed",
    )


def require_mounted(site: Site) -> None:
    """Raise EnvmgrError `prefix-away` if the prefix is empty or missing, and a file says that it is a mount."""
    for sign in _not_mounted(site):
        raise sign


def sees_prefix(site: Site) -> bool:
    """Return whether this host sees the prefix."""
    try:
        require_answer(site.prefix)
        require_mounted(site)
    except EnvmgrError:
        return False
    return True


def why_not_mounted(site: Site) -> str:
    """Return why the prefix is not mounted here, in one line, or an empty text."""
    return next((f"{error.message}: {error.context[0]}" for error in _not_mounted(site)), "")


def nothing_published(site: Site, environ: Mapping[str, str], build: str) -> EnvmgrError:
    """Return the error of a prefix without a generation: `prefix-away`, or `nothing-published` with what is known.

    `build` is the hint for a prefix that is there.
    """
    for sign in _not_mounted(site):
        return sign
    prefix = site.prefix
    state = _emptiness(prefix)
    if not state:
        return EnvmgrError("nothing-published", "nothing was published yet", context=str(prefix), hint=build)
    context = [state]
    pin = environ.get("ENVMGR_PIN", "")
    if pin.startswith(f"{prefix}/generations/"):
        context.append(f"this shell uses {pin}, which is not there now")
    return EnvmgrError(
        "nothing-published",
        f"nothing is published in {prefix}, as this host sees it",
        context=context,
        hint=f"{build}; if another machine has it, mount it here first",
    )


def _emptiness(prefix: Path) -> str:
    """Return how an empty or missing prefix looks; an empty text for any other."""
    try:
        with os.scandir(prefix) as entries:
            return f"{prefix} is an empty folder" if next(entries, None) is None else ""
    except FileNotFoundError:
        return f"there is no folder {prefix}"
    except OSError:
        return ""


def _not_mounted(site: Site) -> Iterator[EnvmgrError]:
    """Yield why the prefix is not mounted here, if a file of this host says so."""
    prefix, state = site.prefix, _emptiness(site.prefix)
    if not state:
        return
    mounted = {line.split()[4] for line in Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines()}
    above = {str(path) for path in (prefix, *prefix.parents)} - {"/"}
    message = f"{prefix} is not mounted on this host"
    for each in _expected():
        if each.point in above - mounted:
            of = f"{each.source} on " if each.source else ""
            said = f"{each.file} mounts {of}{each.point}; {state}"
            yield EnvmgrError("prefix-away", message, context=said, hint=f"`mount {quote(each.point)}` as root")
    kind, source, _ = mount_of(prefix)
    if kind == "autofs":
        said = f"autofs mounts what is below {source}; {state}"
        yield EnvmgrError(
            "prefix-away", message, context=said, hint="is the file server up, and is the name in autofs's map?"
        )
    wanted = site.mount.source
    if wanted is not None and source != wanted and not _is_this_host(wanted.partition(":")[0]):
        said = f"`mount.source` in site.yaml is {wanted}, and {prefix} is on {source} ({kind}); {state}"
        yield EnvmgrError("prefix-away", message, context=said, hint=f"mount {wanted} on {prefix}, as on the nodes")


def _is_this_host(name: str) -> bool:
    return name.partition(".")[0] == os.uname().nodename.partition(".")[0]


def _expected() -> Iterator[Expected]:
    """Yield the mounts that files of this host name."""
    for folder, pattern in _MAPS:
        for file in sorted(Path(folder).glob(pattern)):
            try:
                lines = file.read_text(encoding="utf-8", errors="replace").splitlines()
            except OSError:
                continue
            yield from _unit(file, lines) if file.suffix == ".mount" else _table(file, lines)


def _table(file: Path, lines: list[str]) -> Iterator[Expected]:
    for line in lines:
        words = line.partition("#")[0].split()
        if file.name == "fstab" and len(words) > 2:
            yield Expected(words[1].rstrip("/"), words[0], file)
        elif file.name != "fstab" and len(words) > 1 and words[0].startswith("/"):
            yield Expected(words[0].rstrip("/"), words[-1] if ":" in words[-1] else "", file)


def _unit(file: Path, lines: list[str]) -> Iterator[Expected]:
    values = dict(line.partition("=")[::2] for line in lines)
    if where := values.get("Where", "").strip():
        yield Expected(where, values.get("What", "").strip(), file)


def _network_mount(path: Path) -> tuple[str, str] | None:
    """Return type and source of the first mount on the way to `path` that may hang; None where all are local.

    Links are followed, and nothing is touched that lies on such a mount.
    """
    local = _MEMORY | {line.strip() for line in _file_systems() if not line.startswith("nodev")}
    todo, done = list(path.parts[1:]), Path("/")
    for _ in range(1000):  # a loop of links
        if not todo:
            return None
        step = done / todo.pop(0)
        kind, source, _ = mount_of(step)
        if kind not in local and kind != "unknown":
            return kind, source
        if step.is_symlink():
            target = str(step.readlink())
            todo = [part for part in Path(target).parts if part != "/"] + todo
            done = Path("/") if target.startswith("/") else done
        else:
            done = done.parent if step.name == ".." else step
    return None


def _file_systems() -> list[str]:
    return Path("/proc/filesystems").read_text(encoding="utf-8").splitlines()
