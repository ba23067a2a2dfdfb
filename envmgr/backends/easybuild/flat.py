"""Flat modules: the changes that loading EasyBuild's own module of an item makes, with all that it loads, as one list.

They are read from Lmod's `module show`. Comparing environments would lose order, separators, and which module makes
which change.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from envmgr.backends.easybuild.items import module_name, modules_folder
from envmgr.catalog.shell_rules import fault_in_variable
from envmgr.errors import EnvmgrError
from envmgr.modules.lmod import SHOWN_HOME, SHOWN_USER, Lmod
from envmgr.modules.spec import EnvOp
from envmgr.store.manifest import InstallFacts
from envmgr.store.prefix import Install, Prefix
from envmgr.wording import one_line

# A module says these about itself; they change nothing in the environment.
_TALK = frozenset({"help", "whatis", "conflict", "extensions", "family", "add_property", "remove_property", "prereq"})
_LOADS = frozenset({"depends_on", "load", "always_load", "depends_on_any", "try_load"})
_STATEMENT = re.compile(r"([a-z_]+)([({])(.*)[)}]", re.DOTALL)
_START = re.compile(r"[a-z_]+[({]")
_END = re.compile(r'(?:"\)|["0-9]\}|"\}\})$')
_OF_EASYBUILD = re.compile(r"EBDEVEL\w*")  # names a file that we do not make


@dataclass(frozen=True, slots=True)
class Shown:
    """One module, as Lmod shows it: in order, the modules that it loads (text) and the changes it makes."""

    name: str
    steps: tuple[str | EnvOp, ...]


def flat_facts(install: Install, closure: Sequence[Install], lmod: Lmod) -> InstallFacts:
    """Return the facts of a finished item; `closure` are the installs that its module may load.

    Raises:
        EnvmgrError: `module-load-failed`, `module-unreadable`, `module-forbidden`.
    """
    names = [module_name(each) for each in (install, *closure)]
    shown = {s.name: s for s in map(read_shown, _texts(lmod, install.prefix, names))}
    order, ops = flatten(module_name(install), shown)
    for name in order:
        refuse_forbidden(shown[name], install.prefix.store)
    paths = {module_name(each): each.relative for each in closure}
    loaded = [install, *(each for each in closure if module_name(each) in order)]
    pythons = (version for each in loaded if (version := _own_python(each)) is not None)
    return InstallFacts(
        environment=ops, python=next(pythons, None), needs=tuple(paths[name] for name in order if name in paths)
    )


def refuse_forbidden(module: Shown, store: Path) -> None:
    """Raise EnvmgrError `module-forbidden` for a change that no module may make."""
    for op in module.steps:
        if isinstance(op, str):
            continue
        as_list = op.kind in ("prepend", "append")
        # A value of the loading shell may name any folder.
        added = () if op.at_load else op.value.split(op.separator)
        if fault := fault_in_variable(op.name, as_list=as_list, added=added, own=(store,)):
            message = f"EasyBuild's module {module.name} changes {op.name}"
            change = f"{op.kind} {one_line(op.value)}" if op.value else op.kind
            hint = f"no module may do so: {fault}; leave it out of the easyconfig"
            raise EnvmgrError("module-forbidden", message, context=change, hint=hint)


def _own_python(install: Install) -> str | None:
    """Return the version of the Python that an install brings, as its file's name has it (`3.11`, `3` or "")."""
    for name in ("python3", "python"):
        if (program := install.path / "bin" / name).is_file():
            return program.resolve().name.removeprefix("python")
    return None


def flatten(root: str, shown: Mapping[str, Shown]) -> tuple[list[str], tuple[EnvOp, ...]]:
    """Return the modules in the order in which loading `root` ends their work, and their changes in that order.

    A module that several load does its work once, at the first load. Of several values for one variable the last
    counts. Raises EnvmgrError `module-unreadable` for a module that is loaded and not there.
    """
    order: list[str] = []
    ops: list[EnvOp] = []
    begun: set[str] = set()

    def load(name: str, by: str) -> None:
        if name in begun:
            return
        # Before its steps: two modules that load each other would be followed without end.
        begun.add(name)
        if name not in shown:
            raise EnvmgrError("module-unreadable", f"the module {by} loads {name}, which is not in its lock")
        for step in shown[name].steps:
            if isinstance(step, str):
                load(step, name)
            else:
                ops.append(step)
        order.append(name)

    load(root, "envmgr")
    last = {op.name: number for number, op in enumerate(ops) if op.kind in ("set", "unset")}
    apart = frozenset({*last, *(op.name for op in ops if op.at_load)})
    kept = [op for number, op in enumerate(ops) if op.kind not in ("set", "unset") or last[op.name] == number]
    return order, tuple(_joined([op for op in kept if not _OF_EASYBUILD.fullmatch(op.name)], apart))


def _joined(ops: Sequence[EnvOp], apart: frozenset[str]) -> Iterator[EnvOp]:
    """Join the elements for one list into one change: Lmod reads 30 of them twice as fast as 30 changes.

    The lists stay the same, as only changes of other variables stand between them. `apart` are variables that are also
    given a value, or one that only the loading shell knows.
    """
    groups: dict[tuple[str, str], list[str]] = {}
    for op in ops:
        if _is_list(op, apart):
            groups.setdefault((op.kind, op.name), []).append(op.value)
    for op in ops:
        if not _is_list(op, apart):
            yield op
        elif values := groups.pop((op.kind, op.name), None):
            # A later prepend stands in front of an earlier one.
            elements = [e for value in (reversed(values) if op.kind == "prepend" else values) for e in value.split(":")]
            yield op.model_copy(update={"value": ":".join(dict.fromkeys(elements))})


def _is_list(op: EnvOp, apart: frozenset[str]) -> bool:
    return op.kind in ("prepend", "append") and op.separator == ":" and op.name not in apart


def read_shown(shown: tuple[str, str]) -> Shown:
    """Read one module's part of `module show`: (name, text).

    Values stand there unescaped. So a statement ends where a line ends with its closing bracket, and the next line
    begins a statement.

    Raises:
        EnvmgrError: `module-unreadable` for a statement that a flat module could not repeat.
    """
    name, text = shown
    steps: list[str | EnvOp] = []
    for statement in _statements(text):
        match = _STATEMENT.fullmatch(statement)
        if match is None:
            raise _unreadable(name, statement)
        verb, bracket, inner = match.groups()
        if verb in _TALK:
            continue
        if verb in _LOADS:
            steps += re.findall(r'"([^"]+)"', inner)
            continue
        op = _change(verb, bracket, inner)
        if op is None:
            raise _unreadable(name, statement)
        steps.append(op)
    return Shown(name, tuple(steps))


def _change(verb: str, bracket: str, inner: str) -> EnvOp | None:
    if verb in ("prepend_path", "append_path"):
        kind: Literal["prepend", "append"] = "prepend" if verb == "prepend_path" else "append"
        tail = r',delim="(?P<delim>[^"]+)"(?:,priority="?0"?)?' if bracket == "{" else ""
        match = re.fullmatch(rf'"(?P<name>\w+)","(?P<value>.*)"{tail}', inner, re.DOTALL)
        if match is None:
            return None
        separator = match["delim"] if tail else ":"
        return _op(kind, match["name"], match["value"], separator)
    match = re.fullmatch(r'"(\w+)"(?:,"(.*)")?', inner, re.DOTALL)
    if match is None:
        return None
    if verb in ("setenv", "pushenv") and match[2] is not None:
        return _op("set", match[1], match[2])
    if verb == "unsetenv":
        return EnvOp(kind="unset", name=match[1])
    return None


def _op(kind: Literal["set", "prepend", "append"], name: str, value: str, separator: str = ":") -> EnvOp:
    if SHOWN_HOME not in value and SHOWN_USER not in value:
        return EnvOp(kind=kind, name=name, value=value, separator=separator)
    # In a value with placeholders, a single `$` would begin one.
    template = value.replace("$", "$$").replace(SHOWN_HOME, "${HOME}").replace(SHOWN_USER, "${USER}")
    return EnvOp(kind=kind, name=name, value=template, separator=separator, at_load=True)


def _statements(text: str) -> Iterator[str]:
    pending = ""
    for line in text.splitlines():
        if pending and _START.match(line) and _has_ended(pending):
            yield pending
            pending = line
        else:
            pending = f"{pending}\n{line}" if pending else line
    if pending.strip():
        yield pending.rstrip("\n")


def _has_ended(statement: str) -> bool:
    """Return whether the statement is complete: help is in long brackets, others end with a quote or number and a
    bracket.
    """
    return statement.endswith("]])") if statement.startswith("help([[") else _END.search(statement) is not None


def _texts(lmod: Lmod, prefix: Prefix, names: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield (name, text) of each module, by one `module show`: a rule, the file's path, a rule, then the statements."""
    said = lmod.show_modules([modules_folder(prefix)], names)
    parts = re.split(r"^-{20,}\n\s+(/.*\.lua):\n-{20,}\n", said, flags=re.MULTILINE)
    for path, text in zip(parts[1::2], parts[2::2], strict=True):
        yield "/".join(Path(path).with_suffix("").parts[-2:]), text


def _unreadable(name: str, statement: str) -> EnvmgrError:
    return EnvmgrError(
        "module-unreadable",
        f"EasyBuild's module {name} does what a flat module cannot repeat",
        context=statement[:300],
        hint="leave it out of the easyconfig (modaliases, modluafooter), or say it in the recipe's environment",
    )
