"""`envmgr adopt`: propose a site.yaml for nodes, and list the modules they have. It changes nothing on them."""

from __future__ import annotations

import os
import re
import socket
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, ClassVar

from envmgr.audit.ask.gather import gather
from envmgr.audit.checks import get_check
from envmgr.audit.fit.matrix import observed
from envmgr.audit.inventory.facts import read_inventory
from envmgr.audit.model import Check, Evidence
from envmgr.audit.plan import AuditRequest
from envmgr.catalog.site_file import SiteFile
from envmgr.errors import EnvmgrError, InputError
from envmgr.exchange import FoundTree, trees_above
from envmgr.nodes.access import ask_slurm
from envmgr.nodes.sets import fold
from envmgr.nodes.slurm import slurm_here
from envmgr.report import Lines, Result, Table, Verbatim
from envmgr.steps import Context, other_modules
from envmgr.steps.audit import with_user
from envmgr.steps.other_modules import FoundModule, read_other_modules
from envmgr.system.files import atomic_write
from envmgr.system.yamlfile import dump_yaml
from envmgr.verbs import DryRun, NodesOption, OutputOption, ViaOption, needs, option
from envmgr.wording import counted

_CHECKS = ("nodes", "contexts", "inventory", "fitness")
_SHARED = re.compile(
    r"(nfs4?|cifs|smb3|fuse(blk|\..*)?|lustre|beegfs|gpfs|ceph|9p|afs|glusterfs|pvfs2|panfs|wekafs|virtiofs) "
)
_PLAIN = re.compile(r"[^a-z0-9]")


@dataclass(frozen=True, slots=True)
class Module:
    """A module on nodes. `entry` is the catalog's entry of the same software, empty if there is none. On the nodes in
    `missing` (folded) the user does not find its software, `root`.
    """

    name: str
    version: str
    folder: str
    made_by: str
    root: str
    nodes: str
    entry: str
    missing: str = ""

    @property
    def software(self) -> str:
        """Return where its software is, and where not, in words."""
        return f"{self.root} (not there on {self.missing})" if self.missing else self.root


@dataclass(frozen=True, slots=True)
class AdoptResult(Result):
    """The result of `adopt`. `text` is the proposed site file, `output` the file with it, None for none.

    The nodes in `silent` (folded) did not answer. `trees` are the install trees of the modules whose own records this
    host can read.
    """

    schema: ClassVar[str] = "envmgr.adopt/1"
    nodes: str
    silent: str
    text: str
    output: Path | None
    modules: tuple[Module, ...]
    cut: bool
    dry_run: bool = False
    trees: tuple[FoundTree, ...] = ()

    @property
    def exit_code(self) -> int:
        return 0 if self.nodes else 3

    def lines(self) -> Lines:
        if not self.nodes:
            yield "no node answered"
            return
        if self.modules:
            rows = [[m.name, m.version, m.made_by, m.nodes, m.entry, m.software] for m in self.modules]
            yield Table(rows, ["module", "version", "made by", "nodes", "in the catalog", "software"])
        else:
            yield "no modules were found there"
        for tree in self.trees:
            told = tree.why or f"{counted(tree.entries, 'installs')}; `envmgr import --from {tree.format} {tree.path}`"
            yield f"{tree.path}: {tree.format}: {told}"
        yield ""
        if self.output is not None and not self.dry_run:
            yield f"wrote {self.output}; `envmgr check --site {self.output}` looks at it"
        else:
            yield Verbatim(self.text)
            yield ""
            if self.output is not None:
                yield f"would write that to {self.output}"
            yield "`--output FILE` writes that"
        more = "; there are more: the look was cut off after its time" if self.cut else ""
        silent = f"; no answer from {self.silent}" if self.silent else ""
        yield f"{counted(len(self.modules), 'modules')} on {self.nodes}{more}{silent}; nothing was changed there"


@needs("nothing")
def adopt(
    ctx: Context,
    nodes: NodesOption = None,
    via: ViaOption = None,
    user: Annotated[str | None, option("Look at the modules of this ordinary user.", "NAME")] = None,
    name: Annotated[str, option("Name of the cluster.", "NAME")] = "cluster",
    output: OutputOption = None,
    dry_run: DryRun = False,
) -> AdoptResult:
    """Propose a site.yaml for a cluster.

    It looks at the nodes and lists their modules. For each module it shows what made it, and which entry of the catalog could replace it. It changes nothing on nodes.
    """
    if output is not None and output.exists():
        raise InputError("site-exists", f"{output} exists", hint="it is never overwritten: choose another file")
    try:
        lmod = ctx.find_lmod()
    except EnvmgrError:
        lmod = None
    checks: dict[str, Check] = {each: get_check(each) for each in _CHECKS}
    checks["other-modules"] = other_modules.CHECK
    site = with_user(ctx.site, user, ctx.environ)
    request = AuditRequest(nodes=nodes, via=via, drawn=False)
    evidence, _ = gather(request, checks, site, lmod, ctx.runner, ctx.reporter)
    found = tuple(_modules(evidence, _entries(ctx)))
    answered = evidence.fleet.nodes
    text = site_text(propose(ctx, evidence, name, found), f"the answers of {fold(answered)}") if answered else ""
    if output is not None and answered and not dry_run:
        atomic_write(output, text)
    return AdoptResult(
        nodes=fold(answered),
        silent=fold(reply.node for reply in evidence.fleet.missing),
        text=text,
        output=output if answered else None,
        modules=found,
        cut=any("other_modules.cut" in group.facts for group in evidence.fleet.groups),
        dry_run=dry_run,
        trees=trees_above([Path(module.root) for module in found if module.root], ctx.runner),
    )


def _entries(ctx: Context) -> dict[str, list[str]]:
    """Return the name in plain letters -> the catalog's entries of that software."""
    found: dict[str, list[str]] = {}
    for each in ctx.catalog.entries():
        found.setdefault(_PLAIN.sub("", each.entry.name.lower()), []).append(str(each.entry))
    return found


def _modules(evidence: Evidence, entries: Mapping[str, Sequence[str]]) -> Iterator[Module]:
    nodes: dict[FoundModule, list[str]] = {}
    missing: dict[FoundModule, list[str]] = {}
    for group in evidence.shells.groups:
        for found in read_other_modules(group.facts):
            module = replace(found, gone=False)
            nodes.setdefault(module, []).extend(group.nodes)
            missing.setdefault(module, []).extend(group.nodes if found.gone else ())
    for module, of in sorted(nodes.items()):
        name, _, version = module.name.rpartition("/")
        name = name or module.name
        version = version if name != module.name else ""
        word = name.rpartition("/")[2].lower()
        ours = entries.get(_PLAIN.sub("", word.removesuffix("3"))) or entries.get(_PLAIN.sub("", word), ())
        entry, gone = _nearest(version, ours), fold(missing[module])
        yield Module(name, version, module.folder, module.made_by, module.root, fold(of), entry, gone)


def _nearest(version: str, entries: Sequence[str]) -> str:
    """Return the entry that shares the longest beginning with the version; empty without entries."""

    def common(entry: str) -> int:
        return len(os.path.commonprefix([entry.partition("/")[2], version]))  # noqa: RUF071 - of characters

    return max(entries, key=common, default="")


def propose(ctx: Context, evidence: Evidence, name: str, modules: Iterable[Module]) -> dict[str, Any]:
    """Return valid fields of a site file, as `site.yaml` has them."""
    transport = ctx.site.transport
    fields: dict[str, Any] = {"schema": 1, "name": name, "prefix": _prefix(evidence, modules)}
    here = socket.gethostname().partition(".")[0]
    if here not in evidence.nodes:
        fields["login_nodes"] = here
    fields["groups"] = _groups(ctx, evidence)
    fields["transport"] = {"via": "both" if transport.via == "both" else next(iter(evidence.ways))}
    if transport.user is not None:
        fields["transport"]["user"] = transport.user
    fields["audit"] = {"user": evidence.plan.user}
    if any("ctx.zsh.user.modulepath" in group.facts for group in evidence.fleet.groups):
        fields["audit"]["shells"] = ["zsh"]
    # A proposal that envmgr itself would refuse must fail here, not at the user's next command.
    SiteFile.model_validate(fields)
    return fields


def site_text(fields: Mapping[str, Any], source: str) -> str:
    date = time.strftime("%Y-%m-%d", time.gmtime())
    head = [
        f"# By `envmgr adopt` on {date}, from {source}. docs/site.md explains each field.",
        "# Nothing is in the prefix before the first `envmgr build`. It must be shared, at one path on all nodes.",
    ]
    return "\n".join(head) + "\n" + dump_yaml(dict(fields), width=120)


def _prefix(evidence: Evidence, modules: Iterable[Module]) -> str:
    """Return a prefix next to the modules, on a network file system that all nodes have; else the usual folder."""
    counts: Counter[str] = Counter()
    for group in evidence.fleet.groups:
        mounted = read_inventory(group.facts).values.items()
        points = [point for (kind, point), value in mounted if kind == "mount" and _SHARED.match(value)]
        counts.update(dict.fromkeys(points, len(group.nodes)))
    used = [path for module in modules for path in (module.folder, module.root)]
    everywhere = sorted(point for point, count in counts.items() if count >= len(evidence.fleet.nodes))
    near = [point for point in everywhere if any(path.startswith(f"{point}/") for path in used)]
    return f"{near[0]}/envmgr" if near else "/opt/envmgr"


def _groups(ctx: Context, evidence: Evidence) -> dict[str, dict[str, str]]:
    """Return a group for each kind of hardware: a Slurm partition, if one has exactly these nodes."""
    kinds: dict[tuple[str, str], list[str]] = {}
    for facts, nodes in observed(evidence).items():
        kind = (facts.cpu_level, ",".join(sorted(gpu.name for gpu in facts.gpus)))
        kinds.setdefault(kind, []).extend(nodes)
    if not kinds:
        kinds[("", "")] = list(evidence.fleet.nodes)
    partitions = ask_slurm(ctx.runner).partitions if slurm_here() else {}
    groups: dict[str, dict[str, str]] = {}
    for kind, members in sorted(kinds.items(), key=lambda pair: (bool(pair[0][1]), pair[0])):
        base = "gpu" if kind[1] else "compute"
        label = next(each for each in (base, *(f"{base}{n}" for n in range(2, 1000))) if each not in groups)
        partition = next((p for p, of in sorted(partitions.items()) if of == frozenset(members)), None)
        groups[label] = {"slurm": partition} if partition is not None else {"nodes": fold(members)}
    return groups
