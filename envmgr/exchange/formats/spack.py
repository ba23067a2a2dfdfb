"""Spack's database of an install tree, and the lock of an environment: each install becomes an entry of its own.

Nothing is built, and Spack is not run: the entries lead to what Spack installed.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from envmgr.backends.existing.models import ExistingInput
from envmgr.catalog.names import fault_in_part
from envmgr.errors import EnvmgrError
from envmgr.exchange import Dropped, OneEntry, Parsed, ReadFile
from envmgr.exchange.checks import fault_in
from envmgr.system.spack_files import INDEX, SpackInstall, database_of, lock_of, read_database
from envmgr.system.untrusted_files import ANYWHERE, Kind, read_file_text
from envmgr.system.yamlfile import parse_yaml

NAME = re.compile(r"spack\.lock|index\.json")
CONTENT = re.compile(r'"file-type":\s*"spack-lockfile"|^\s*\{\s*"database":\s*\{')
INSIDE = ("spack.lock", INDEX)  # the file that stands for a folder
_MANIFEST = Kind("file", 1 << 20)
_LOCK = re.compile(r'"file-type":\s*"spack-lockfile"')


def read(given: ReadFile) -> Parsed:
    """Return the installs that were asked for. Raise InputError `import-invalid`, `spack-format`."""
    if not _LOCK.search(given.text):
        found = database_of(given.text, given.path)
        asked = [each for each in found.values() if each.explicit and not each.external]
        return _contents(given, given.path.parent.parent, found, asked, [], [])
    lock = lock_of(given.text, given.path)
    tree = given.tree or _tree_of(given.path.parent / "spack.yaml")
    if tree is None:
        raise given.invalid("it does not say where Spack installs", hint="name the tree by `--tree FOLDER`")
    found = read_database(tree)
    differences = [*_differences(given, lock.roots, lock.specs, found, tree)]
    asked = [found[each] for each in lock.roots if each in found and found[each].installed]
    left = [
        given.left(lock.roots[each.hash], "it is the system's: Spack did not install it")
        for each in asked
        if each.external
    ]
    return _contents(given, tree, found, [each for each in asked if not each.external], left, differences)


def _tree_of(manifest: Path) -> Path | None:
    """Return the install tree that an environment's `spack.yaml` names, if it does."""
    try:
        config = parse_yaml(read_file_text(manifest, _MANIFEST, tree=ANYWHERE), manifest)["spack"]["config"]
        root = config["install_tree"]["root"]
    except (OSError, EnvmgrError, KeyError, TypeError, ValueError):
        return None
    return Path(str(root)) if str(root).startswith("/") and "$" not in str(root) else None


def _differences(
    given: ReadFile,
    roots: Mapping[str, str],
    specs: Mapping[str, SpackInstall],
    found: Mapping[str, SpackInstall],
    tree: Path,
) -> Iterator[Dropped]:
    """Yield the roots of a lock that the tree does not have, with what it has instead."""
    for each, asked in roots.items():
        if each in found and found[each].installed:
            continue
        name = specs[each].name if each in specs else asked.partition("@")[0]
        others = sorted(row.short for row in found.values() if row.name == name and row.installed)
        instead = f"; there is {', '.join(others)}" if others else ""
        yield given.left(each, f"{asked} is locked, and not installed in {tree}{instead}")


def _contents(
    given: ReadFile,
    tree: Path,
    found: Mapping[str, SpackInstall],
    asked: Sequence[SpackInstall],
    left: list[Dropped],
    differences: list[Dropped],
) -> Parsed:
    names = Counter((each.name, each.version) for each in asked)
    entries = []
    for each in sorted(asked, key=lambda row: (row.name, row.version, row.hash)):
        twice = names[each.name, each.version] > 1
        version = f"{each.version}-{each.hash[:7]}" if twice else each.version
        wanted = {"path": each.path, "spack": {"tree": str(tree), "hash": each.hash}}
        fault = fault_in_part(each.name) or fault_in_part(version) or fault_in(ExistingInput, wanted)
        gone = not each.installed or not Path(each.path).is_dir()
        if gone:
            fault = f"Spack's database has it, and {each.path} is not there"
        if fault:
            (differences if gone else left).append(given.left(each.hash, f"{each.short}: {fault}"))
            continue
        below = sorted(found[need].name for need in each.needs if need in found and not found[need].external)
        needs = f"it runs with {', '.join(below)}: `command:` of the recipe can take Spack's own environment"
        entries.append(
            OneEntry(each.name, version, wanted, "existing", (needs,) if below else (), f"{each.spec} (Spack)")
        )
    return Parsed(
        left=tuple(left),
        differences=tuple(differences),
        entries=tuple(entries),
        goes_on=True,
        description=f"Installed by Spack in {tree}",
    )
