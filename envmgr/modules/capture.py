"""The effects of shell scripts on the environment as data: they are run with and without values, and the runs are
compared.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import NoReturn

from envmgr.catalog.shell_rules import fault_in_variable
from envmgr.errors import EnvmgrError
from envmgr.modules.capture_run import Shell, Trace, sentinel, sentinels_in
from envmgr.modules.spec import EnvOp

_NAME = r"[A-Za-z_]\w*"
_ASSIGNED = re.compile(rf"(?<![\w$}}{{-])({_NAME})\+?=|\$\{{({_NAME}):?=|\bfor\s+({_NAME})\b", re.ASCII)
_DECLARED = re.compile(r"\b(?:unset|export|declare|typeset|local|read|printf\s+-v)\b([^;&|#\n]*)")
_EXPORTED = re.compile(r"\b(?:export|declare\s+-\w*x|typeset\s+-\w*x)\b([^;&|#\n]*)")
_READ = re.compile(rf"\$\{{?[#!]?({_NAME})", re.ASCII)
_INDIRECT = re.compile(r"\beval\b|\b(?:export|unset|read|printf\s+-v)\s+(?:-\w+\s+)?[\"']?\$")
_CAPITALS = re.compile(r"\b[A-Z_][A-Z0-9_]{2,}\b")
_CLOCK = re.compile(r"\bdate\b|\bEPOCH|\bSECONDS\b|%\(")


def assigned_names(texts: Iterable[str]) -> frozenset[str]:
    """Return names that may be assigned or unset. A name too many does little harm; a missing one may hide an
    `unset`.
    """
    names: set[str] = set()
    for text in texts:
        names |= _plainly_assigned(text)
        for words in _DECLARED.findall(text):
            names |= _names(words)
        if _INDIRECT.search(text):
            names |= set(_CAPITALS.findall(text))
    return frozenset(names)


def mentioned_names(texts: Iterable[str]) -> frozenset[str]:
    """Return names whose value may be read."""
    return frozenset(name for text in texts for name in _READ.findall(text))


def work_names(texts: Iterable[str]) -> frozenset[str]:
    """Return names that are assigned but never exported. If they are unset at the end, scripts only remove their own
    variables.
    """
    everything = "\n".join(texts)
    exported = {name for words in _EXPORTED.findall(everything) for name in _names(words)}
    return frozenset(_plainly_assigned(everything) - exported)


def tells_time(texts: Iterable[str]) -> bool:
    return any(_CLOCK.search(text) for text in texts)


def _plainly_assigned(text: str) -> set[str]:
    return {name for match in _ASSIGNED.findall(text) for name in match if name}


def _names(words: str) -> set[str]:
    """Return the names in `A B="x" -f C`. Values behind `=` are not distinguished from names."""
    return set(re.findall(rf"(?<![\w$}}{{/.-]){_NAME}(?![\w./-])", words, re.ASCII))


_OF_EACH_RUN = frozenset({"PWD", "OLDPWD", "SHLVL", "_"})  # they change without any script
_SEPARATORS = ": ;,"
_BOOKKEEPING = re.compile(
    r"_.*|.*(BACKUP|SAVED).*|OLD_.*|.*_OLD"
)  # notes of scripts for their deactivation; an unload does not need them


def capture_changes(shell: Shell) -> tuple[EnvOp, ...]:
    """Return what the steps of `shell` change, in load order.

    Operations are sorted by the step that first changed the variable, then by name; those on one variable stay together.

    Raises:
        EnvmgrError: `activation-failed`, a step ends the shell, hangs, gives up or cannot be parsed;
            `activation-defines-function`, also for aliases; `activation-changes-shell`, directory, umask, processes;
            `activation-forbidden`, it changes a variable that no entry may touch;
            `activation-unclear`, its effect cannot be expressed as operations on variables.
        Interrupted: the runner was cancelled.
    """
    capture = _compare(shell)
    operations = capture.operations()
    capture.refuse_outside_values({op.name for op in operations})
    return operations


def _compare(shell: Shell) -> _Capture:
    """Run the scripts as often as needed to distinguish their operations."""
    texts = [step.text for step in shell.steps]
    plain = shell.trace("plain", {})
    _refuse_forbidden(shell, plain)
    names = {name for name in plain.changed() | assigned_names(texts) if shell.can_be_preset(name)}
    for attempt in itertools.count():
        preset = {"PATH": "/" + sentinel("PATH"), **{name: sentinel(name) for name in sorted(names)}}
        full = shell.trace(f"full{attempt}", preset)
        _refuse_forbidden(shell, full)
        solos = {
            name: shell.trace(f"solo{attempt}-{name}", {name: sentinel(name)})
            for name in sorted(names)
            if plain.now(name) and full.now(name) == full.was(name)
        }
        guards = {name for name, solo in solos.items() if _guards_others(name, solo, plain)}
        if not guards:
            break
        names -= guards  # "already done" flags, which a user's shell does not have: treat them as never set
    if tells_time(texts):
        shell.runner.cancel.wait(1.05)  # seconds: a clock then shows another second
    again = shell.trace("again", preset)
    return _Capture(shell, plain, full, again, solos, preset, work_names(texts), mentioned_names(texts))


def _guards_others(name: str, solo: Trace, plain: Trace) -> bool:
    """Return whether it is a private flag that, when set, keeps scripts from changing other variables."""
    others = plain.changed() - {name}
    return (
        _BOOKKEEPING.fullmatch(name) is not None
        and solo.now(name) == sentinel(name)
        and any(solo.now(other) != plain.now(other) for other in others)
    )


def forbidden_changes(trace: Trace) -> list[str]:
    """Return the changed variables that no module may change. An empty value for an unset variable (`export X="$X"`) is
    no change.
    """
    changed = trace.changed(own=True) - _OF_EACH_RUN
    return sorted(n for n in changed if fault_in_variable(n, as_list=True) and (trace.now(n) or trace.was(n)))


def _refuse_forbidden(shell: Shell, trace: Trace) -> None:
    for name in forbidden_changes(trace):
        if name in shell.allowed:
            continue
        raise EnvmgrError(
            "activation-forbidden",
            f"{shell.steps[trace.changes(name)[0]].label} changes {name}",
            context=f"to {trace.now(name)!r}" if trace.now(name) else "unsets it",
            hint=f"no entry may change {name}, which reaches into programs outside it: {shell.instead}",
        )


@dataclass(frozen=True, slots=True)
class _Capture:
    """The runs to compare.

    `plain` had nothing set. `full` had `preset`, a sentinel in every variable that scripts change. `again` is the same
    with another HOME, user and directory. `solos` had one variable set each, for those that `full` left unchanged.
    `work` names variables that scripts use internally and remove again. `mentioned` names variables whose values
    scripts may read.
    """

    shell: Shell
    plain: Trace
    full: Trace
    again: Trace
    solos: Mapping[str, Trace]
    preset: Mapping[str, str]
    work: frozenset[str]
    mentioned: frozenset[str]

    def operations(self) -> tuple[EnvOp, ...]:
        names = self.plain.changed() | self.full.changed()
        return tuple(op for name in sorted(names, key=lambda n: (self._step(n), n)) for op in self._derive(name))

    def _derive(self, name: str) -> Iterator[EnvOp]:
        """Yield the operations of one variable, by its value in `plain` (one) and in `full` (two)."""
        one, two, own = self.plain.now(name), self.full.now(name), self.full.was(name)
        if one is None and name in self.plain.shell_only:
            self.shell.log(f"left out {name}, which {self._label(name)} uses without exporting it")
            return
        if two != self.again.now(name):
            self._unclear(name, "sets {name} to a value that changes from run to run")
        # Such bytes were decoded to surrogates, which no modulefile in UTF-8 can hold.
        for value in (one, two):
            if any("\ud800" <= char <= "\udfff" for char in value or ""):
                self._unclear(name, "sets {name} to bytes that are not UTF-8")
        others = tuple(other for other in sentinels_in(two or "") if other != name)
        if self._is_bookkeeping(name, others):
            self.shell.log(f"left out {name}, which {self._label(name)} keeps for its deactivation")
        elif others:
            self._unclear(name, f"makes {{name}} from what the user has in {others[0]}")
        elif two is None:
            if one is not None:
                self._unclear(name, "sets {name} only where it is not set, and else unsets it")
            if name not in self.work:
                yield EnvOp(kind="unset", name=name)
        elif two == own:
            yield from self._default(name, one)
        elif own is not None and own in two:
            yield from self._list(name, one, two.split(own))
        # To set PATH as a whole would remove the user's own folders from it.
        elif one == two and name != "PATH":
            yield EnvOp(kind="set", name=name, value=two)
        else:
            self._unclear(name, "changes {name} in a way that depends on what is set before")

    def _is_bookkeeping(self, name: str, others: tuple[str, ...]) -> bool:
        """Return whether it is a backup of a variable that scripts change, or a flag that records what they found."""
        one, two = self.plain.now(name), self.full.now(name)
        changed = self.plain.changed() | self.full.changed()
        noted = _BOOKKEEPING.fullmatch(name) is not None
        if others:
            backup = two == self.full.was(others[0]) and (one or "") == (self.plain.was(others[0]) or "")
            return noted or (backup and others[0] in changed)
        if name in self.solos:
            return noted and self.solos[name].now(name) != sentinel(name)
        differs = one != two and sentinel(name) not in (two or "")
        return noted and differs

    def _default(self, name: str, one: str | None) -> Iterator[EnvOp]:
        """Yield a default for a variable that `full` left unchanged, if this depends on the variable itself only."""
        if not one:
            return  # `export X="$X"`: an empty value where there was none
        if name not in self.solos or self.solos[name].now(name) != sentinel(name):
            guards = [other for other, solo in self.solos.items() if other != name and solo.now(name) != one]
            self._unclear(name, f"sets {{name}} only where {' or '.join(guards) or 'another variable'} is not set")
        yield EnvOp(kind="set-default", name=name, value=one)

    def _list(self, name: str, one: str | None, parts: list[str]) -> Iterator[EnvOp]:
        """Yield the elements before and after the user's value. If the variable has no value, a default may take its
        place.
        """
        if len(parts) != 2:
            self._unclear(name, "repeats the former value of {name}")
        head, tail = parts
        used = {edge for edge in (head[-1:], tail[:1]) if edge}
        if len(used) > 1 or not used <= set(_SEPARATORS):
            self._unclear(name, "changes the text of {name} and not its elements")
        separator = used.pop() if used else ":"
        before, after = _elements(head, separator), _elements(tail, separator)
        # PATH always has a value, which is used here like a default but is not one.
        default = _elements(one or "", separator)
        base = _elements(self.plain.was(name) or "", separator)
        end = len(default) - len(after)
        if len(before) > end or default[: len(before)] != before or default[end:] != after:
            self._unclear(name, "adds other elements to {name} when it is not set")
        middle = default[len(before) : end]
        if base and middle != base:
            self._unclear(name, "changes {name} in a way that depends on what is set before")
        if separator == ":":
            # An element that repeats in a path has no effect, and a list keeps each element once.
            before, after = list(dict.fromkeys(before)), list(dict.fromkeys(after))
        elements = [*before, *middle, *after]
        if separator != ":" and (len(set(elements)) < len(elements) or any(e[-1] in _SEPARATORS for e in elements)):
            self._unclear(name, "adds words to {name} that repeat or hold other separators, which a list cannot keep")
        if middle and not base:
            yield EnvOp(kind="set-default", name=name, value=separator.join(middle))
        # Each element is put in front of the one before.
        for element in reversed(before):
            yield EnvOp(kind="prepend", name=name, value=element, separator=separator)
        for element in after:
            yield EnvOp(kind="append", name=name, value=element, separator=separator)

    def refuse_outside_values(self, names: AbstractSet[str]) -> None:
        """Run once more with values in variables that scripts only read, and refuse any that end up in `names`, which
        scripts set.

        It is no fault if a script then takes another branch (`$ZSH_VERSION`, `$CONDA_BUILD`) or fails.
        """
        outside = {name: sentinel(name) for name in self.mentioned - set(self.preset) if self.shell.can_be_preset(name)}
        if not outside:
            return
        try:
            trace = self.shell.trace("outside", {**self.preset, **outside})
        except EnvmgrError as error:
            if error.exit_code != EnvmgrError.exit_code:
                raise  # interrupted
            self.shell.log(f"not checked for values of the user's variables: {error.message}")
            return
        for name in sorted(names - set(outside), key=lambda n: (self._step(n), n)):
            taken = [other for other in sentinels_in(trace.now(name) or "") if other in outside]
            if taken and _BOOKKEEPING.fullmatch(name) is None:
                self._unclear(name, f"makes {{name}} from what the user has in {taken[0]}", trace)

    def _step(self, name: str) -> int:
        return (self.plain.changes(name) or self.full.changes(name))[0]

    def _label(self, name: str) -> str:
        return self.shell.steps[self._step(name)].label

    def _unclear(self, name: str, what: str, last: Trace | None = None) -> NoReturn:
        values = [f"with nothing set: {_shown(self.plain.now(name))}"]
        values += [f"with every variable set: {_shown((last or self.full).now(name))}"]
        if self.again.now(name) != self.full.now(name):
            values += [f"the same, for another user: {_shown(self.again.now(name))}"]
        raise EnvmgrError(
            "activation-unclear",
            f"{self._label(name)} {what.format(name=name)}",
            context=values,
            hint=f"a modulefile can set, unset, prepend, append, and set where nothing is set: {self.shell.instead}",
        )


def _elements(text: str, separator: str) -> list[str]:
    return [element for element in text.split(separator) if element]


def _shown(value: str | None) -> str:
    return "not set" if value is None else repr(value)
