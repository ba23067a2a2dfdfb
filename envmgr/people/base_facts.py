"""The packages of a Python: run by the Python of an entry, in the environment of its module. It prints one line of JSON.

It runs under whatever Python an entry has, and imports nothing of envmgr.
"""

import json
import os
import sys
import sysconfig
from importlib import metadata


def _facts() -> dict:  # type: ignore[type-arg] # for Pythons before 3.9, too
    packages = []
    for each in metadata.distributions():
        name = each.metadata["Name"]
        if name:
            points = [(p.name, p.value) for p in each.entry_points if p.group == "console_scripts"]
            packages.append([name, each.version, list(each.requires or ()), points])
    return {
        "version": ".".join(map(str, sys.version_info[:3])),
        "program": os.path.realpath(sys.executable),
        "prefix": sys.prefix,
        "base": sys.base_prefix,
        "folders": [sysconfig.get_path("purelib"), sysconfig.get_path("platlib")],
        "packages": packages,
    }


if __name__ == "__main__":
    sys.stdout.write(json.dumps(_facts()) + "\n")
