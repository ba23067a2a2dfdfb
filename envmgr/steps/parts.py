"""The parts of installs, and versions of them: steps of `find` and `sbom`."""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass

from envmgr.backends import get_backend
from envmgr.errors import EnvmgrError, InputError
from envmgr.store.manifest import read_provenance
from envmgr.store.parts import PYPI, Part, same_name
from envmgr.store.prefix import Install
from envmgr.wording import one_line

_WANTED = re.compile(r"\s*([A-Za-z0-9_][\w.+/-]*)\s*((?:===|[=~!<>]=|[<>=])[^=~!<>].*)?", re.ASCII)
_CLAUSE = re.compile(r"\s*((===|[=!]=|=)\s*v?[0-9][\w.+!*-]*|([~<>]=|[<>])\s*v?[0-9][\w.+!-]*)\s*", re.ASCII)
_LETTER = re.compile(r"(?<=[0-9])([a-z])(?=$|[\s,])")


@dataclass(frozen=True, slots=True)
class WantedPart:
    """A request: a name, and versions in the words of packaging; `versions` is empty for all."""

    text: str
    name: str
    versions: str

    def judge(self, part: Part) -> bool | None:
        """Return whether it is this part; None if the name is, and the version cannot be compared.

        Versions of an index are compared by packaging, all others by conda's rules; but there a letter at the end is
        later, as OpenSSL and the time zones count: 1.1.1 < 1.1.1w < 1.1.2. conda itself has 1.1.1w before 1.1.1.
        """
        if part.called != same_name(part.ecosystem, self.name):
            return False
        if not self.versions:
            return True
        with suppress(ValueError):
            if part.ecosystem == PYPI:
                from packaging.specifiers import SpecifierSet
                from packaging.version import Version

                return SpecifierSet(self.versions).contains(Version(part.version), prereleases=True)
            return _conda_says(self.versions, part.version)
        return None


def parse_wanted(text: str) -> WantedPart:
    """Parse `openssl`, `openssl<3.0.15`, `numpy>=1,!=1.26.4`. Raise InputError `specifier-invalid`."""
    found = _WANTED.fullmatch(text)
    versions = ((found and found[2]) or "").strip()
    if found and all(_CLAUSE.fullmatch(each) for each in versions.split(",") if versions):
        return WantedPart(text, found[1], versions)
    hint = "write NAME, or NAME with versions, in quotes: 'openssl<3.0.15', 'numpy>=1.24,<2'"
    raise InputError("specifier-invalid", f"`{one_line(text)}` is no name with versions", hint=hint)


def _conda_says(versions: str, version: str) -> bool:
    """Raise ValueError if they cannot be compared: a version that begins with a word has no place among numbers."""
    from rattler import Version, VersionSpec
    from rattler.exceptions import InvalidVersionError, InvalidVersionSpecError

    if not re.match(r"v?[0-9]", version):
        raise ValueError(version)
    try:
        versions = re.sub(r"==(?=[^,]*\*)", "=", versions)  # `==3.0.*` of packaging
        plain = (re.sub(r"(?<![\w.+-])v(?=[0-9])", "", each) for each in (versions, version))
        wanted, found = (_LETTER.sub(r"post.\1", each) for each in plain)
        return bool(VersionSpec(wanted).matches(Version(found)))
    except (InvalidVersionError, InvalidVersionSpecError) as error:
        raise ValueError(str(error)) from None


@dataclass(frozen=True, slots=True)
class Known:
    """The facts of an install: its parts, the entry that it was built for, the names in that entry's lock, and when
    it was built.
    """

    parts: tuple[Part, ...]
    entry: str
    names: frozenset[str]
    time: str


def read_parts(install: Install) -> Known:
    """Return what the manifest of an install says of its packages. Raise EnvmgrError `manifest-damaged`,
    `format-unknown`, `unknown-backend`.
    """
    provenance = read_provenance(install.manifest)
    try:
        entry, made_by = str(provenance.get("entry", install.entry)), str(provenance["recipe"]["backend"])
        parts = tuple(get_backend(made_by).parts(provenance, provenance.get("lock") or {}))
        names = frozenset(str(name).lower() for name in provenance.get("packages") or ())
        return Known(parts, entry, names, str(provenance.get("time", "")))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        message = f"what {install.manifest} says of its packages cannot be read"
        context = one_line(f"{type(error).__name__}: {error}", 200)
        hint = "remove it and its install, then build the entry again"
        raise EnvmgrError("manifest-damaged", message, context=context, hint=hint) from None
