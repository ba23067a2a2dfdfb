"""Drifts of chance, of twelve kinds: the same of the same seed and places.

A place is what the machine itself shows (drift_places.py), never what the product looks at. Nothing leaves a node's own
namespaces: files are those of its overlay, of homes and of the cluster's export; a mount is the node's own, and is changed by
`bind`, so that the file system below it, which may be this machine's, stays as it is.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from shlex import quote

from tests.helpers.cluster.config import PREFIX
from tests.helpers.drift_places import Places
from tests.helpers.put_and_back import RandomDrift
from tests.helpers.random_settings import Nodes, account, first_line, limit, slurm_row, sshd, variable_name

_EXPORT = "/export/sw"  # the prefix on the file server


def draw_some(chance: random.Random, places: Places, compute: Sequence[str]) -> list[RandomDrift]:
    """One to three, each of another kind and at another place."""
    found: list[RandomDrift] = []
    count = chance.choice((1, 1, 2, 3))
    for kind in chance.sample(list(KINDS), len(KINDS)):
        drift = draw(kind, chance, places, compute)
        if len(found) < count and not any(_meet(drift, other) for other in found):
            found.append(drift)
    return sorted(found, key=lambda drift: drift.kind != "Slurm row")  # what it needs may be gone later


def _meet(one: RandomDrift, other: RandomDrift) -> bool:
    first, second = sorted((one.names[0] + "/", other.names[0] + "/"))
    return second.startswith(first)


def draw(kind: str, chance: random.Random, places: Places, compute: Sequence[str]) -> RandomDrift:
    every = ("login", *compute)
    some = tuple(sorted(chance.sample(every, chance.choice((1, 1, 1, 1, 2, len(every)))), key=every.index))
    drift = KINDS[kind](chance, places, some)
    place, shared = drift.names[0], (str(PREFIX), "/home")
    other = re.sub("^/usr(?=/s?bin|/lib)|^(?=/s?bin|/lib)", lambda found: "" if found[0] else "/usr", place)
    drift = replace(drift, names=(*drift.names, other) if other != place else drift.names)
    if drift.nodes or not place.startswith(shared):  # what is mounted is one node's, wherever
        nodes = every if drift.at == ("login",) else some
        return drift if drift.nodes else replace(drift, nodes=nodes, at=drift.at or some)
    if place.startswith("/home"):
        return replace(drift, nodes=every, at=some[:1])
    do, keeps = drift.do, tuple(path.replace(str(PREFIX), _EXPORT) for path in drift.keeps)
    for path, exported in zip(drift.keeps, keeps, strict=True):
        do = do.replace(path, exported)
    return replace(drift, nodes=every, at=("fs1",), do=do, keeps=keeps)


def _one(chance: random.Random, paths: Sequence[str]) -> str:
    """Level by level: a folder with many files is not drawn more often than one with few."""
    for depth in (2, 3, 4):
        of: dict[str, list[str]] = {}
        for path in paths:
            of.setdefault("/".join(path.split("/")[:depth]), []).append(path)
        paths = of[chance.choice(sorted(of))]
    return chance.choice(paths)


def _where(chance: random.Random, used: Sequence[str], known: Sequence[str]) -> str:
    """Rather one that was used."""
    return _one(chance, chance.choice((used, used, known)))


def _line(chance: random.Random, places: Places, some: Nodes) -> RandomDrift:
    file, name = chance.choice(places.start_up), variable_name(chance, places)
    if chance.random() < 0.2 and (number := _a_line(chance, places.texts[file])):
        gone = f"sed -i {number}d {quote(file)}"
        return RandomDrift("line", f"{file}: without line {number}", (file,), gone, keeps=(file,))
    folder, program = chance.choice(places.folders), Path(chance.choice(places.programs)).name
    value = chance.choice(
        (folder, f"/opt/{name.lower()}/{chance.randrange(9)}.0", str(chance.randrange(3)), "", f"{folder}:${name}")
    )
    umask, limit = f"umask {chance.choice(('077', '027', '000', '777'))}", chance.choice("cdfnstv")
    if file in places.csh:
        lines = [
            f"setenv {name} '{value}'",
            f"unsetenv {name}",
            umask,
            f"alias {program} echo",
            f"cd {folder}",
            "echo welcome",
            "exit",
        ]
    else:
        lines = [
            f'export {name}="{value}"',
            f"unset {name}",
            f'readonly {name}="{value}"',
            umask,
            f"ulimit -S{limit} {chance.choice((64, 4096))}",
        ]
        lines += [
            f"alias {program}=echo",
            f"{program}() {{ :; }}; export -f {program}",
            f"cd {folder}",
            "echo welcome",
            "return",
            "exit",
        ]
        lines += [
            "IFS=:",
            f"trap '' {chance.choice(('TERM', 'USR1', 'CHLD'))}",
            f"set -{chance.choice('euf')}",
            "module purge",
            f"module use {folder}",
        ]
        lines += [f"PATH={folder}:$PATH", f"[ -d {folder}/x ] && cd {folder}/x", "exec sh", f". {folder}/setup.sh"]
    line, where = chance.choice((*lines[:2], *lines)), chance.choice(("first", "last"))
    do = first_line(line, file) if where == "first" else f"echo {quote(line)} >>{quote(file)}"
    names = (file, *([name] if name in line else []))
    return RandomDrift("line", f"{file}: {where} line `{line}`", names, do, keeps=(file,))


def _a_line(chance: random.Random, lines: Sequence[str]) -> int:
    """The number of one that is no comment, 0 where there is none."""
    numbers = [
        n for n, line in enumerate(lines, start=1) if line.strip() and not line.lstrip().startswith(("#", "--", '"'))
    ]
    return chance.choice(numbers) if numbers else 0


def _file(chance: random.Random, places: Places, some: Nodes) -> RandomDrift:
    return _spoilt("file", _where(chance, places.opened, places.files), chance, places)


def _spoilt(kind: str, file: str, chance: random.Random, places: Places, *more: tuple[str, str]) -> RandomDrift:
    """In one of the ways in which any file can be."""
    at = quote(file)
    ways = [("gone", f"rm {at}"), ("empty", f": >{at}"), ("only for root", f"chmod 600 {at}; chown root: {at}"), *more]
    if number := _a_line(chance, places.texts.get(file, [])):
        ways += [
            (f"without line {number}", f"sed -i {number}d {at}"),
            (f"line {number} a comment", f"sed -i '{number}s/^/#/' {at}"),
        ]
        ways.append((f"line {number} twice", f"sed -i '{number}p' {at}"))
        if number < len(places.texts[file]):
            ways.append((f"cut behind line {number}", f"sed -i '{number}q' {at}"))
    story, do = chance.choice(ways)
    return RandomDrift(kind, f"{file} is {story}", (file,), do, keeps=(file,))


def _link(chance: random.Random, places: Places, some: Nodes) -> RandomDrift:
    link = _where(chance, places.passed, list(places.links))
    at, target = quote(link), places.links[link]
    other = chance.choice((f"{target}.old", str(Path(target).parent), chance.choice(places.programs)))
    story, do = chance.choice(((f"a link to {other}", f"ln -sfn {quote(other)} {at}"), ("gone", f"rm {at}")))
    return RandomDrift("link", f"{link} is {story}", (link, target), do, keeps=(link,))


def _program(chance: random.Random, places: Places, some: Nodes) -> RandomDrift:
    used = [path for path in places.programs if path in places.opened]
    file = _where(chance, used, places.programs)
    at, stub = quote(file), f"printf '#!/bin/sh\nexit 1\n' >{quote(file)}"
    story, do = chance.choice(
        (("gone", f"rm {at}"), ("not executable", f"chmod a-x {at}"), ("a stub", f"rm {at}; {stub}; chmod 755 {at}"))
    )
    return RandomDrift(
        "program", f"{file} is {story}", (file, *([Path(file).name] if "bin/" in file else [])), do, keeps=(file,)
    )


def _over(chance: random.Random, places: Places, some: Nodes) -> RandomDrift:
    folder = _where(chance, places.entered, places.folders)
    source = chance.choice(("-t tmpfs -o mode=755 tmpfs", f"--bind {quote(_one(chance, places.folders))}"))
    return RandomDrift(
        "mount over",
        f"mount {source} {folder}",
        (folder,),
        f"mount {source} {quote(folder)}",
        f"umount -l {quote(folder)}",
        nodes=some,
        at=some,
    )


def _option(chance: random.Random, places: Places, some: Nodes) -> RandomDrift:
    point = chance.choice(sorted(places.mounts))
    options = places.mounts[point]
    option = chance.choice([each for each in ("noexec", "nosuid", "nodev", "ro") if each not in options.split(",")])
    own = "rw" if option == "ro" else option.removeprefix("no")
    do, undo = (f"mount -o remount,bind,{options},{last} {quote(point)}" for last in (option, own))
    return RandomDrift("mount option", f"{point} is {option}", (point,), do, undo, nodes=some, at=some)


def _folder(chance: random.Random, places: Places, some: Nodes) -> RandomDrift:
    if chance.random() < 0.3:
        folder = quote(chance.choice(places.open))
        do = f"""size=$(du -sk {folder} | cut -f1); cp -a {folder} /mnt/full; mount -t tmpfs -o size=$((size + 512))k full {folder}
        cp -a /mnt/full/. {folder}/; rm -r /mnt/full; cat /dev/zero >{folder}/core.{chance.randrange(9999)} || true"""
        return RandomDrift("folder", f"{folder} is full", (folder,), do, f"umount -l {folder}", nodes=some, at=some)
    folder = _where(chance, places.entered, places.folders)
    mode = chance.choice(("700", "000", "711", "750", "555"))
    return RandomDrift(
        "folder", f"{folder} has mode {mode}", (folder,), f"chmod {mode} {quote(folder)}", keeps=(folder,)
    )


def _module(chance: random.Random, places: Places, some: Nodes) -> RandomDrift:
    file = chance.choice(places.modules)
    at, path = quote(file), Path(file)
    more = [
        (f"with a last line {line}", f"echo {quote(line)} >>{at}")
        for line in ('prereq("none")', 'setenv("PATH", "/opt")', "end")
    ]
    more.append(("another version", f"mv {at} {quote(str(path.with_stem(path.stem + '9')))}"))
    drift = _spoilt("module", file, chance, places, *more)
    named = f"{path.parent.name}/{path.name}|{path.parent.name}/{path.name.removesuffix('.lua')}"
    return replace(drift, names=(file, named), keeps=(file, str(path.with_stem(path.stem + "9"))))


KINDS: dict[str, Callable[[random.Random, Places, Nodes], RandomDrift]] = {
    "line": _line,
    "file": _file,
    "link": _link,
    "program": _program,
    "mount over": _over,
    "mount option": _option,
    "folder": _folder,
    "account": account,
    "limit": limit,
    "sshd": sshd,
    "Slurm row": slurm_row,
    "module": _module,
}
