"""`python -m tests.helpers.standin [FOLDER] [--wheels DIR]`: build the stand-in channel; the folder goes to stdout.

Without FOLDER it is the one that all tests share, in tests/.cache.
"""

from __future__ import annotations

import argparse
import logging
import sys
from pathlib import Path

from tests.helpers.builders import builders
from tests.helpers.places import CACHE

from .channel import build_channel, cached_channel
from .package import StandinError


def main(arguments: list[str] | None = None) -> int:
    """Build the channel unless it is up to date; 0, or 1 with the reason on stderr."""
    parser = argparse.ArgumentParser(prog="python -m tests.helpers.standin", description=__doc__)
    parser.add_argument(
        "folder", type=Path, nargs="?", help="where the channel goes (default: the one that tests share)"
    )
    parser.add_argument("--wheels", type=Path, help="where downloads are kept (default: FOLDER.wheels)")
    parser.add_argument("--package", action="append", metavar="NAME", help="only this one; may be repeated")
    options = parser.parse_args(arguments)
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="standin: %(message)s")
    try:
        if options.folder is None:
            cached_channel(CACHE)
            builders()
            return 0
        folder: Path = options.folder.absolute()
        wheels: Path = options.wheels or folder.with_name(folder.name + ".wheels")
        build_channel(folder, wheels=wheels.absolute(), packages=set(options.package) if options.package else None)
    except StandinError as error:
        sys.stderr.write(f"error[standin]: {error}\n")
        return 1
    sys.stdout.write(f"{folder}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
