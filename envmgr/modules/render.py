"""Modulefiles, and the pip beside each: specs and policies in, {relative path: text} out. Pure: statements.py decides
what a module says.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import dropwhile
from pathlib import Path
from typing import Any

from envmgr.errors import EnvmgrError, InputError
from envmgr.modules.families import NO_FAMILIES, Families, find_families, member_of
from envmgr.modules.lmod import lua_quote
from envmgr.modules.spec import SHIMS, ModuleSpec
from envmgr.modules.statements import AtLoad, ModulePolicies, Statement, operations
from envmgr.system.files import canonical_json, sha256_bytes, sha256_file
from envmgr.system.shelltext import assign

MODULE, MODULERC = "module.lua.j2", "modulerc.lua.j2"
GPU_RULES, GPU_GATE, SRUN_NOTE, VENV_NOTE = "gpu_rules.lua", "gpu_gate.lua", "srun_note.lua", "venv_note.lua"
PIP_SHIM, USER_NOTE, USAGE_NOTE = "pip_shim.sh", "user_note.lua", "usage_note.lua"
TEMPLATE_FILES = (MODULE, MODULERC, GPU_RULES, GPU_GATE, SRUN_NOTE, VENV_NOTE, PIP_SHIM, USAGE_NOTE)

# Raised whenever the meaning of the hashed form changes.
_FINGERPRINT_SCHEMA = 1


def templates_digest(templates: Path) -> str:
    """Return the sha256 of the files that shape a modulefile. Raises OSError if one is missing."""
    files = {name: sha256_file(templates / name) for name in TEMPLATE_FILES}
    return sha256_bytes(canonical_json({"schema": _FINGERPRINT_SCHEMA, "files": files}))


def render_digest(templates: str, policies: ModulePolicies) -> str:
    """Return the sha256 over all that decides the text of every module, apart from the entries.

    `templates` is the digest that `templates_digest` returns.
    """
    return sha256_bytes(canonical_json({"schema": 1, "templates": templates, "policies": policies.model_dump()}))


def fingerprint(
    spec: ModuleSpec, policies: ModulePolicies, templates_digest: str, families: Families = NO_FAMILIES
) -> str:
    """Return the sha256 of all that decides a generation's content for the entry, except the generation's number and
    the install.

    It covers the module's text (as statements), its part of `.modulerc.lua`, whether it has a kernel, and its smoke tests, which `envmgr test`
    takes from the generation.
    """
    form = {
        "schema": _FINGERPRINT_SCHEMA,
        "templates": templates_digest,
        "entry": [spec.name, spec.version],
        "default": spec.default,
        "hidden": spec.hidden,
        "tests": [[t.name, t.run, list(t.needs), float(t.timeout), t.nodes, *t.imports] for t in spec.tests],
        "stands_on": spec.stands_on,
        "imports": spec.imports,
        "not_imported": spec.not_imported,
        "kernel": spec.kernel,
        "usage": policies.usage,
        "statements": [[s.kind, s.name, list(s.arguments)] for s in operations(spec, policies, families)],
    }
    return sha256_bytes(canonical_json(form))


def render_tree(
    specs: Iterable[ModuleSpec], *, generation: int, policies: ModulePolicies, templates: Path
) -> dict[str, str]:
    """Return the whole module tree: relative path -> Lua text, sorted by path. The families follow from all specs
    together.

    Raises:
        EnvmgrError: `two-defaults`, `two-modules` (two specs of one entry) or `template-invalid`.
    """
    ordered = sorted(specs, key=lambda s: (s.name, s.version))
    defaults = _defaults(ordered)
    families = find_families({spec.entry: member_of(spec) for spec in ordered})
    templating = _Templates(templates)
    tree: dict[str, str] = {}
    for spec in ordered:
        path = f"{spec.entry}.lua"
        if path in tree:
            raise EnvmgrError("two-modules", f"there are two modules for {spec.entry}")
        statements = operations(spec, policies, families[spec.entry])
        tree[path] = templating.module(spec, statements, generation, usage=policies.usage)
    hidden: dict[str, list[str]] = {}
    for spec in ordered:
        if spec.hidden:
            hidden.setdefault(spec.name, []).append(spec.entry)
    for name in sorted({*defaults, *hidden}):
        tree[f"{name}/.modulerc.lua"] = templating.render(
            MODULERC, default=defaults.get(name, ""), hidden=hidden.get(name, [])
        )
    return dict(sorted(tree.items()))


def render_module(
    spec: ModuleSpec, families: Families, *, generation: int, policies: ModulePolicies, templates: Path, note: UserNote
) -> str:
    """Return the text of a module of a user's own, which lies outside of a generation. Raise as `render_tree`."""
    templating = _Templates(templates)
    words = (note.name, note.entry, note.root, note.current, note.reported, note.packages)
    known = ", ".join(f"[{lua_quote(each)}] = true" for each in note.known)
    text = f"{templating.lua(USER_NOTE)}user_note({', '.join(map(lua_quote, words))}, {{ {known} }})\n"
    return templating.module(spec, operations(spec, policies, families), generation, text)


def _defaults(specs: Iterable[ModuleSpec]) -> dict[str, str]:
    """Name -> its default entry."""
    defaults: dict[str, str] = {}
    for spec in specs:
        if not spec.default:
            continue
        if (other := defaults.setdefault(spec.name, spec.entry)) != spec.entry:
            raise InputError(
                "two-defaults",
                f"{spec.name} has two default versions",
                context=f"{other} and {spec.entry} both say `default: true`",
                hint="keep it in one of the recipes",
            )
    return defaults


@dataclass(frozen=True, slots=True)
class UserNote:
    """The places that the module of a user's own environment `name` looks at when it is loaded: the `root` of its `entry` in what is
    `current` in the prefix, a file whose time is that of the last note, and the folder of its `packages`, whose
    folders `*.dist-info` are `known`.
    """

    name: str
    entry: str
    root: str
    current: str
    reported: str
    packages: str
    known: tuple[str, ...]


_SHARED = "all users share it, and it never changes"


class _Templates:
    """The templates under StrictUndefined, so that a name without a value is an error and never an empty text."""

    def __init__(self, folder: Path) -> None:
        import jinja2

        self._folder = folder
        self._environment = jinja2.Environment(
            loader=jinja2.FileSystemLoader(folder),
            undefined=jinja2.StrictUndefined,
            autoescape=False,  # noqa: S701 - this is Lua, and every value goes through lua_quote
            trim_blocks=True,
            lstrip_blocks=True,
            keep_trailing_newline=True,
        )
        self._environment.filters["lua"] = _lua_value
        self._fault = jinja2.TemplateError

    def lua(self, name: str) -> str:
        """Return Lua text as it is. `include` would read Lua's braces as Jinja's."""
        return (self._folder / name).read_text(encoding="utf-8")

    def module(
        self, spec: ModuleSpec, statements: Sequence[Statement], generation: int, note: str = "", *, usage: bool = False
    ) -> str:
        gated = any(s.kind == "gpu-gate" for s in statements)
        return self.render(
            MODULE,
            spec=spec,
            statements=statements,
            generation=str(generation),
            folder=f"{generation:04d}",
            gpu_gate=f"{self.lua(GPU_RULES)}\n{self.lua(GPU_GATE)}" if gated else "",
            srun_note=self.lua(SRUN_NOTE),
            venv_note=self.lua(VENV_NOTE) if spec.python else "",
            note=note,
            usage=self.lua(USAGE_NOTE) if usage else "",
        )

    def render(self, name: str, **values: Any) -> str:
        try:
            return self._environment.get_template(name).render(**values)
        except self._fault as error:
            line = getattr(error, "lineno", None)
            raise EnvmgrError(
                "template-invalid",
                f"cannot render {self._folder / name}",
                context=f"line {line}: {error.message}" if line else str(error.message),
            ) from error


def _lua_value(value: str | bool | AtLoad) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        # os.getenv returns nil for a variable that is not set, which `..` does not accept.
        return " .. ".join(f'(os.getenv({lua_quote(t)}) or "")' if var else lua_quote(t) for t, var in value)
    return lua_quote(value)


def render_shims(specs: Iterable[ModuleSpec], templates: Path) -> dict[str, str]:
    """Return path relative to the generation -> a program's text, for every module that puts a Python into PATH.

    The program is the pip that the module puts first in PATH in place of the install's own, and refuses some of its
    actions. The generation holds it, and no install changes.
    """
    found: dict[str, str] = {}
    for spec in specs:
        if (pip := spec.pip) is not None:
            reason = _SHARED if spec.outside is None else "all users share it"
            program = render_shim(f"the module {spec.entry}", spec.own_packages, pip.folder, templates, reason=reason)
            found |= {f"{SHIMS}/{spec.entry}/{name}": program for name in pip_names(pip.minor)}
    return found


def pip_names(minor: str) -> list[str]:
    """Return the names of pip beside a Python; without a versioned one if its minor version is not known."""
    return ["pip", "pip3", *([f"pip{minor}"] if re.fullmatch(r"3\.[0-9]+t?", minor) else [])]


def render_shim(subject: str, lines: str, folder: str, templates: Path, *, reason: str = _SHARED) -> str:
    """Return the program that stands for a pip: it refuses to change `subject` for that `reason`, prints `lines` then, and leaves all
    else to the pip in `folder`.
    """
    text = (templates / PIP_SHIM).read_text(encoding="utf-8")
    body = "".join(dropwhile(lambda line: line.startswith("#"), text.splitlines(keepends=True)))
    given = assign(subject=subject, reason=reason, lines=lines, folder=folder)
    return f"#!/bin/sh\n# Written by envmgr. Do not edit.\n{given}{body}"
