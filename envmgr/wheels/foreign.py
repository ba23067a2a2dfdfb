"""What a package says that it is: parsed with `packaging` where it enters, and written anew.

Source: packaging.python.org, "Core metadata specifications".
"""

from __future__ import annotations

import re
from email.parser import HeaderParser

from packaging.utils import NormalizedName, canonicalize_name
from packaging.version import InvalidVersion, Version

from envmgr.system.models import FrozenModel
from envmgr.wheels.requirements import checked_all
from envmgr.wording import one_line

_NAME = r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?"


class Metadata(FrozenModel):
    """What a package is, and what it needs: parsed, and written anew."""

    name: str
    version: str
    requires: tuple[str, ...] = ()
    extras: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """As a file METADATA."""
        rows = [f"Provides-Extra: {extra}" for extra in self.extras] + [
            f"Requires-Dist: {row}" for row in self.requires
        ]
        return "\n".join(["Metadata-Version: 2.1", f"Name: {self.name}", f"Version: {self.version}", *rows, ""])


def extra_name(text: str) -> NormalizedName:
    """The normalised name of an extra, or of a package. ValueError."""
    if not re.fullmatch(_NAME, text):
        raise ValueError(f"`{one_line(text)}` is no name")
    return canonicalize_name(text)


def read_metadata(text: str) -> Metadata:
    """Of a METADATA or a PKG-INFO. ValueError for what packaging does not read, or would not write so."""
    head = HeaderParser().parsestr(text)
    try:
        version = str(Version(str(head["Version"])))
    except InvalidVersion:
        raise ValueError(f"`{one_line(head['Version'])}` is no version") from None
    return Metadata(
        name=extra_name(str(head["Name"])),
        version=version,
        requires=checked_all(head.get_all("Requires-Dist") or ()),
        extras=tuple(dict.fromkeys(extra_name(str(each)) for each in head.get_all("Provides-Extra") or ())),
    )
