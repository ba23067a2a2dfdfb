"""The part of a recipe on its module: variables beside those of the install, shell functions, and commands for unloading."""

from __future__ import annotations

import string
from collections.abc import Iterator

from pydantic import field_validator, model_validator

from envmgr.catalog.shell_rules import COMMANDS, VARIABLE, fault_in_csh, fault_in_value, fault_in_variable
from envmgr.system.models import FrozenModel, refuse
from envmgr.wording import LINES, first_unseen

# What a value may name: known when the module is made, or only where it is loaded.
BUILD_NAMES, LOAD_NAMES = frozenset({"root", "name", "version"}), frozenset({"HOME", "USER"})


def lines_of_text(value: str) -> str:
    """Return the value. Raise ValueError for control characters."""
    if first_unseen(value, LINES):
        raise ValueError("must be text, without control characters")
    return value


class ShellText(FrozenModel):
    """Text that a shell runs: `bash` in bash, zsh, sh and ksh, `csh` in csh and tcsh. `${root}` is the install's
    folder.

    The csh text is one line: Lmod hands it over in backquotes, which make one line of it.
    """

    bash: str
    csh: str = ""

    @field_validator("bash", "csh")
    @classmethod
    def _printable(cls, value: str) -> str:
        return lines_of_text(value).strip()

    @model_validator(mode="after")
    def _check(self) -> ShellText:
        refuse(self._faults())
        return self

    def _faults(self) -> Iterator[str]:
        if not self.bash:
            yield "`bash` is empty"
        if "\n" in self.csh:
            yield "`csh` must be one line"
        elif fault := fault_in_csh(self.csh.replace("${root}", "/")):
            yield f"`csh`: {fault}"


class Environment(FrozenModel):
    """Extra variables, shell functions, and commands for unloading.

    In values `${root}`, `${name}` and `${version}` are replaced, and `${HOME}` and `${USER}` at load. `prepend` and
    `append` take PATH-like lists.
    """

    set: dict[str, str] = {}
    set_default: dict[str, str] = {}
    prepend: dict[str, tuple[str, ...]] = {}
    append: dict[str, tuple[str, ...]] = {}
    functions: dict[str, ShellText] = {}
    on_unload: ShellText | None = None

    @model_validator(mode="after")
    def _check(self) -> Environment:
        refuse(self._faults())
        return self

    def _faults(self) -> Iterator[str]:
        for name, text in self.functions.items():
            if not VARIABLE.fullmatch(name) or name in COMMANDS:
                yield f"`{name}` cannot be the name of a function"
            if "'" in text.csh:
                yield f"`csh` of {name} cannot hold `'`: Lmod makes an alias of it, between such quotes"
        both = {*self.set, *self.set_default, *self.prepend, *self.append} & {*self.functions}
        yield from (f"{each} cannot be a variable and a function: Lmod keeps one thing of a name" for each in both)
        for values in (self.set, self.set_default):
            for name, value in values.items():
                yield from _variable_faults(name, (value,), as_list=False)
        for lists in (self.prepend, self.append):
            for name, elements in lists.items():
                yield from _variable_faults(name, elements, as_list=True)


def _variable_faults(variable: str, values: tuple[str, ...], *, as_list: bool) -> Iterator[str]:
    if not VARIABLE.fullmatch(variable):
        yield f"`{variable}` is not a variable name"
    elif fault := fault_in_variable(variable, as_list=as_list):
        yield f"{variable} must not be set by a module: {fault}"
    for value in values:
        template = string.Template(value)
        if not template.is_valid() or (unknown := {*template.get_identifiers()} - BUILD_NAMES - LOAD_NAMES):
            known = "`${root}`, `${name}`, `${version}`, `${HOME}`, `${USER}` can be used, `$$` is a dollar"
            yield f"`{value}`: {'bad `$`' if not template.is_valid() else f'unknown {sorted(unknown)}'}; {known}"
            continue
        plain = template.substitute(dict.fromkeys(BUILD_NAMES | LOAD_NAMES, "/x"))
        if fault := fault_in_value(plain, as_list=as_list):
            yield f"a variable's value cannot be `{value}`: {fault}"
