"""What a node is, what an entry needs of it, and why one cannot run the other. Also the file with what the last audits saw."""

from __future__ import annotations

import os
import pwd
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from envmgr.apart import run_apart
from envmgr.errors import EnvmgrError
from envmgr.files import pretty_json
from envmgr.recipe import Requires
from envmgr.site import Site
from envmgr.store import Prefix
from envmgr.target import CPU_ORDER

_SECONDS = 20.0  # that the prefix may take to read and write one small file


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class NodeFacts(_Model):
    """What decides which entries run on a node; empty for what is not known, or not there.

    `gpus` are (name, compute capability), one pair a GPU, sorted; `devices` counts NVIDIA GPUs on the PCI bus, with or
    without a driver. `cpu_level` is x86-64 to x86-64-v4, or aarch64.
    """

    driver: str = ""
    gpus: tuple[tuple[str, str], ...] = ()
    devices: int = 0
    glibc: str = ""
    arch: str = ""
    cpu_level: str = ""
    os_id: str = ""
    os_version: str = ""


def unfit(requires: Requires, facts: NodeFacts) -> tuple[str, ...]:
    """Why a node cannot run what requires this; empty when it can. What is not known of a node is not held against it.

    A node without driver and without GPU is fit: what needs a GPU runs there as far as it runs without one, and the
    module loads there without a word (modulefiles/driver_gate.lua). `without_gpu` tells it apart.
    """
    reasons = [_driver(requires, facts), _capability(requires, facts)]
    if requires.glibc and facts.glibc and older(facts.glibc, requires.glibc):
        reasons.append(f"glibc {facts.glibc} is older than {requires.glibc}")
    reasons.append(_cpu(requires, facts))
    return tuple(reason for reason in reasons if reason)


def without_gpu(requires: Requires, facts: NodeFacts) -> bool:
    """Whether the entry needs a GPU, and the node has none to speak of."""
    return bool(requires.nvidia_driver or requires.compute_capability) and not facts.driver


def older(a: str, b: str) -> bool:
    """Whether version `a` is older than `b`: by number, component by component; a missing one counts as 0."""
    pairs = zip_longest(numbers(a), numbers(b), fillvalue=0)
    return next((x < y for x, y in pairs if x != y), False)


def numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".") if part.isdecimal())


def _driver(requires: Requires, facts: NodeFacts) -> str:
    """`nvidia_driver` is a minimum by NVIDIA's minor-version rule already: see cuda.py."""
    if requires.nvidia_driver is None:
        return ""
    if not facts.driver:
        return "no NVIDIA driver is loaded for its GPU" if facts.devices else ""
    if older(facts.driver, requires.nvidia_driver):
        return f"driver {facts.driver} is older than {requires.nvidia_driver}"
    return ""


def _capability(requires: Requires, facts: NodeFacts) -> str:
    """One GPU that can run it is enough.

    Code for capability X.y runs on X.z with z >= y, and on no other X. Code that the driver compiles (PTX) counts where the
    recipe lists the capability that it is compiled for. Source: NVIDIA, CUDA C++ Programming Guide, "Binary Compatibility".
    """
    wanted = [_capability_pair(value) for value in requires.compute_capability]
    known = sorted({capability for _, capability in facts.gpus}, key=_capability_pair)
    if not wanted or not known or not all(known):
        return ""
    if any(_runs(code, _capability_pair(gpu)) for code in wanted for gpu in known):
        return ""
    return f"compute capability {' and '.join(known)}: it has code for {', '.join(requires.compute_capability)}"


def _runs(code: tuple[int, int], gpu: tuple[int, int]) -> bool:
    return code[0] == gpu[0] and code[1] <= gpu[1]


def _capability_pair(text: str) -> tuple[int, int]:
    major, _, minor = text.partition(".")
    return (int(major) if major.isdecimal() else 0, int(minor) if minor.isdecimal() else 0)


def _cpu(requires: Requires, facts: NodeFacts) -> str:
    wanted = requires.cpu_level
    if wanted is None or not facts.cpu_level or wanted == facts.cpu_level:
        return ""
    if wanted not in CPU_ORDER or facts.cpu_level not in CPU_ORDER:
        return f"CPU is {facts.cpu_level}, not {wanted}"
    if CPU_ORDER[facts.cpu_level] < CPU_ORDER[wanted]:
        return f"CPU level {facts.cpu_level} is below {wanted}"
    return ""


def level_flags() -> dict[str, frozenset[str]]:
    """x86-64 level -> the flags of /proc/cpuinfo that it needs, lowest level first.

    Source: archspec's x86_64_v2, v3 and v4, which are the psABI's levels in the kernel's words, for Intel and AMD alike.
    """
    from archspec.cpu import TARGETS

    names = {level: level.replace("-", "_") for level in CPU_ORDER}
    return {level: frozenset(map(str, TARGETS[name].features)) for level, name in names.items()}


def cpu_level(arch: str, flags: Iterable[str]) -> str:
    """The highest level whose flags are all there; `flags` are /proc/cpuinfo's. Empty for other architectures."""
    if arch != "x86_64":
        return "aarch64" if arch == "aarch64" else ""
    given = set(flags)
    if given & {"pni", "ssse3"}:  # the kernel's word for SSE3
        given.add("sse3")
    fitting = [level for level, needed in level_flags().items() if needed <= given]
    return fitting[-1] if fitting else ""


# -- what the last audits saw ------------------------------------------------------------------------------------------


class Seen(_Model):
    """Nodes with the same facts; `time` is when the audit saw them, seconds since the epoch."""

    nodes: tuple[str, ...]
    time: float
    facts: NodeFacts


class FleetFacts(_Model):
    """`<prefix>/var/audit/nodes.json`: `groups` of the site -> nodes, and every node that an audit has seen."""

    schema_version: Literal[1] = Field(default=1, alias="schema")
    groups: dict[str, tuple[str, ...]] = {}
    seen: tuple[Seen, ...] = ()

    def by_node(self) -> dict[str, NodeFacts]:
        return {node: seen.facts for seen in self.seen for node in seen.nodes}


def facts_file(prefix: Prefix) -> Path:
    return prefix.root / "var" / "audit" / "nodes.json"


def read_node_facts(prefix: Prefix) -> FleetFacts | None:
    """None before the first audit. Only for a prefix that was seen to answer. Raises EnvmgrError `node-facts-damaged`."""
    path = facts_file(prefix)
    try:
        return FleetFacts.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise EnvmgrError(
            "node-facts-damaged", f"{path} cannot be read", context=str(error).splitlines()[:3],
            hint="`envmgr audit` writes it anew",
        ) from None  # fmt: skip


# Reads the old file, or writes the new one: all that touches the prefix, in one process that can be left behind.
_READ = 'if [ -e "$1/nodes.json" ]; then exec cat "$1/nodes.json"; fi'
_WRITE = """\
umask "$2"
mkdir -p "$1" || exit 1
find "$1" -name ".nodes.json.*.tmp" -mmin +60 -exec rm -f {} + 2>/dev/null
new="$1/.nodes.json.$(uname -n).$$.tmp"
{ cat >"$new" && sync "$new" && mv -f "$new" "$1/nodes.json"; } || { rm -f "$new"; exit 1; }
"""


def save_node_facts(
    site: Site,
    observed: Mapping[NodeFacts, Sequence[str]],
    groups: Mapping[str, Sequence[str]],
    now: float,
    *,
    seconds: float = _SECONDS,
    check: Callable[[], None] = lambda: None,
) -> str:
    """Write what an audit saw into the prefix, as the build user when we are root; returns why it could not be, or "".

    Nodes that were not seen this time keep what was known, unless they are in no group any more. Never raises, and
    ends within `seconds` (at most 20), whatever the prefix does; `check` is called in between and may raise.
    """
    become = _become(site.build_user)
    if isinstance(become, str):
        return become
    folder = str(facts_file(Prefix(site.prefix)).parent)
    seconds = min(seconds, _SECONDS)
    end = time.monotonic() + seconds
    before = run_apart([*become, "/bin/sh", "-c", _READ, "sh", folder], seconds=seconds, check=check)
    if before.returncode is None:
        return f"{site.prefix} does not answer"
    merged = merge(_parse(before.output), observed, groups, now)
    text = pretty_json(merged.model_dump(mode="json", by_alias=True))
    argv = [*become, "/bin/sh", "-c", _WRITE, "sh", folder, site.policies.umask]
    done = run_apart(argv, seconds=end - time.monotonic(), stdin=text, check=check)
    if done.returncode is None:
        return f"{site.prefix} does not answer"
    said = [line.strip() for line in done.error.splitlines() if line.strip()]
    return "" if done.returncode == 0 else (said or [f"exit status {done.returncode}"])[0]


def merge(
    before: FleetFacts | None,
    observed: Mapping[NodeFacts, Sequence[str]],
    groups: Mapping[str, Sequence[str]],
    now: float,
) -> FleetFacts:
    """What is known now: new facts over old ones."""
    new = {node for nodes in observed.values() for node in nodes}
    grouped = {node for nodes in groups.values() for node in nodes}
    rows = [
        Seen(nodes=tuple(sorted(nodes)), time=round(now, 3), facts=facts) for facts, nodes in observed.items() if nodes
    ]
    for old in before.seen if before else ():
        kept = tuple(n for n in old.nodes if n not in new and (not groups or n in grouped))
        if kept:
            rows.append(old.model_copy(update={"nodes": kept}))
    rows.sort(key=lambda row: (row.nodes, row.time))
    return FleetFacts(groups={name: tuple(nodes) for name, nodes in sorted(groups.items())}, seen=tuple(rows))


def _parse(text: str) -> FleetFacts | None:
    """None for what is not there or damaged: the new file replaces it."""
    try:
        return FleetFacts.model_validate_json(text) if text.strip() else None
    except ValueError:
        return None


def _become(user: str | None) -> list[str] | str:
    """What to put before a command so that the build user runs it, or why that cannot be."""
    if user is None or os.geteuid() != 0:
        return []
    try:
        account = pwd.getpwnam(user)
    except KeyError:
        return f"the build user `{user}` does not exist here"
    return ["setpriv", "--reuid", str(account.pw_uid), "--regid", str(account.pw_gid), "--init-groups"]
