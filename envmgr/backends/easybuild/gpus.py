"""For which GPUs a closure is compiled: what holds now, what a lock answers, what is refused, and what `site check` says."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from envmgr.backends import GpuCodes
from envmgr.backends.easybuild.capabilities import AMD, CUDA, EXAMPLES, FIELDS, SETTINGS, VENDORS, Setting, said_by
from envmgr.backends.easybuild.input import EasyBuildInput
from envmgr.backends.easybuild.lock import EasyBuildLock
from envmgr.backends.easybuild.settings import easybuild_settings
from envmgr.catalog.gpu_codes import covers, parse_code
from envmgr.catalog.settings import SiteFact, quoted, site_line
from envmgr.catalog.site import Site
from envmgr.errors import EnvmgrError, InputError
from envmgr.nodes import fold
from envmgr.store.node_facts import read_node_facts
from envmgr.store.prefix import Prefix

_TOOLKITS = frozenset({"CUDA", "CUDAcore", "ROCm", "ROCm-LLVM", "rocm-compilers", "HIP", "hipcc"})
_MOST = 8  # easyconfigs that are named
_OF = {CUDA: "NVIDIA", AMD: "AMD"}


def said_now(wanted: EasyBuildInput, site: Site) -> dict[Setting, tuple[str, ...]]:
    """What holds for a recipe: its own values, else the site's."""
    return said_by(wanted, easybuild_settings(site))


def differing_from_now(lock: EasyBuildLock, wanted: EasyBuildInput, site: Site) -> list[str]:
    """Where a lock answers other values than those that hold now, and has an item that asks for them; or was made before anybody looked
    for what asks.
    """
    asked, locked, now = {s for item in lock.items for s in item.asks}, said_by(lock), said_now(wanted, site)
    if not_looked_at(lock) and any(now.values()):
        said = "; ".join(f"{setting} is {', '.join(values)}" for setting, values in now.items() if values)
        return [f"it was locked before envmgr looked for what asks for GPUs, and {said}"]
    return [
        f"{'input.' + setting if getattr(wanted, setting) else FIELDS[setting]} says "
        f"{', '.join(now[setting]) or 'nothing'}, the lock {', '.join(locked[setting]) or 'nothing'}"
        for setting in SETTINGS
        if setting in asked and now[setting] != locked[setting]
    ]


def not_looked_at(lock: EasyBuildLock) -> bool:
    """Whether a lock with software for GPUs is of an envmgr that did not look for what asks for them."""
    return not lock.gpus_seen and for_gpus(item.name for item in lock.items)


def for_gpus(names: Iterable[str]) -> bool:
    """Whether a closure has a toolkit for GPUs, and something besides that may be compiled with it."""
    there = set(names)
    return bool(there & _TOOLKITS) and bool(there - _TOOLKITS)


def to_keep(lock: EasyBuildLock) -> str:
    """What the recipe would have to say for the lock to hold as it is; empty where it has no values."""
    locked = said_by(lock)
    return ", ".join(f"`{setting}: {quoted(locked[setting])}`" for setting in SETTINGS if locked[setting])


def refused(easyconfig: str, looks: Sequence[Mapping[str, Any]], said: Mapping[Setting, Sequence[str]]) -> InputError:
    """Why a closure cannot be built: `template-unresolved`, `capabilities-missing`, `capabilities-too-many`.

    `looks` are EasyBuild's on the easyconfigs at fault: see `inside/asking.py`.
    """
    if wrong := [f"{look['easyconfig']}: {p} has {t}" for look in looks for t, p in look["unresolved"].items()]:
        return InputError(
            "template-unresolved",
            f"{easyconfig} needs templates that EasyBuild does not know, and would fail in the build",
            context=_first(wrong),
            hint="correct the easyconfig: a name that EasyBuild has, %% for a % that is no template, or the dependency that "
            "the template tells the version of",
        )
    for setting in SETTINGS:
        if few := [f"{look['easyconfig']}: {why}" for look in looks if (why := look["lacks"].get(setting))]:
            return InputError(
                "capabilities-missing",
                f"{easyconfig} needs {setting}, which neither site.yaml nor the recipe says",
                context=_first(few),
                hint=f"say in site.yaml for which {_OF[setting]} GPUs software is compiled, such as "
                f"{site_line(FIELDS[setting], EXAMPLES[setting])} (`envmgr site check` proposes it for those that an audit saw), "
                f"or under `input` of the recipe `{setting}: {EXAMPLES[setting]}`",
            )
    setting = next(setting for setting in SETTINGS for look in looks if setting in look["only_one"])
    many = [f"{look['easyconfig']}: {why}" for look in looks if (why := look["only_one"].get(setting))]
    return InputError(
        "capabilities-too-many",
        f"{easyconfig} is built for one value of {setting}, not for {', '.join(said[setting])}",
        context=_first(many),
        hint=f"choose one under `input` of the recipe, such as `{setting}: {quoted(said[setting][-1:])}`: for all that is below it, too",
    )


def unread(version: str, settings: Sequence[str], said: str) -> InputError:
    """An earlier EasyBuild does not know all values: `9.0a`, `10.0f`."""
    return InputError(
        "capabilities-unread",
        f"EasyBuild {version} does not take the values of {', '.join(settings)}, which this closure asks for",
        context=said.splitlines()[:6],
        hint="say others in the recipe's `input`, or lock with a later EasyBuild (`input.easybuild`)",
    )


def _first(lines: Sequence[str]) -> list[str]:
    more = len(lines) - _MOST
    return [*lines[:_MOST], *([f"and {more} more"] if more > 0 else [])]


def compiled_for(site: Site) -> list[GpuCodes]:
    """For which GPUs the site has software compiled."""
    said = said_by(easybuild_settings(site))
    return [GpuCodes(FIELDS[setting], VENDORS[setting], said[setting]) for setting in SETTINGS if said[setting]]


def explain_gpus(site: Site) -> Iterator[SiteFact]:
    """What is said, and what the GPUs that the last audits saw would need: only proposed."""
    said, seen = said_by(easybuild_settings(site)), _seen(site)
    for setting in SETTINGS:
        field, values, vendor = FIELDS[setting], said[setting], VENDORS[setting]
        found = {arch: nodes for (of, arch), nodes in seen.items() if of == vendor}
        if not values:
            if found:
                line = site_line(field, quoted(_ordered(vendor, found)))
                text = f"not set: what needs it is not locked; the last audits saw {_told(vendor, found)}"
                yield SiteFact(field, "ok", text, f"for these GPUs, {line}")
            continue
        yield SiteFact(field, "ok", f"{', '.join(values)}: what asks for it is compiled for these {_OF[setting]} GPUs")
        outside = {arch: nodes for arch, nodes in found.items() if covers(vendor, values, arch) is False}
        if outside:
            line = site_line(field, quoted(_ordered(vendor, [*values, *outside])))
            yield SiteFact(field, "warning", f"no code for {_told(vendor, outside)}, seen by the last audits", line)


def _seen(site: Site) -> dict[tuple[str, str], set[str]]:
    """(vendor, capability or architecture) -> nodes, where it is known."""
    found: dict[tuple[str, str], set[str]] = {}
    with suppress(EnvmgrError):  # damaged: the next audit writes it anew
        fleet = read_node_facts(Prefix(site.prefix))
        for node, facts in (fleet.by_node() if fleet else {}).items():
            for gpu in facts.gpus:
                if gpu.arch:
                    found.setdefault((gpu.vendor, gpu.arch), set()).add(node)
    return found


def _ordered(vendor: str, archs: Sequence[str] | Mapping[str, object]) -> list[str]:
    if vendor == "nvidia":
        return [str(code) for code in sorted({parse_code(arch) for arch in archs})]
    return sorted(set(archs))


def _told(vendor: str, found: Mapping[str, set[str]]) -> str:
    return ", ".join(f"{arch} on {fold(found[arch])}" for arch in _ordered(vendor, found))
