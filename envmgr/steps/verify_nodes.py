"""`envmgr verify --nodes`: compare what nodes see, through their own mount, with what was built and published."""

from __future__ import annotations

import stat
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from envmgr.modules.spec import SHIMS
from envmgr.nodes.sets import fold, resolve_nodes
from envmgr.probe.hashing import HashedFolder, HashOnNodes, NodeFault
from envmgr.probe.model import Way
from envmgr.publish.flips import known_current
from envmgr.publish.records import RECORD, GenerationRecord
from envmgr.report import Finding
from envmgr.steps import Context
from envmgr.steps.verify import VerifyWhat, look
from envmgr.steps.verify_result import PrefixLook, VerifyResult
from envmgr.store.manifest import read_manifest
from envmgr.store.prefix import Install
from envmgr.store.tree import TreePath
from envmgr.system.files import read_regular, sha256_bytes

_SECONDS = 3600.0  # for all nodes together, where no deadline is given: they read all bytes
_HINT = "on the node: what is mounted there? `envmgr audit --check mount --nodes NODE`"


def verify_on_nodes(
    ctx: Context, what: VerifyWhat, node_set: str, *, via: Way | None, deadline: float | None
) -> VerifyResult:
    """Verify here first, because nodes are compared with what is right here. What is wrong here is reported once,
    without nodes.

    `via` None is the site's setting. `deadline` is seconds for all nodes together, None for the command's own.

    Raises InputError for unknown nodes; else as `look`.
    """
    nodes = resolve_nodes(node_set, ctx.site, ctx.runner)
    seen = look(ctx, what)
    places, owners = _places(ctx, seen)
    hashing = HashOnNodes(ctx.site, ctx.runner, ctx.reporter, ctx.way(via), deadline or _SECONDS)
    faults = _without_followers(ctx, hashing.ask(nodes, [*places.values()]), owners)
    faults += _currents(ctx, hashing.currents)
    result = seen.result()
    lost = [f"on nodes: {path}: it differs here" for path in _wrong_here(seen)]
    lost += [f"on nodes: {tree}: not ours; `envmgr audit --check outside` lists it" for tree in seen.not_ours.values()]
    return replace(
        result,
        findings=(*result.findings, *_folded(ctx, faults, seen, owners)),
        not_looked_at=(*result.not_looked_at, *lost),
        nodes=fold([node for node in nodes if node not in hashing.unseen]),
        not_verified=fold([node for node in nodes if node in hashing.unseen]),
    )


def _without_followers(ctx: Context, faults: list[NodeFault], owners: Mapping[str, str]) -> list[NodeFault]:
    """Return the faults without what lies beside an install that is missing as a whole."""
    gone = {(fault.node, fault.folder) for fault in faults if fault.found == "missing"}

    def follows(fault: NodeFault) -> bool:
        folder = str(ctx.prefix.root / owners.get(fault.folder.removeprefix(f"{ctx.prefix.root}/"), ""))
        return fault.found == "missing" and fault.folder != folder and (fault.node, folder) in gone

    return [fault for fault in faults if not follows(fault)]


def _wrong_here(seen: PrefixLook) -> list[str]:
    generations = [f"generations/{number:04d}" for number, looked in seen.generations.items() if looked.faults]
    return [*generations, *(path for path, each in seen.installs.items() if each.wrong)]


def _places(ctx: Context, seen: PrefixLook) -> tuple[dict[str, HashedFolder], dict[str, str]]:
    """Return what nodes are asked for, by its path; and each path of an install -> the install."""
    wrong = {*_wrong_here(seen)}
    found: dict[str, HashedFolder] = {}
    owners: dict[str, str] = {}
    for number, looked in seen.generations.items():
        path = f"generations/{number:04d}"
        if path not in wrong and looked.record is not None:
            found[path] = _generation(ctx, number, looked.record)
    for path in seen.installs:
        if path not in wrong:
            of_install = _install(ctx.prefix.install_at(path))
            found |= of_install
            owners |= dict.fromkeys(of_install, path)
    return found, owners


def _generation(ctx: Context, number: int, record: GenerationRecord) -> HashedFolder:
    folder = ctx.prefix.generation(number)
    files = {**record.files, RECORD: sha256_bytes(read_regular(folder / RECORD))}
    folders = {str(parent) for path in files for parent in (folder / path).relative_to(folder).parents} - {"."}
    modes = {path: 0o555 if path.startswith(f"{SHIMS}/") else 0o444 for path in files}
    paths = [TreePath(path, "dir", 0o555) for path in folders]
    paths += [TreePath(path, "file", modes[path], 0, sha256) for path, sha256 in files.items()]
    return HashedFolder(str(folder), 0o555, paths)


def _install(install: Install) -> dict[str, HashedFolder]:
    """Return its folder, its manifest, and what belongs to it and lies elsewhere, such as a module of EasyBuild's."""
    manifest = read_manifest(install.manifest)
    paths = [path._replace(mode=path.mode & ~manifest.mask) for path in manifest.paths]
    root = install.prefix.root
    beside = [install.manifest, *(root / name for name in manifest.extra)]
    return {
        install.relative: HashedFolder(str(install.path), 0o555 & ~manifest.mask, paths),
        **{str(file.relative_to(root)): _file(file) for file in beside},
    }


def _file(path: Path) -> HashedFolder:
    """Return a file as it is here, where it was compared with its record."""
    return HashedFolder(str(path), stat.S_IMODE(path.lstat().st_mode), sha256=sha256_bytes(read_regular(path)))


def _currents(ctx: Context, currents: dict[str, str]) -> list[NodeFault]:
    number = known_current(ctx.prefix)
    right = None if number is None else f"generations/{number:04d}"
    return [
        NodeFault(node, str(ctx.prefix.current), f"names {said or 'nothing'}, and {right} here")
        for node, said in currents.items()
        if right is not None and said != right
    ]


def _folded(ctx: Context, faults: list[NodeFault], seen: PrefixLook, owners: Mapping[str, str]) -> list[Finding]:
    nodes: dict[tuple[str, str], list[str]] = {}
    for fault in faults:
        nodes.setdefault((fault.folder, fault.found), []).append(fault.node)
    findings = []
    for (folder, found), of in sorted(nodes.items()):
        path = folder.removeprefix(f"{ctx.prefix.root}/")
        if not folder:
            findings.append(Finding("node", "error", fold(of), found, nodes=fold(of), hint=_UNKNOWN))
        elif path in owners:
            where = ", ".join(seen.users.get(owners[path], ())) or owners[path]
            text = found.removeprefix(".: ")
            findings.append(Finding("install", "error", where, f"{path}: {text}", nodes=fold(of), hint=_HINT))
        elif path == "current":
            findings.append(Finding("current", "error", path, found, nodes=fold(of), hint=_HINT))
        else:
            place, _, rest = found.partition(": ")
            where, text = (f"{path}/{place}", rest) if rest else (path, found)
            findings.append(Finding("generation", "error", where, text, nodes=fold(of), hint=_HINT))
    return findings


_UNKNOWN = "nothing is known of its mount: `envmgr audit --nodes NODE` tells more"
