"""Images of installs on nodes (`envmgr stage`) are the right ones, whole, and where the site wants them.

Each node says what is mounted from a loop device over an install's path, and which copies it has. A copy is read whole
once a day, and after it was written to, as far as ten seconds allow. What is mounted over an
install must be the install's own image, from the share or from the node's disk, and of the install as it is now. An
image over the path of an install that `gc` has removed hides that. Where site.yaml has `staging`, each of its nodes
must have its entries on its own disk, and no others. Nodes without images, and sites without `staging`, are not asked
for any.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial

from envmgr.audit.controller import Controller
from envmgr.audit.look import Look, Said, looked_at, say
from envmgr.audit.model import Check, Evidence, ProbeTexts, Rows
from envmgr.audit.plan import AuditPlan
from envmgr.audit.table import fields_of
from envmgr.errors import EnvmgrError
from envmgr.probe.shell import looked_key
from envmgr.store.image import own_image, read_image
from envmgr.store.manifest import read_manifest
from envmgr.store.prefix import Install, Prefix
from envmgr.system.shelltext import assign, script_text


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
    wanted = {str(prefix.install_at(path).path): name for name in reversed(chosen) for path in entries[name].paths}
    sums = {}
    for path in {*wanted, *(fields_of(line, 2)[0] for line in evidence.mounts.by_line("images.mounted"))}:
        install = _install(prefix, path)
        if install is not None and (install.exists() or path in wanted):
            sums[path] = _sum(install)
    nodes = controller.sets.resolve(staging.nodes) if staging.nodes else evidence.nodes if chosen else ()
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
    evidence = look.evidence
    lines = (fields_of(line, 4) for line in look.lines("images.copies"))
    copies = {file: (path, sha256, state) for path, sha256, file, state in lines}
    for file, (path, sha256, state) in copies.items():
        if state == "wrong":
            yield say("damaged", file=file, sha256=sha256, entry=_entry(evidence, path))
    on_disk, is_asked = set(), look.nodes[0] in images.nodes
    for line in look.lines("images.mounted"):
        path, file = fields_of(line, 2)
        of, sha256, _ = copies.get(file, ("", "", ""))
        if of == path or not evidence.site.staging.quota:  # without a quota for copies, the share's image is wanted
            on_disk.add(path)
        install, right = _install(Prefix(evidence.site.prefix), path), images.sums.get(path)
        own = not right or sha256 == right if of == path else install is not None and file == str(install.image)
        if right is None or not own:
            yield say("other", path=path, file=file)
        elif is_asked and path not in images.wanted:
            yield say("more", path=path)
        elif not is_asked and (images.wanted or images.nodes):  # site.yaml says what is on all nodes
            yield say("more_here", path=path, entry=_entry(evidence, path))
    for path in images.wanted if is_asked and look.has(looked_key("images", "node")) else ():
        if images.sums.get(path) and path not in on_disk:
            yield say("not_staged", path=path)


def _entry(evidence: Evidence, path: str) -> str:
    """Return the entry whose install it is, for `envmgr stage`."""
    entries = {} if evidence.published is None else evidence.published.record.entries
    relative = path.removeprefix(f"{evidence.site.prefix}/")
    return next((name for name, each in sorted(entries.items()) if relative in each.paths), "--all")


CHECK = Check(judge=judge, probe=probe, ask_controller=ask_controller, wants=frozenset({"published"}))
