"""From recipe, lock and install to what the module says. Pure."""

from __future__ import annotations

import string
from collections.abc import Mapping

from envmgr.manifest import InstallFacts
from envmgr.modulespec import EnvOp, ModuleSpec
from envmgr.names import Entry
from envmgr.recipe import Recipe, Software


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
) -> ModuleSpec:
    """`root` is the install's final path. The recipe's own variables come last, so that they win over captured ones."""
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
        family=recipe.family,
        conflicts=recipe.conflicts,
        depends=recipe.depends,
        environment=(*facts.environment, *_extra(recipe, entry, root)),
        extensions=extensions,
        packages=dict(packages),
        python=facts.python is not None,
        requires=recipe.requires,
        tests=recipe.tests,
        default=recipe.default,
        hidden=recipe.hidden,
        deprecated=recipe.deprecated,
    )


def _extra(recipe: Recipe, entry: Entry, root: str) -> list[EnvOp]:
    values = {"root": root, "name": entry.name, "version": entry.version}

    def fill(text: str) -> str:
        return string.Template(text).substitute(values)

    environment = recipe.environment
    ops = [EnvOp(kind="set", name=name, value=fill(value)) for name, value in environment.set.items()]
    for name, items in environment.prepend.items():
        # The first of the list shall come out first: each prepend goes before the one done earlier.
        ops += [EnvOp(kind="prepend", name=name, value=fill(item)) for item in reversed(items)]
    for name, items in environment.append.items():
        ops += [EnvOp(kind="append", name=name, value=fill(item)) for item in items]
    return ops
