"""conda's environment.yml: what is asked for, of conda and of pip.

Source: conda's documentation, "Creating an environment file manually".
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from envmgr.exchange import Dropped, ExactPackages, Parsed, ReadFile
from envmgr.exchange.checks import channel_fault, row_of, spec_fault
from envmgr.system.yamlfile import dump_yaml, parse_yaml

NAME = re.compile(r"env(ironment)?[^/]*\.ya?ml")
CONTENT = re.compile(r"^dependencies:", re.MULTILINE)


def read(given: ReadFile) -> Parsed:
    """Return the specs, and the rows of `pip`. Raise InputError `import-invalid`."""
    data = parse_yaml(given.text, given.path)
    if not isinstance(data, dict) or not isinstance(data.get("dependencies"), list):
        raise given.invalid("it has no list `dependencies`")
    left = [
        given.left(f"{key}:", "it is not of the recipe's input")
        for key in data
        if key not in ("name", "channels", "dependencies")
    ]
    channels, specs, rows = list[str](), list[str](), list[str]()
    for channel in given.rows(data.get("channels")):
        if channel == "nodefaults":  # no recipe has them unless it names them
            continue
        if fault := channel_fault(channel):
            left.append(given.left(channel, fault))
        else:
            channels.append(channel)
    for each in data["dependencies"]:
        if isinstance(each, dict) and [*each] == ["pip"]:
            for row in given.rows(each["pip"]):
                found = row_of(given, row)
                rows += [found] if isinstance(found, str) else []
                left += [found] if isinstance(found, Dropped) else []
            continue
        channel, _, spec = str(each).rpartition("::")
        if fault := spec_fault(spec) if isinstance(each, str) else "it is no name of a package":
            left.append(given.left(each, fault))
            continue
        specs.append(spec)
        if channel:
            left.append(given.left(each, "kept without its channel: all packages come from the recipe's channels"))
    return Parsed(
        left=tuple(left),
        name=str(data.get("name") or ""),
        channels=tuple(channels),
        specs=tuple(specs),
        rows=tuple(rows),
    )


def write(exact: ExactPackages) -> tuple[str, list[Dropped]]:
    """Return each package by version and build; of wheels, the versions."""
    name, dependencies = re.sub("[/ :#]", "-", exact.entry), list[Any]()
    if exact.conda is None:
        dependencies = [f"python={'.'.join(exact.python.split('.')[:2])}", "pip"]
    else:
        dependencies = [f"{each.name}={each.version}={each.build}" for each in exact.conda.packages]
    if exact.wheels:
        dependencies += [{"pip": [f"{each.name}=={each.version}" for each in exact.wheels]}]
    channels = ["conda-forge"] if exact.conda is None else [each.url for each in exact.conda.channels]
    return dump_yaml({"name": name, "channels": channels, "dependencies": dependencies}, width=200), [*_lost(exact)]


def _lost(exact: ExactPackages) -> Iterator[Dropped]:
    if exact.wheels:
        yield Dropped(0, "sha256 of wheels", "the format has none")
