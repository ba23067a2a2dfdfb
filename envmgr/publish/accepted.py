"""What a module does that its recipe must accept: all that `catalog/variables.py` does not let pass, functions, and text run at unload."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from envmgr.catalog.accept import ON_UNLOAD, key_for
from envmgr.catalog.lock_rules import Judged, LockFault
from envmgr.catalog.names import Entry
from envmgr.catalog.recipe import Recipe
from envmgr.catalog.variables import may_go_unsaid
from envmgr.errors import InputError
from envmgr.modules.spec import EnvOp
from envmgr.publish.compose import recipe_changes
from envmgr.store.manifest import InstallFacts
from envmgr.wording import MOST_LINES, one_line, shortened

_ROOT = "/ROOT"  # that of an entry which is not installed: only what lies below it counts
_SHOWN = 100  # characters of a value


def judge_recipe(entry: Entry, recipe: Recipe) -> Judged:
    """By the recipe alone, before anything of it is built. `unused` are keys of its own variables that need no word."""
    changes = recipe_changes(recipe, entry, _ROOT)
    found = _changes(changes, (entry.name,), (_ROOT,), {_ROOT: "${root}"})
    found |= {f"function:{name}": "a function of each shell" for name in recipe.environment.functions}
    found |= {ON_UNLOAD: "text that shells run when it is unloaded"} if recipe.environment.on_unload else {}
    needless = {f"variable:{op.name}" for op in changes} - found.keys()
    unknown = {key for key in recipe.accept if key.startswith("function:") or key == ON_UNLOAD} - found.keys()
    return _sorted(found, recipe.accept, {*(needless & recipe.accept.keys()), *unknown})


def judge_install(entry: Entry, recipe: Recipe, facts: InstallFacts, root: Path, prefix: Path) -> Judged:
    """By what its finished install brings: activation scripts of its packages, modules of another tool."""
    roots = [str(root), *(str(prefix / need) for need in facts.needs)]
    owners = [entry.name, root.parent.name, *(Path(need).parent.name for need in facts.needs)]
    return _sorted(_changes(facts.environment, owners, roots, {str(root): "${root}"}), recipe.accept)


def require_accepted(entry: Entry, judged: Judged) -> None:
    """InputError `module-unaccepted`, with the lines that would accept it."""
    if not judged.faults:
        return
    keys = [fault.rule for fault in judged.faults[:MOST_LINES]]
    raise InputError(
        "module-unaccepted",
        f"the module of {entry} would change what other programs and the shell go by",
        context=shortened([f"{fault.rule}: {fault.text}" for fault in judged.faults]),
        hint="take it out, or accept it in recipe.yaml, each with the reason:\n  accept:\n"
        + "\n".join(f"    {key}: why" for key in keys),
    )


def _sorted(found: Mapping[str, str], accept: Mapping[str, str], unused: Collection[str] = ()) -> Judged:
    faults = [
        LockFault(rule, text, f"`accept: {{{rule}: why}}` in recipe.yaml, where it is meant")
        for rule, text in found.items()
    ]
    accepted = [(fault, accept[key]) for fault in faults if (key := key_for(accept, fault.rule))]
    taken = {fault.rule for fault, _ in accepted}
    return Judged(tuple(f for f in faults if f.rule not in taken), tuple(accepted), tuple(sorted(unused)))


def _changes(
    ops: Sequence[EnvOp], owners: Collection[str], roots: Collection[str], short: Mapping[str, str]
) -> dict[str, str]:
    """Rule -> what is done to that variable, for those that may not go unsaid."""
    found: dict[str, list[str]] = {}
    for op in ops:
        as_list = op.kind in ("prepend", "append")
        elements = op.value.split(op.separator) if as_list else [op.value]
        if not may_go_unsaid(op.kind, op.name, elements, owners=owners, roots=roots):
            found.setdefault(f"variable:{op.name}", []).append(_told(op, short))
    return {rule: "; ".join(texts) for rule, texts in found.items()}


def _told(op: EnvOp, short: Mapping[str, str]) -> str:
    value = op.value
    for root, name in short.items():
        value = value.replace(root, name)
    return f"{op.kind} {one_line(value, _SHOWN)}".strip() if op.kind != "unset" else "unset"
