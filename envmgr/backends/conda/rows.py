"""What a package asks for, as repodata and recipes write it: a name, a version, a build string. Versions are not compared here."""

from __future__ import annotations

import re
from dataclasses import dataclass
from fnmatch import fnmatchcase

_ROW = re.compile(r"\s*(?:\S+::)?([A-Za-z0-9_][A-Za-z0-9_.-]*)([^;]*)")
_BRACKET = re.compile(r"\[(.*)\]\s*$")


@dataclass(frozen=True, slots=True)
class Row:
    """`version` and `build` are empty where nothing is said of them; `name`, too, of what holds only sometimes (`mkl; if …`)."""

    name: str
    version: str = ""
    build: str = ""


def read_row(text: str) -> Row:
    """`mkl 2023.*`, `mkl>=2023,<2024`, `_openmp_mutex * *_llvm`, `mkl=2023=h1_0`, `mkl[build='*_llvm']`."""
    match = _ROW.fullmatch(text)
    if match is None:
        return Row("")
    rest, build = match[2].strip(), ""
    if bracket := _BRACKET.search(rest):
        build = next(iter(re.findall(r"build\s*=\s*['\"]?([^'\",\]]+)", bracket[1])), "")
        rest = rest[: bracket.start()].strip()
    if exact := re.fullmatch(r"={1,2}([^=<>!~|,\s]+)=([^=\s]+)", rest):
        return Row(match[1].lower(), exact[1], exact[2])
    rest = re.sub(r"(?<=[<>=!~,|])\s+|\s+(?=[,|])", "", rest)
    version, _, own = rest.partition(" ")
    if inner := re.fullmatch(r"([^=<>!~|,]+)=([^=]+)", version):  # `_openmp_mutex 4.5=2_gnu`
        return Row(match[1].lower(), inner[1], inner[2])
    return Row(match[1].lower(), version, own.strip() or build)


def is_build(found: str, wanted: str) -> bool:
    """As conda compares: `*` is any text, and what stands between `^` and `$` a regular expression."""
    if wanted.startswith("^") and wanted.endswith("$"):
        try:
            return re.fullmatch(wanted[1:-1], found) is not None
        except re.error:
            return True  # what cannot be read contradicts nothing
    return any(fnmatchcase(found, each) for each in wanted.split("|"))
