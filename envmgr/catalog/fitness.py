"""What a node is, what an entry needs of it, and why one cannot run the other."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import zip_longest

from pydantic import BaseModel, ConfigDict

from envmgr.catalog.recipe import Requires
from envmgr.catalog.target import CPU_ORDER


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
