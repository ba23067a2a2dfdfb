"""The kernels of a generation: one for each entry with ipykernel, by which a Jupyter of any Python starts it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress

from envmgr.catalog.fitness import NodeFacts, Verdict, judge_gpu
from envmgr.errors import EnvmgrError
from envmgr.modules.kernels import KERNELS, kernel_env, kernel_name, kernel_spec
from envmgr.modules.spec import ModuleSpec
from envmgr.modules.statements import ModulePolicies
from envmgr.store.node_facts import read_node_facts
from envmgr.store.prefix import Prefix
from envmgr.system.files import pretty_json

_SHOWN = 40  # characters of nodes in a name that a menu shows
_SAID = {
    Verdict.NO_CODE: "no GPU code for",
    Verdict.TOO_OLD: "GPU driver too old on",
    Verdict.BROKEN: "GPU driver broken on",
    Verdict.FORWARD: "GPU programs fail on",
}


def render_kernels(
    specs: Mapping[str, ModuleSpec], number: int, policies: ModulePolicies, prefix: Prefix
) -> dict[str, str]:
    """Return path relative to the generation -> text, for every entry with ipykernel.

    The name says for which nodes the last audit saw that GPU programs of the entry fail there.
    """
    wanted = [(spec, python) for spec in specs.values() if spec.kernel and (python := _python(spec))]
    known: Mapping[str, NodeFacts] = {}
    if any(spec.gpu for spec, _ in wanted):
        from envmgr.nodes.sets import require_node_names

        with suppress(EnvmgrError):  # damaged: the next audit writes them again
            found = fleet.by_node() if (fleet := read_node_facts(prefix)) else {}
            require_node_names(found)
            known = found
    texts = {}
    for spec, python in wanted:
        unfit = tuple(_unfit(spec, known))
        shown = "; ".join((f"generation {number}", *unfit))
        env = kernel_env([specs[each] for each in load_order(spec.entry, specs)], policies, number)
        about = {"entry": spec.entry, "generation": number, "unfit": unfit}
        texts[f"{KERNELS}/{kernel_name(spec.entry)}/kernel.json"] = pretty_json(
            kernel_spec(python, f"{spec.entry} ({shown})", env, about)
        )
    return texts


def _python(spec: ModuleSpec) -> str:
    """Return the path of the module's Python; empty without one."""
    return spec.kernel_program or (f"{spec.pip.folder}/python3" if spec.pip and spec.pip.folder else "")


def _unfit(spec: ModuleSpec, known: Mapping[str, NodeFacts]) -> Iterator[str]:
    """Yield `no GPU code for c[1-3]`: what is wrong, and the nodes that the last audit of each saw so."""
    from envmgr.nodes.sets import fold

    found: dict[Verdict, list[str]] = {}
    for node, facts in known.items():
        if (judged := judge_gpu(spec.needs, facts)) is not None and judged.refused:
            found.setdefault(judged.verdict, []).append(node)
    for verdict, nodes in sorted(found.items()):
        folded = fold(nodes)
        yield f"{_SAID[verdict]} {folded if len(folded) <= _SHOWN else f'{len(nodes)} nodes'}"


def load_order(entry: str, specs: Mapping[str, ModuleSpec]) -> list[str]:
    """Return the entry behind all that it loads."""
    found: list[str] = []

    def add(name: str) -> None:
        for below in specs[name].depends:
            if below in specs and below not in found:
                add(below)
        found.append(name)

    add(entry)
    return found
