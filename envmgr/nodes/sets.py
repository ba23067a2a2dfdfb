"""Node sets: ClusterShell's syntax, with groups from site.yaml, Slurm, Ansible and ClusterShell."""

from __future__ import annotations

import json
import os
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from configparser import Error as ConfigParserError
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from envmgr.catalog.names import nearest
from envmgr.catalog.site import Site
from envmgr.catalog.site_file import NodeGroup
from envmgr.errors import CommandError, EnvmgrError, InputError
from envmgr.nodes import tool, tool_env
from envmgr.system.run import Runner

MOST_NODES = 100_000  # more is a slip of the pen


def refuse_huge(expression: str) -> None:
    """Refuse a huge set before ClusterShell lists its nodes: `c[1-9999999999]` would fill the memory."""
    for operand in re.findall(r"(?:[^\[\],!&^]|\[[^\]]*\])+", expression):
        count = 1
        for inside in re.findall(r"\[([^\]]*)\]", operand):
            ranges = re.findall(r"(\d+)(?:-(\d+)(?:/(\d+))?)?", inside)
            count *= sum(1 + max(0, int(b or a) - int(a)) // max(1, int(step or 1)) for a, b, step in ranges)
        if count > MOST_NODES:
            raise too_many(expression, count)


def too_many(expression: str, count: int) -> InputError:
    return InputError(
        "bad-node-set", f"`{expression}` names {count:,} nodes", context=f"at most {MOST_NODES:,} are asked"
    )


class Groups(ABC):
    """The methods that ClusterShell calls of a group source."""

    name = ""
    what = ""
    has_reverse = False

    @abstractmethod
    def groups(self) -> Mapping[str, str]:
        """Return name -> node set."""

    def resolv_map(self, group: str) -> str:
        groups = self.groups()
        if group not in groups:
            close = nearest(group, groups) or sorted(groups)[:5]
            said = ", ".join(f"`@{self._prefix}{name}`" for name in close)
            raise InputError(
                "unknown-node-group",
                f"there is no {self.what} `{group}`",
                hint=f"there is {said}" if said else f"there is no {self.what} at all",
            )
        refuse_huge(groups[group])
        return groups[group]

    def resolv_list(self) -> list[str]:
        return list(self.groups())

    def resolv_all(self) -> str:
        return ",".join(nodes for nodes in self.groups().values() if nodes)

    def resolv_reverse(self, _node: str) -> str:
        return ""

    @property
    def _prefix(self) -> str:
        return f"{self.name}:"


class SiteGroups(Groups):
    """The `groups:` of site.yaml; a group by Slurm or Ansible is a set of the other sources."""

    name = "site"
    what = "group in site.yaml"

    def __init__(self, groups: Mapping[str, NodeGroup]) -> None:
        self._groups = {name: _as_set(group) for name, group in groups.items()}

    def groups(self) -> Mapping[str, str]:
        return self._groups

    @property
    def _prefix(self) -> str:
        return ""


def _as_set(group: NodeGroup) -> str:
    if group.slurm is not None:
        return f"@slurm:{group.slurm}"
    if group.ansible is not None:
        return f"@ansible:{group.ansible}"
    return group.nodes or ""


class Partitions(Groups):
    """Slurm's partitions, by one `sinfo` when the first is asked for."""

    name = "slurm"
    what = "Slurm partition"

    def __init__(self, runner: Runner, seconds: float) -> None:
        self._runner = runner
        self._seconds = seconds
        self._found: dict[str, str] | None = None

    def groups(self) -> Mapping[str, str]:
        if self._found is None:
            with _unreadable("sinfo", "install Slurm's client commands here, or name the nodes"):
                argv = [tool("sinfo"), "-h", "-o", "%R|%N"]
                lines = self._runner.run(argv, env=tool_env(), timeout=self._seconds).stdout.splitlines()
            found: dict[str, list[str]] = {}
            for line in lines:
                partition, _, nodes = line.strip().partition("|")
                found.setdefault(partition, []).extend([nodes] if nodes else [])
            self._found = {name: ",".join(nodes) for name, nodes in found.items()}
        return self._found


class Inventory(Groups):
    """An Ansible inventory's groups with their children, by one `ansible-inventory --list`: Ansible reads it, not we.

    It runs in the site file's `folder`: an `ansible.cfg` of the folder it runs in names programs.
    """

    name = "ansible"
    what = "group in the Ansible inventory"

    def __init__(self, inventory: Path | None, folder: Path, runner: Runner, seconds: float) -> None:
        self._inventory = inventory
        self._folder = folder
        self._runner = runner
        self._seconds = seconds
        self._found: dict[str, str] | None = None

    def groups(self) -> Mapping[str, str]:
        if self._found is None:
            where = [] if self._inventory is None else ["-i", str(self._inventory)]
            ansible = {k: v for k, v in os.environ.items() if k.startswith("ANSIBLE_")}
            if named := ansible.get("ANSIBLE_INVENTORY"):  # the user gave it in another folder
                ansible["ANSIBLE_INVENTORY"] = ",".join(
                    str(Path(each).resolve()) if Path(each).exists() else each for each in named.split(",")
                )
            # an inventory that cannot be read is else a warning, and no hosts
            env = tool_env() | ansible | {"ANSIBLE_INVENTORY_UNPARSED_FAILED": "1", "ANSIBLE_NOCOLOR": "1"}
            with _unreadable("ansible-inventory", "pip install 'envmgr[ansible]', or name the nodes"):
                argv = [tool("ansible-inventory"), "--list", *where]
                done = self._runner.run(argv, env=env, cwd=self._folder, timeout=self._seconds)
                self._found = _hosts_by_group(json.loads(done.stdout))
        return self._found


class ClusterShellGroups(Groups):
    """The groups of ClusterShell's default source, as `clush -g NAME` takes them, from its own groups.conf."""

    name = "clustershell"
    what = "group of ClusterShell's groups.conf"

    def resolv_map(self, group: str) -> str:
        """Ask for the group itself: a source that maps groups need not list them."""
        with _readable_groups() as resolver:
            nodes = ",".join(resolver.group_nodes(group))
        if not nodes:
            return super().resolv_map(group)
        refuse_huge(nodes)
        return nodes

    def groups(self) -> Mapping[str, str]:
        from ClusterShell.NodeUtils import GroupSourceNoUpcall

        with _readable_groups() as resolver:
            try:
                names = resolver.grouplist()
            except GroupSourceNoUpcall:
                return {}
            return {name: ",".join(resolver.group_nodes(name)) for name in names}


@contextmanager
def _readable_groups() -> Iterator[Any]:
    """Yield ClusterShell's own resolver. Raises EnvmgrError `groups-unreadable`."""
    from ClusterShell.Defaults import config_paths
    from ClusterShell.NodeUtils import GroupResolverConfig, GroupResolverError, GroupSourceError

    try:
        yield GroupResolverConfig(config_paths("groups.conf"))
    except (GroupResolverError, GroupSourceError, ConfigParserError, OSError, ValueError) as error:
        raise EnvmgrError(
            "groups-unreadable",
            "ClusterShell's groups.conf does not say which nodes there are",
            context=str(error).splitlines(),
            hint="`nodeset -LL` shows what ClusterShell makes of it",
        ) from None


def _hosts_by_group(listing: Any) -> dict[str, str]:
    """Return group -> node set, from the output of `ansible-inventory --list`.

    Source: Ansible, "Developing dynamic inventory".
    """
    groups: dict[str, Any] = {name: data for name, data in listing.items() if name != "_meta"}

    def hosts(name: str, above: frozenset[str]) -> list[str]:
        data = groups.get(name, {})
        found = list(data.get("hosts", ()))
        for child in data.get("children", ()):
            # A group that contains itself would never end.
            if child not in above:
                found += hosts(child, above | {child})
        return found

    children = {child for data in groups.values() for child in data.get("children", ())}
    return {name: ",".join(dict.fromkeys(hosts(name, frozenset({name})))) for name in sorted(groups.keys() | children)}


@contextmanager
def _unreadable(command: str, hint: str) -> Iterator[None]:
    words = f"`{command}` does not say which nodes there are"
    try:
        yield
    except CommandError as error:
        raise EnvmgrError("groups-unreadable", words, context=[error.message, *error.context]) from None
    except (ValueError, AttributeError, TypeError) as error:
        raise EnvmgrError("groups-unreadable", words, context=f"its output: {error}") from None
    except EnvmgrError as error:
        if error.reference != "command-missing":
            raise
        raise EnvmgrError("groups-unreadable", f"`{command}` is not installed here", hint=hint) from None


_LISTING = 60.0  # seconds that sinfo or ansible-inventory may take
# A node's name becomes a word of ssh's and srun's command line: nothing that begins with `-`, nothing of a shell.
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:-]{0,253}")


class NodeSets:
    """Node sets of one site; Slurm and Ansible are asked once each, when first needed, for `seconds` at most."""

    def __init__(self, site: Site, runner: Runner, seconds: float = _LISTING) -> None:
        self._site = site
        self._resolver = _resolver(site, runner, min(seconds, _LISTING))

    def resolve(self, expression: str | None) -> tuple[str, ...]:
        """Return the nodes that `expression` names, each once, in natural order; None: all nodes of the site's groups.

        ClusterShell's syntax with its algebra: `c[1-3]`, `@gpu!c2`, `c[1-10]&@gpu`, `c*`. `@NAME` is a group of
        site.yaml. `@slurm:PARTITION`, `@ansible:GROUP` and `@clustershell:GROUP` are asked for where they are named;
        `@slurm:*` is all that Slurm knows.

        Raises:
            InputError: `bad-node-set`, `unknown-node-group`, `no-nodes`.
            EnvmgrError: `groups-unreadable` when sinfo or ansible-inventory is missing or fails.
        """
        site = self._site
        if expression is None and not site.groups:
            raise InputError(
                "no-nodes",
                "no nodes are named, and the site has no groups",
                context=str(site.source) if site.source else "the embedded site",
                hint="name them: `--nodes 'c[1-3]'`, `--nodes '@slurm:*'` for all that Slurm knows, or "
                "`groups:` in site.yaml",
            )
        nodes = _parse("@*" if expression is None else expression, self._resolver)
        if not nodes:
            raise InputError("no-nodes", f"`{expression or 'groups:'}` names no nodes")
        return nodes

    def groups(self) -> dict[str, tuple[str, ...]]:
        """Return each group of site.yaml with its nodes. Raises as `resolve`."""
        return {name: _parse(f"@{name}", self._resolver) for name in self._site.groups}


def resolve_nodes(expression: str | None, site: Site, runner: Runner) -> tuple[str, ...]:
    """Resolve one expression, as `NodeSets.resolve` does."""
    return NodeSets(site, runner).resolve(expression)


def fold(nodes: Iterable[str]) -> str:
    """Return `c[1-2,7]` for c1, c2, c7: for people, and for other tools' command lines."""
    from ClusterShell.NodeSet import RESOLVER_NOGROUP, NodeSet

    folded = NodeSet.fromlist(list(nodes), resolver=RESOLVER_NOGROUP)
    folded.fold_axis = None  # whatever defaults.conf says
    return str(folded)


def expand(folded: str) -> tuple[str, ...]:
    """Return the nodes of what `fold` gave, in natural order; groups are not resolved, and their sources not asked."""
    from ClusterShell.NodeSet import RESOLVER_NOGROUP, NodeSet

    return tuple(str(node) for node in NodeSet(folded, resolver=RESOLVER_NOGROUP))


def read_folded(text: str) -> tuple[str, ...]:
    """Expand a text from any source. Raises InputError `bad-node-set`."""
    from ClusterShell.NodeSet import RESOLVER_NOGROUP

    return _parse(text, RESOLVER_NOGROUP)


def require_node_names(nodes: Iterable[str]) -> None:
    """Raise InputError `bad-node-set` for a name that no node can have, before it reaches a command line."""
    for node in nodes:
        if not _NAME.fullmatch(node):
            raise InputError("bad-node-set", f"`{node}` cannot be the name of a node")


def _parse(expression: str, resolver: Any) -> tuple[str, ...]:
    from ClusterShell.NodeSet import NodeSet, NodeSetException
    from ClusterShell.NodeUtils import GroupResolverError

    refuse_huge(expression)
    try:
        found = NodeSet(expression, resolver=resolver)
        # Counted before names are listed: the names of a huge set would fill the memory.
        count = len(found)
    except GroupResolverError as error:
        raise _unknown_source(str(error)) from None
    except (NodeSetException, ValueError, OverflowError, MemoryError) as error:
        words = str(error) or type(error).__name__
        if "recursion" in words:
            raise InputError("bad-node-set", f"`{expression}`: a group contains itself") from None
        raise InputError(
            "bad-node-set",
            f"`{expression}` is not a node set",
            context=words,
            hint="ClusterShell's syntax: `c[1-3,7]`, `@GROUP`, `@gpu!c2`, `@slurm:PARTITION`",
        ) from None
    if count > MOST_NODES:
        raise too_many(expression, count)
    nodes = tuple(str(node) for node in found)
    require_node_names(nodes)
    return nodes


def _unknown_source(name: str) -> InputError:
    return InputError(
        "unknown-node-group",
        f"`@{name}:` is not a source of node groups",
        hint="`@GROUP` of site.yaml, `@slurm:PARTITION`, `@ansible:GROUP`, `@clustershell:GROUP`",
    )


def _resolver(site: Site, runner: Runner, seconds: float) -> Any:
    """Return the resolver of groups. Without a site.yaml, `@NAME` is a group of ClusterShell's own files."""
    from ClusterShell.NodeUtils import GroupResolver

    if site.source is not None or site.groups:
        resolver = GroupResolver(default_source=SiteGroups(site.groups))
        resolver.add_source(ClusterShellGroups())
    else:
        resolver = GroupResolver(default_source=ClusterShellGroups())
    resolver.add_source(Partitions(runner, seconds))
    folder = site.source.parent if site.source is not None else Path("/")
    resolver.add_source(Inventory(site.transport.inventory, folder, runner, seconds))
    return resolver
