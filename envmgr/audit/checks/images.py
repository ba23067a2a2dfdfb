"""Images of installs on nodes (`envmgr stage`) are the right ones, whole, and where the site wants them.

Each node says what is mounted from a loop device over an install's path, and which copies it has. A copy is read whole
once a day, and after it was written to; one that takes longer than ten seconds is a note. What is mounted over an
install must be the install's own image, from the share or from the node's disk, and of the install as it is now. An
image over the path of an install that `gc` has removed hides that. Where site.yaml has `staging`, each of its nodes
must have its entries on its own disk, and no others. Nodes without images, and sites without `staging`, are not asked
for any.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from envmgr.audit.controller import Controller
from envmgr.audit.look import Look, Said, looked_at, say
from envmgr.audit.model import Check, Evidence, ProbeTexts, Rows
from envmgr.audit.plan import AuditPlan
from envmgr.audit.table import fields_of
from envmgr.errors import EnvmgrError
from envmgr.nodes.sets import fold
from envmgr.probe.shell import looked_key
from envmgr.store.image import own_image, read_image
from envmgr.store.manifest import read_manifest
from envmgr.store.prefix import Install, Prefix
from envmgr.system.shelltext import assign, quote, script_text


def probe(plan: AuditPlan) -> ProbeTexts:
    return {"node": assign(images_dir=plan.site.staging.folder) + script_text(__file__, "node.sh")}


@dataclass(frozen=True, slots=True)
class Images:
    """The images of this prefix. `sums` maps the paths of installs to the sha256 of their image, empty where there is
    none; `wanted` are paths that should be staged on `nodes`, each with an entry.
    """

    sums: Mapping[str, str] = field(default_factory=dict)
    wanted: Mapping[str, str] = field(default_factory=dict)
    nodes: frozenset[str] = frozenset()


def ask_controller(controller: Controller, evidence: Evidence) -> Images:
    """Look at the images of what is published, and of what nodes have mounted."""
    prefix = Prefix(evidence.site.prefix)
    staging = evidence.site.staging
    entries = {} if evidence.published is None else evidence.published.record.entries
    chosen = staging.chosen(entries)
    wanted: dict[str, str] = {}
    for name in chosen:
        for path in entries[name].paths:
            wanted.setdefault(str(prefix.install_at(path).path), name)
    sums = {}
    for path in {*wanted, *(fields_of(line, 2)[0] for line in evidence.mounts.by_line("images.mounted"))}:
        install = _install(prefix, path)
        if install is not None and (install.exists() or path in wanted):
            sums[path] = _sum(install)
    nodes = controller.nodes(staging.nodes) if staging.nodes else evidence.nodes if chosen else ()
    return Images(sums, wanted, frozenset(nodes))


def _install(prefix: Prefix, path: str) -> Install | None:
    """Return the install of a path that a node names; None where it is not in a store."""
    try:
        return prefix.install_at(prefix.named(path))
    except ValueError:
        return None


def _sum(install: Install) -> str:
    """Return the sha256 of the image, empty where it is of another tree than the install's, or cannot be read."""
    try:
        manifest = read_manifest(install.manifest)
        record = read_image(install)
    except EnvmgrError:
        return ""
    if own := own_image(manifest):
        return own.sha256
    return record.sha256 if record and record.tree == manifest.tree else ""


def judge(evidence: Evidence) -> Rows:
    images = evidence.answer(Images)
    if images is None:
        return
    # Only root sees which copies there are.
    fleet = evidence.mounts.only(lambda facts: "probe" not in facts and "images.closed" not in facts)
    yield from looked_at(partial(_staged, images), fleet, evidence, apart=images.nodes)
    for path, entry in images.wanted.items():
        if not images.sums.get(path):
            yield evidence.say("no_image", entry=entry)


def _staged(images: Images, look: Look) -> Iterator[Said]:
    lines = (fields_of(line, 4) for line in look.lines("images.copies"))
    copies = {file: (path, sha256, state) for path, sha256, file, state in lines}
    for file, (path, sha256, state) in copies.items():
        if state == "wrong":
            yield say("damaged", file=file, sha256=sha256, command=partial(_again, look.evidence, path))
        elif state == "unread":
            yield say("unread", file=file, command=partial(_anew, look.evidence, path))
    on_disk, is_asked = set(), look.nodes[0] in images.nodes
    for line in look.lines("images.mounted"):
        path, file = fields_of(line, 2)
        of, mounted, sha256 = copies.get(file, ("", "", ""))
        if (
            of == path or not look.evidence.site.staging.quota
        ):  # without a quota for copies, the share's image is wanted
            on_disk.add(path)
        yield from _mounted(images, path, file, mounted if of == path else "", look)
    for path in images.wanted if is_asked and look.has(looked_key("images", "node")) else ():
        if images.sums.get(path) and path not in on_disk:
            yield say("not_staged", path=path)


def _mounted(images: Images, path: str, file: str, copy: str, look: Look) -> Iterator[Said]:
    """Yield what is wrong with a mounted image; `copy` is the sha256 of the node's own copy, if it is one."""
    install = _install(Prefix(look.evidence.site.prefix), path)
    if path not in images.sums:
        yield say("collected", path=path)
    elif not copy and (install is None or file != str(install.image)):
        yield say("other", path=path, file=file)
    else:
        sha256 = images.sums[path]
        if copy and sha256 and copy != sha256:
            yield say("older", path=path, sha256=sha256, command=partial(_again, look.evidence, path))
        if look.nodes[0] not in images.nodes and (images.wanted or images.nodes):  # site.yaml says what is on all nodes
            yield say("more", path=path, command=partial(_away, look.evidence, path))
        elif look.nodes[0] in images.nodes and path not in images.wanted:
            yield say("more", path=path, command="envmgr stage --sync")


def _away(evidence: Evidence, path: str, nodes: Sequence[str]) -> str:
    """Return the command that unmounts an image."""
    return _again(evidence, path, nodes).partition(" && ")[0]


def _anew(evidence: Evidence, path: str, nodes: Sequence[str]) -> str:
    """Return the command that stages its entry again; the one that unmounts it, if no entry has it."""
    return _again(evidence, path, nodes).rpartition(" && ")[2]


def _again(evidence: Evidence, path: str, nodes: Sequence[str]) -> str:
    """Return the command that unmounts an image, and stages the entry again."""
    record = None if evidence.published is None else evidence.published.record
    relative = path.removeprefix(f"{evidence.site.prefix}/")
    entries = [] if record is None else sorted(n for n, each in record.entries.items() if relative in each.paths)
    what = entries[0] if entries else "--all"
    on = f"--nodes {quote(fold(nodes))}"
    return f"envmgr stage --remove {what} {on}" + (f" && envmgr stage {what} {on}" if entries else "")


CHECK = Check(judge=judge, probe=probe, ask_controller=ask_controller, wants=frozenset({"published"}))
