"""`envmgr man`: manual pages, from what `--help` is made of."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from envmgr import __version__
from envmgr.catalog.names import nearest
from envmgr.errors import InputError
from envmgr.report import Result
from envmgr.system.files import atomic_write, explain_os_error
from envmgr.system.safe_paths import change
from envmgr.wording import did_you_mean

# Else man prints typographic signs, which no shell understands.
_PLAIN = str.maketrans({"\\": "\\e", "-": "\\-", "'": "\\(aq", "`": "\\(ga", "^": "\\(ha", "~": "\\(ti"})


@dataclass(frozen=True, slots=True)
class ManPage:
    """A page. `name` is that of its file, without the ending."""

    name: str
    text: str


@dataclass(frozen=True, slots=True)
class ManResult(Result):
    """Pages, and the folder to which they were written."""

    schema: ClassVar[str] = "envmgr.man/1"
    pages: tuple[ManPage, ...]
    output: Path | None
    dry_run: bool


def manual(pages: Iterable[ManPage], words: Sequence[str], output: Path | None, *, dry_run: bool) -> ManResult:
    """Return the page of the verb `words`; with `output` write all pages to its folder man1.

    Raises:
        InputError: `unknown-verb`.
        EnvmgrError: the folder cannot be written, see `explain_os_error`.
    """
    named = {page.name: page for page in pages}
    name = "-".join(["envmgr", *(words[1:] if words[:1] == ["envmgr"] else words)])
    if name not in named:
        hint = did_you_mean(
            [_words(each.removeprefix("envmgr-"), named) for each in nearest(name, named)], "`envmgr --help` lists all"
        )
        raise InputError("unknown-verb", f"there is no verb `{' '.join(words)}`", hint=hint)
    if output is None:
        return ManResult((named[name],), None, dry_run)
    if not dry_run:
        with explain_os_error(output):
            folder = output / "man1"
            made = [each for each in (folder, *folder.parents) if not each.exists()]
            folder.mkdir(parents=True, exist_ok=True)
            for each in made:
                change(each, mode=0o755)  # man reads them as any user
            for page in named.values():
                atomic_write(output / f"man1/{page.name}.1", page.text, mode=0o644)
    return ManResult(tuple(named.values()), output, dry_run)


def _words(name: str, named: Mapping[str, ManPage]) -> str:
    """Return `user create` for `user-create`: what is typed."""
    group, dash, rest = name.partition("-")
    return f"{group} {rest}" if dash and f"envmgr-{group}" in named else name


def page_text(name: str, usage: str, help_text: str, lists: dict[str, list[tuple[str, str]]], epilog: str) -> str:
    """Return a page in the language of troff's macros `man`.

    `lists` has rows of two columns by the heading of their section. Source: man(7), "Macros for man pages".
    """
    does, _, more = help_text.partition("\n\n")
    example, _, pages = epilog.partition("\n\n")
    lines = [f'.TH {_plain(name.upper())} 1 "" "envmgr {__version__}" "envmgr"']
    lines += [".SH NAME", f"{_plain(name)} \\- {_plain(does.rstrip('.'))}", ".SH SYNOPSIS", _plain(usage)]
    lines += [".SH DESCRIPTION", _plain(does)]
    lines += [line for paragraph in filter(None, more.split("\n\n")) for line in (".PP", _plain(paragraph))]
    for heading, rows in lists.items():
        lines += [f".SH {heading}"] * bool(rows)
        lines += [line for term, text in rows for line in (".TP", f".B {_plain(term)}", _plain(text))]
    if example:
        lines += [".SH EXAMPLE", ".nf", _plain(example.removeprefix("Example: ")), ".fi"]
        lines += ['.SH "SEE ALSO"', _plain(pages.removeprefix("\b\n")), ".PP", ".BR envmgr (1)"]
    return "".join(f"{line}\n" for line in lines)


def _plain(text: str) -> str:
    """Return text that troff prints as it is, on one line; a dot at its beginning is no macro."""
    return "\\&" * text.startswith(".") + " ".join(text.split()).translate(_PLAIN)
