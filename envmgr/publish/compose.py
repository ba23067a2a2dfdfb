"""The content of a module, made from recipe and install, and what of it the recipe must accept."""

from __future__ import annotations

import string
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Literal

from envmgr.catalog.accept import NOT_IMPORTED, ON_UNLOAD, key_for, named_in
from envmgr.catalog.environment import LOAD_NAMES, ShellText
from envmgr.catalog.fitness import gpu_needs
from envmgr.catalog.lock_rules import Judged, LockFault
from envmgr.catalog.names import Entry
from envmgr.catalog.recipe import Recipe, Software
from envmgr.catalog.shell_rules import may_go_unsaid
from envmgr.errors import InputError
from envmgr.modules.spec import EnvOp, ModuleSpec, Pip, ShellFunction, UnloadCommand
from envmgr.store.manifest import InstallFacts
from envmgr.wording import MOST_LINES, one_line, shortened

Kind = Literal["set", "set-default", "prepend", "append"]


def compose_module(
    entry: Entry,
    recipe: Recipe,
    software: Software,
    *,
    root: str,
    digest: str,
    packages: Mapping[str, str],
    extensions: tuple[str, ...],
    facts: InstallFacts,
    own_python: bool = False,
    pip: Pip | None = None,
    kernel: bool = False,
    cuda: str | None = None,
    compat: str = "",
) -> ModuleSpec:
    """Return the module of an entry. `root` is the install's final path; `own_python`: it has a `bin/python`; `cuda`
    and `compat` are the lock's.

    The recipe's own variables come last, so that they win over captured ones.
    """
    home = str(facts.home(Path(root)))
    return ModuleSpec(
        name=entry.name,
        version=entry.version,
        root=root,
        digest=digest,
        description=software.description.strip(),
        homepage=software.homepage,
        licence=software.licence,
        category=software.category,
        help=recipe.help.strip(),
        families=recipe.families,
        conflicts=recipe.conflicts,
        depends=recipe.depends,
        environment=(*facts.environment, *recipe_changes(recipe, entry, home)),
        functions=tuple(
            ShellFunction(name=name, **_texts(text, home)) for name, text in recipe.environment.functions.items()
        ),
        on_unload=UnloadCommand(**_texts(recipe.environment.on_unload, home)),
        extensions=extensions,
        packages=dict(packages),
        python=facts.python is not None,
        own_python=own_python,
        pip=pip,
        kernel=kernel,
        kernel_program=f"{root}/{facts.kernel}" if facts.kernel else "",
        requires=recipe.requires,
        gpu=gpu_needs(recipe.requires, cuda, compat, facts.gpu_codes),
        tests=recipe.tests,
        imports=tuple(name for name in facts.imports if name not in named_in(recipe.accept.get(NOT_IMPORTED, ""))),
        default=recipe.default,
        hidden=recipe.hidden,
        deprecated=recipe.deprecated,
        outside=facts.outside,
    )


def recipe_changes(recipe: Recipe, entry: Entry, root: str) -> list[EnvOp]:
    """Return the changes that the recipe itself makes, in load order."""
    values = {"root": root, "name": entry.name, "version": entry.version}

    def op(kind: Kind, name: str, text: str) -> EnvOp:
        if not LOAD_NAMES & {*string.Template(text).get_identifiers()}:
            return EnvOp(kind=kind, name=name, value=string.Template(text).substitute(values))
        # What is filled in now and what was a dollar must be so after the second time, too.
        known = {key: value.replace("$", "$$") for key, value in values.items()}
        known |= {name: f"${{{name}}}" for name in LOAD_NAMES}
        value = string.Template(text.replace("$$", "$$$$")).substitute(known)
        return EnvOp(kind=kind, name=name, value=value, at_load=True)

    environment = recipe.environment
    ops = [op("set", name, value) for name, value in environment.set.items()]
    ops += [op("set-default", name, value) for name, value in environment.set_default.items()]
    for name, items in environment.prepend.items():
        # The first of the list shall come out first: each prepend goes before the one done earlier.
        ops += [op("prepend", name, item) for item in reversed(items)]
    for name, items in environment.append.items():
        ops += [op("append", name, item) for item in items]
    return ops


def _texts(text: ShellText | None, root: str) -> dict[str, str]:
    """Return the shells' texts with `${root}` filled in; every other dollar belongs to the shell."""
    return {} if text is None else {s: v.replace("${root}", root) for s, v in (("bash", text.bash), ("csh", text.csh))}


_ROOT = "/ROOT"  # that of an entry which is not installed: only what lies below it counts
_SHOWN = 100  # characters of a value


def judge_recipe(entry: Entry, recipe: Recipe) -> Judged:
    """Judge a recipe before anything of it is built. `unused` are keys of its own variables that it need not accept."""
    changes = recipe_changes(recipe, entry, _ROOT)
    found = _changes(changes, (entry.name,), (_ROOT,), {_ROOT: "${root}"})
    found |= {f"function:{name}": "a function of each shell" for name in recipe.environment.functions}
    found |= {ON_UNLOAD: "text that shells run when it is unloaded"} if recipe.environment.on_unload else {}
    needless = {f"variable:{op.name}" for op in changes} - found.keys()
    unknown = {key for key in recipe.accept if key.startswith("function:") or key == ON_UNLOAD} - found.keys()
    return _sorted(found, recipe.accept, {*(needless & recipe.accept.keys()), *unknown})


def judge_install(entry: Entry, recipe: Recipe, facts: InstallFacts, root: Path, prefix: Path) -> Judged:
    """Judge what a finished install brings: activation scripts of its packages, modules of another tool."""
    home = str(facts.home(root))
    own = facts.outside.roots if facts.outside else (home,)
    roots = [*own, *(str(prefix / need) for need in facts.needs)]
    owners = [entry.name, root.parent.name, *(Path(need).parent.name for need in facts.needs)]
    return _sorted(_changes(facts.environment, owners, roots, {home: "${root}"}), recipe.accept)


def require_accepted(entry: Entry, judged: Judged) -> None:
    """Raise InputError `module-unaccepted`, with the lines that would accept the changes."""
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
    """Return rule -> what is done to that variable, for changes that a recipe must accept."""
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
