"""EasyBuild's easystack: a list of easyconfigs, each of which becomes an entry.

Source: EasyBuild's documentation, "Easystack files"; easybuild-framework 5.4, `framework/easystack.py`.
"""

from __future__ import annotations

import re
from typing import Any

from envmgr.backends.easybuild.settings import EasyBuildInput
from envmgr.exchange import Dropped, OneEntry, Parsed, ReadFile
from envmgr.exchange.checks import fault_in
from envmgr.system.yamlfile import parse_yaml

NAME = re.compile(r"[^/]*\.ya?ml")
CONTENT = re.compile(r"^easyconfigs:", re.MULTILINE)
_FILE = re.compile(r"(?P<name>.+?)-(?P<version>[0-9].*)\.eb")
# EasyBuild's option -> the field of a recipe's input, and how its text is split.
_OPTIONS = {
    "rpath": ("rpath", ""),
    "filter-deps": ("filter_deps", ","),
    "accept-eula-for": ("accept_eula", ","),
    "cuda-compute-capabilities": ("cuda_compute_capabilities", ","),
    "amdgcn-capabilities": ("amdgcn_capabilities", ","),
}


def read(given: ReadFile) -> Parsed:
    """Return the easyconfigs. Raise InputError `import-invalid`."""
    data = parse_yaml(given.text, given.path)
    if not isinstance(data, dict) or not isinstance(data.get("easyconfigs"), list):
        raise given.invalid("it has no list `easyconfigs`")
    left = [given.left(f"{key}:", "it is not of a recipe") for key in data if key != "easyconfigs"]
    found = dict[tuple[str, str], OneEntry]()
    for each in data["easyconfigs"]:
        name, fields = next(iter(each.items())) if isinstance(each, dict) and len(each) == 1 else (each, None)
        file = str(name) if str(name).endswith(".eb") else f"{name}.eb"
        parts = _FILE.fullmatch(file)
        if parts is None or fault_in(EasyBuildInput, {"easyconfig": file}):
            left.append(given.left(name, "it is not the file name of an easyconfig, such as zlib-1.3.1.eb"))
            continue
        wanted, more = _input(given, file, fields)
        left += more
        key = (parts["name"].lower(), parts["version"])
        if key in found:
            left.append(given.left(name, "it is named twice"))
        found.setdefault(key, OneEntry(*key, wanted, "easybuild"))
    return Parsed(left=tuple(left), entries=tuple(found.values()))


def _input(given: ReadFile, file: str, fields: object) -> tuple[dict[str, Any], list[Dropped]]:
    """Return the input of a recipe with the options that it can have, and the others."""
    wanted: dict[str, Any] = {"easyconfig": file}
    left = list[Dropped]()
    said = fields if isinstance(fields, dict) else {}
    left += [given.left(f"{key}:", f"{file}: it is not of a recipe") for key in said if key != "options"]
    options = said.get("options")
    for key, value in (options if isinstance(options, dict) else {}).items():
        field, separator = _OPTIONS.get(str(key), ("", ""))
        tried = {**wanted, field: [part.strip() for part in str(value).split(separator)] if separator else value}
        if not field or fault_in(EasyBuildInput, tried):
            left.append(given.left(f"{key}:", f"{file}: the recipe has no such option, or not with `{value}`"))
        else:
            wanted = tried
    return wanted, left
