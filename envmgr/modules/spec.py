"""The content of a modulefile as data: made from recipe, lock and install, printed by the templates."""

from __future__ import annotations

import string
from collections.abc import Iterable, Mapping
from typing import Any, Literal

from envmgr.catalog.fitness import NodeNeeds
from envmgr.catalog.gpus import GpuNeeds
from envmgr.catalog.names import sort_key
from envmgr.catalog.recipe_parts import Deprecated, Requires, SmokeTest
from envmgr.system.models import FrozenModel

SHIMS = "shims"
"""A folder of a generation, with a folder in it for each entry: the pip that its module puts first in PATH."""


class EnvOp(FrozenModel):
    """One change of the environment at load; unload undoes it.

    `set` replaces (and remembers) a value, `set-default` sets a variable that has none, `unset` removes it. `prepend`
    and `append` add to a list whose elements are separated by `separator`; the value is one element, or several in the
    list's form. With `at_load`, `value` is a template in which `${HOME}` and `${USER}` are those of the user who loads
    the module, and `$$` is a dollar; the module leaves the change out if such a variable is not set.
    """

    kind: Literal["set", "set-default", "unset", "prepend", "append"]
    name: str
    value: str = ""
    separator: str = ":"
    at_load: bool = False


class Outside(FrozenModel):
    """A tree that somebody else made, outside of the store: envmgr neither made nor keeps it.

    `how` says how it was looked at: every file was read (`full`), or its size and time were (`times`). What has a name
    of `ignore` was left out. `shape` is the sha256 of what nodes list of it (`store.outside`). `program` is the first
    program that the module puts into PATH, and `file` that or a file of it, both relative to `path`. `roots` are all
    folders from which its module may add places to lists.
    """

    path: str
    roots: tuple[str, ...]
    how: Literal["full", "times"]
    ignore: tuple[str, ...] = ()
    shape: str
    program: str = ""
    file: str = ""


def applied(changes: Iterable[EnvOp], environ: Mapping[str, str]) -> dict[str, str]:
    """Return `environ` as it is after a load that makes these changes, in this order."""
    found = dict(environ)
    for op in changes:
        value = string.Template(op.value).safe_substitute(environ) if op.at_load else op.value
        old = found.get(op.name, "")
        if op.kind == "unset":
            found.pop(op.name, None)
        elif op.kind == "set" or not old:
            found[op.name] = value
        elif op.kind != "set-default":
            found[op.name] = op.separator.join((value, old) if op.kind == "prepend" else (old, value))
    return found


class ShellFunction(FrozenModel):
    """A function: `bash` in shells like sh; in csh `csh`, one line, is an alias in which `$*` are the arguments.

    csh gets nothing where its text is empty.
    """

    name: str
    bash: str
    csh: str = ""


class UnloadCommand(FrozenModel):
    """Text that a shell runs after the module's changes are undone; nothing runs if it is empty."""

    bash: str = ""
    csh: str = ""


class Pip(FrozenModel):
    """The pip beside the Python that a module puts first. `folder` holds its programs, empty if none was found; `minor`
    is as 3.11.

    `writes`: it installs into the module's Python all the same, because it is too old to read the mark, or there is no
    mark.
    """

    folder: str
    minor: str
    writes: bool


class ModuleSpec(FrozenModel):
    """One entry's module. `root` is the install's final path, `digest` 64 hex digits, `packages` name -> `version
    build`.

    `environment` is in load order. `python`: the module puts a Python into PATH; `own_python`: that Python is the
    install's own. `pip` is None without a Python; `kernel`: that Python has ipykernel; `kernel_program` starts it where it lies in an image. `families` are those that the recipe names; None if it names none:
    then all entries of a generation decide them (families.py). `stands_on` are installs of another prefix that it does
    not work without: those below a user's environment. `imports` are its distributions that were built from source, `not_imported` the modules that no test imports. `outside` is the tree that its install leads to, if the software is not ours.
    """

    name: str
    version: str
    root: str
    digest: str
    description: str
    homepage: str = ""
    licence: str = ""
    category: str = ""
    help: str = ""
    families: tuple[str, ...] | None = None
    conflicts: tuple[str, ...] = ()
    depends: tuple[str, ...] = ()
    environment: tuple[EnvOp, ...] = ()
    functions: tuple[ShellFunction, ...] = ()
    on_unload: UnloadCommand = UnloadCommand()
    extensions: tuple[str, ...] = ()
    packages: dict[str, str] = {}
    python: bool = False
    own_python: bool = False
    pip: Pip | None = None
    kernel: bool = False
    kernel_program: str = ""
    requires: Requires = Requires()
    gpu: GpuNeeds | None = None
    tests: tuple[SmokeTest, ...] = ()
    imports: tuple[str, ...] = ()
    not_imported: tuple[str, ...] = ()
    default: bool = False
    hidden: bool = False
    deprecated: Deprecated | None = None
    stands_on: tuple[str, ...] = ()
    outside: Outside | None = None

    @property
    def home(self) -> str:
        """The folder of the software itself."""
        return self.outside.path if self.outside else self.root

    @property
    def entry(self) -> str:
        return f"{self.name}/{self.version}"

    @property
    def made_for(self) -> str:
        """The prefix whose generations have the module."""
        return self.root.rsplit("/", 3)[0]

    @property
    def needs(self) -> NodeNeeds:
        return NodeNeeds(self.requires, self.gpu)

    @property
    def own_packages(self) -> str:
        """The ways to a user's own packages. The commands are the same in every shell, also csh; the first one keeps what
        it stands on.
        """
        folder = f"~/venvs/{self.name}-{self.version}"
        if self.outside is not None:
            return (
                "For Python packages of your own, while this module is loaded (it is not ours, and can change):\n"
                f"  python -m venv --system-site-packages {folder}\n"
                f"  {folder}/bin/python -m pip install PACKAGE"
            )
        return (
            "For Python packages of your own:\n"
            f"  envmgr user create NAME --on {self.entry} PACKAGE\n"
            "Without envmgr, until the cluster removes this install, while this module is loaded:\n"
            f"  python -m venv --system-site-packages {folder}\n"
            f"  {folder}/bin/python -m pip install PACKAGE"
        )


def default_entries(rows: Iterable[tuple[str, str, bool, bool]]) -> dict[str, str]:
    """Return name -> the entry that a load without a version gives: the one that says so, else the highest version; hidden
    ones never. Rows are name, version, default and hidden.
    """
    best: dict[str, tuple[bool, Any, str]] = {}
    for name, version, default, hidden in rows:
        rank = (default, sort_key(version), version)
        if not hidden and (name not in best or best[name] < rank):
            best[name] = rank
    return {name: f"{name}/{version}" for name, (_, _, version) in best.items()}
