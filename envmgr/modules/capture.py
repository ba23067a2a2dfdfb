"""The effects of shell scripts on the environment as data: they are run with and without values, and the runs are
compared.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
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
_INDIRECT = re.compile(r"\beval\b|\b(?:export|unset|read|printf\s+-v)\s+(?:-\w+\s+)?[\"']?\$")
_CAPITALS = re.compile(r"\b[A-Z_][A-Z0-9_]{2,}\b")


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


def work_names(texts: Iterable[str]) -> frozenset[str]:
    """Return names that are assigned but never exported. If they are unset at the end, scripts only remove their own
    variables.
    """
    everything = "\n".join(texts)
    exported = {name for words in _EXPORTED.findall(everything) for name in _names(words)}
    return frozenset(_plainly_assigned(everything) - exported)


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
            `activation-changes-shell`, functions, aliases, directory, umask, processes;
            `activation-forbidden`, it changes a variable that no entry may touch;
            `activation-unclear`, its effect cannot be expressed as operations on variables.
        Interrupted: the runner was cancelled.
    """
    texts = [step.text for step in shell.steps]
    plain = shell.trace("plain", {})
    _refuse_forbidden(shell, plain)
    names = {name for name in plain.changed() | assigned_names(texts) if shell.can_be_preset(name)}
    # Not their notes: an "already done" flag, which a user's shell does not have, would keep them from doing anything.
    names = {name for name in names if _BOOKKEEPING.fullmatch(name) is None}
    again = shell.trace("again", {})
    full = shell.trace("full", {"PATH": "/" + sentinel("PATH"), **{name: sentinel(name) for name in sorted(names)}})
    _refuse_forbidden(shell, full)
    return _Capture(shell, plain, again, full, work_names(texts)).operations()


def forbidden_changes(trace: Trace, own: Sequence[object] = ()) -> dict[str, str]:
    """Map the changed variables that no module may change to the reason. An empty value for an unset variable
    (`export X="$X"`) is no change.
    """
    found = {}
    for name in sorted(trace.changed(own=True) - _OF_EACH_RUN):
        before, after = _elements(trace.was(name) or "", ":"), _elements(trace.now(name) or "", ":")
        added = [each for each in after if each not in before] if {*before} <= {*after} else ()
        if (trace.was(name) or trace.now(name)) and (
            fault := fault_in_variable(name, as_list=True, added=added, own=own)
        ):
            found[name] = fault
    return found


def _refuse_forbidden(shell: Shell, trace: Trace) -> None:
    for name, fault in forbidden_changes(trace, shell.own).items():
        raise EnvmgrError(
            "activation-forbidden",
            f"{shell.steps[trace.changes(name)[0]].label} changes {name}",
            context=f"to {trace.now(name)!r}" if trace.now(name) else "unsets it",
            hint=f"no module may do so: {fault}; {shell.instead}",
        )


@dataclass(frozen=True, slots=True)
class _Capture:
    """The runs to compare.

    `plain` had nothing set; `again` is the same with another HOME, user and directory. `full` had a sentinel in every
    variable that scripts change. `work` names variables that scripts use internally and remove again.
    """

    shell: Shell
    plain: Trace
    again: Trace
    full: Trace
    work: frozenset[str]

    def operations(self) -> tuple[EnvOp, ...]:
        names = self.plain.changed() | self.full.changed()
        return tuple(op for name in sorted(names, key=lambda n: (self._step(n), n)) for op in self._derive(name))

    def _derive(self, name: str) -> Iterator[EnvOp]:
        """Yield the operations of one variable, by its value in `plain` (one) and in `full` (two)."""
        one, two, own = self.plain.now(name), self.full.now(name), self.full.was(name)
        if one is None and name in self.plain.shell_only:
            self.shell.log(f"left out {name}, which {self._label(name)} uses without exporting it")
            return
        if one != self.again.now(name):
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
            if one:  # else `export X="$X"`: an empty value where there was none
                yield EnvOp(kind="set-default", name=name, value=one)
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
        if _BOOKKEEPING.fullmatch(name):
            return bool(others) or one != two
        backup = others and two == self.full.was(others[0]) and (one or "") == (self.plain.was(others[0]) or "")
        return bool(backup and others[0] in self.plain.changed() | self.full.changed())

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

    def _step(self, name: str) -> int:
        return (self.plain.changes(name) or self.full.changes(name))[0]

    def _label(self, name: str) -> str:
        return self.shell.steps[self._step(name)].label

    def _unclear(self, name: str, what: str) -> NoReturn:
        values = [f"with nothing set: {_shown(self.plain.now(name))}"]
        values += [f"with every variable set: {_shown(self.full.now(name))}"]
        if self.again.now(name) != self.plain.now(name):
            values += [f"with nothing set, for another user: {_shown(self.again.now(name))}"]
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
