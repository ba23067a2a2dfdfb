"""`envmgr completion`: the words that a shell offers after Tab, as one text that starts no Python.

The verbs and options are those of this envmgr; entries are read from what is current when Tab is pressed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from envmgr.commands import Context
from envmgr.errors import InputError
from envmgr.report import Result
from envmgr.system.shelltext import quote

SHELLS = ("bash", "zsh", "fish")
# `compgen -W` expands what it is given, so only names of entries come into it.
_ENTRIES = (
    "cd {modules} 2>/dev/null && for entry in */*.lua; do "
    'case "$entry" in *[!A-Za-z0-9._+/-]*) ;; *) echo "${{entry%.lua}}" ;; esac; done'
)


@dataclass(frozen=True, slots=True)
class CompletionResult(Result):
    """The text for a shell."""

    schema: ClassVar[str] = "envmgr.completion/1"
    shell: str
    text: str


@dataclass(frozen=True, slots=True)
class VerbWords:
    """A verb of one or two `words`. `options` are its long ones; with `entries` it takes entries."""

    words: tuple[str, ...]
    does: str
    options: tuple[str, ...]
    entries: bool


def completion_lines(ctx: Context, shell: str, verbs: Sequence[VerbWords]) -> CompletionResult:
    """Return the lines for `shell`. Raise InputError `unknown-shell`."""
    if shell not in SHELLS:
        raise InputError("unknown-shell", f"no lines for the shell `{shell}`", hint=f"known: {', '.join(SHELLS)}")
    ask = _ENTRIES.format(modules=quote(str(ctx.prefix.current / "modules")))
    groups: dict[str, list[str]] = {}
    for verb in verbs:
        groups.setdefault(verb.words[0], []).extend(verb.words[1:])
    lines = _fish(verbs, groups, ask) if shell == "fish" else _bash(verbs, groups, ask, zsh=shell == "zsh")
    return CompletionResult(shell, "".join(f"{line}\n" for line in lines))


def _bash(verbs: Sequence[VerbWords], groups: dict[str, list[str]], ask: str, *, zsh: bool) -> Iterator[str]:
    if zsh:
        yield "autoload -U +X bashcompinit && bashcompinit"
    yield "_envmgr() {"
    yield '  local cur=${COMP_WORDS[COMP_CWORD]} verb="${COMP_WORDS[1]}" words= entries='
    pairs = "|".join(name for name, seconds in groups.items() if seconds)
    yield f'  case "$verb" in {pairs}) [ "$COMP_CWORD" -lt 3 ] || verb="$verb ${{COMP_WORDS[2]}}" ;; esac'
    yield '  case "$COMP_CWORD:$verb" in'
    yield f'    1:*) words="{" ".join(groups)}" ;;'
    yield from (f'    *:{name}) words="{" ".join(seconds)}" ;;' for name, seconds in groups.items() if seconds)
    for verb in verbs:
        entries = " entries=yes" if verb.entries else ""
        yield f'    *:"{" ".join(verb.words)}") words="{" ".join(verb.options)}"{entries} ;;'
    yield "  esac"
    yield f'  [ -z "$entries" ] || case "$cur" in -*) ;; *) words="$words $({ask})" ;; esac'
    yield '  COMPREPLY=($(compgen -W "$words" -- "$cur"))'
    yield '  [ -n "${COMPREPLY[*]}" ] || COMPREPLY=($(compgen -f -- "$cur"))'
    yield "}"
    yield "complete -F _envmgr envmgr"


def _fish(verbs: Sequence[VerbWords], groups: dict[str, list[str]], ask: str) -> Iterator[str]:
    yield "complete -c envmgr -f"
    yield from (f"complete -c envmgr -n __fish_use_subcommand -a {name}" for name, more in groups.items() if more)
    for verb in verbs:
        *before, last = verb.words
        unseen = f"; and not __fish_seen_subcommand_from {' '.join(groups[before[0]])}" if before else ""
        when = f"__fish_seen_subcommand_from {before[0]}{unseen}" if before else "__fish_use_subcommand"
        yield f"complete -c envmgr -n {quote(when)} -a {last} -d {quote(verb.does)}"
        there = quote("; and ".join(f"__fish_seen_subcommand_from {word}" for word in verb.words))
        yield from (f"complete -c envmgr -n {there} -l {option[2:]}" for option in verb.options)
        if verb.entries:
            yield f"complete -c envmgr -n {there} -a {quote(f'(sh -c {quote(ask)})')}"
