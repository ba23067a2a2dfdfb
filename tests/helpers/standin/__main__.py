"""`python -m tests.helpers.standin`: build the stand-in channel that all tests share, in tests/.cache."""

from __future__ import annotations

import logging
import sys

from tests.helpers.builders import builders
from tests.helpers.places import CACHE

from .channel import cached_channel
from .package import StandinError


def main() -> int:
    """Build the channel unless it is up to date; 0, or 1 with the reason on stderr."""
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="standin: %(message)s")
    try:
        cached_channel(CACHE)
        builders()
    except StandinError as error:
        sys.stderr.write(f"error[standin]: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
