"""The content of a module, made from recipe and install."""

from __future__ import annotations

import string
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from envmgr.catalog.accept import NOT_IMPORTED, named_in
from envmgr.catalog.environment import LOAD_NAMES, ShellText
from envmgr.catalog.fitness import gpu_needs
from envmgr.catalog.names import Entry
from envmgr.catalog.recipe import Recipe, Software
from envmgr.modules.spec import EnvOp, ModuleSpec, Pip, ShellFunction, UnloadCommand
from envmgr.store.manifest import InstallFacts

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
        imports=facts.imports,
        not_imported=tuple(sorted(named_in(recipe.accept.get(NOT_IMPORTED, "")))),
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
