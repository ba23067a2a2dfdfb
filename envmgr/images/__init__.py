"""Images of installs: made here, mounted on nodes over the installs' own paths."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

ImageStatus = Literal["made", "there", "would-make"]


@dataclass(frozen=True, slots=True)
class ImageRow:
    """The image of one install. `install` and `image` are relative to the prefix; `entries` stand on the install.

    `size` and `of` are bytes of the image (0 if it is not made yet) and of the install's files; `why` says why it was
    made.
    """

    install: str
    image: str
    entries: tuple[str, ...]
    status: ImageStatus
    size: int
    of: int
    compression: Literal["zstd", "lz4"]
    why: str
