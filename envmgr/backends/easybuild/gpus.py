"""The GPUs that a closure is compiled for: errors of one that cannot be, and the faults of `check`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress

from envmgr.backends.easybuild.settings import (
    AMD,
    CUDA,
    EXAMPLES,
    FIELDS,
    SETTINGS,
    VENDORS,
    easybuild_settings,
    said_by,
)
from envmgr.catalog.gpus import covers, parse_code
from envmgr.catalog.settings import SiteFact, quoted, site_line
from envmgr.catalog.site import Site
from envmgr.errors import EnvmgrError, InputError
from envmgr.nodes.sets import fold
from envmgr.store.node_facts import read_node_facts
from envmgr.store.prefix import Prefix
from envmgr.wording import shortened

_MOST = 8  # easyconfigs that are named
_MAKERS = {CUDA: "NVIDIA", AMD: "AMD"}


def capabilities_missing(easyconfig: str, lacks: Sequence[Sequence[str]]) -> InputError:
    """Return the error of a closure with templates that nothing gives a value; `lacks` has each easyconfig with its
    settings.
    """
    setting = next(setting for setting in SETTINGS for _, *settings in lacks if setting in settings)
    example = EXAMPLES[setting]
    return InputError(
        "capabilities-missing",
        f"{easyconfig} needs {setting}, which neither site.yaml nor the recipe says",
        context=shortened([f"{name} has a template of it" for name, *settings in lacks if setting in settings], _MOST),
        hint=f"set in site.yaml for which {_MAKERS[setting]} GPUs software is compiled, such as "
        f"{site_line(FIELDS[setting], example)}, or under `input` of the recipe `{setting}: {example}`",
    )


def capabilities_unread(version: str, settings: Sequence[str], said: str) -> InputError:
    """Return the error of an earlier EasyBuild that does not know all values, such as `9.0a` and `10.0f`."""
    return InputError(
        "capabilities-unread",
        f"EasyBuild {version} does not take the values of {', '.join(settings)}, which this closure asks for",
        context=said.splitlines()[:6],
        hint="set others in the recipe's `input`, or lock with a later EasyBuild (`input.easybuild`)",
    )


def explain_gpus(site: Site) -> Iterator[SiteFact]:
    """Yield the GPUs that the last audits saw, and for which the site's settings have no code."""
    said, seen = said_by(easybuild_settings(site)), _seen(site)
    for setting in SETTINGS:
        values, vendor = said[setting], VENDORS[setting]
        # None means that nobody knows whether they are covered: that is no reason for a warning.
        found = {a: n for (of, a), n in seen.items() if of == vendor and values and covers(vendor, values, a) is False}
        if found:
            line = site_line(FIELDS[setting], quoted(_ordered(vendor, [*values, *found])))
            text = f"no code for {_on_nodes(vendor, found)}, seen by the last audits"
            yield SiteFact(FIELDS[setting], "warning", text, line)


def _seen(site: Site) -> dict[tuple[str, str], set[str]]:
    """Return (vendor, capability or architecture) -> nodes, as far as it is known."""
    found: dict[tuple[str, str], set[str]] = {}
    with suppress(EnvmgrError):  # damaged: the next audit writes it again
        fleet = read_node_facts(Prefix(site.prefix))
        for node, facts in (fleet.by_node() if fleet else {}).items():
            for gpu in facts.gpus:
                if gpu.arch:
                    found.setdefault((gpu.vendor, gpu.arch), set()).add(node)
    return found


def _ordered(vendor: str, archs: Iterable[str]) -> list[str]:
    if vendor == "nvidia":
        return [str(code) for code in sorted({parse_code(arch) for arch in archs})]
    return sorted(set(archs))


def _on_nodes(vendor: str, found: Mapping[str, set[str]]) -> str:
    return ", ".join(f"{arch} on {fold(found[arch])}" for arch in _ordered(vendor, found))
