"""The baseline file: what nodes and their shells have, for version control with git.

A good audit writes it; later audits compare with it.

    values:
      bash-login (alice):
        env:
          LANG:
            c[1-3]: C.UTF-8

The levels are place, kind of the inventory, key, and each value with its nodes. They are sorted, so that a change is a line
in a diff.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import Field, ValidationError

from envmgr.errors import InputError
from envmgr.nodes.sets import fold, read_folded
from envmgr.system.models import FrozenModel, require_format
from envmgr.system.untrusted_files import ANYWHERE, BASELINE, read_file_text
from envmgr.system.yamlfile import dump_yaml, parse_yaml

if TYPE_CHECKING:
    from envmgr.audit.inventory.facts import Place

SCHEMA = "envmgr.baseline/2"
_HEAD = "# What nodes have, by `envmgr audit --save-baseline`; `envmgr audit --baseline FILE` tells what has changed since.\n"
_HINT = "`envmgr audit --save-baseline FILE` writes one"
At = tuple[str, str]
"""Kind and key of a thing of the inventory."""


class _File(FrozenModel):
    schema_: str = Field(alias="schema")
    values: dict[str, dict[str, dict[str, dict[str, str]]]]


@dataclass(frozen=True, slots=True)
class Baseline:
    """A baseline file that was read: place -> (kind, key) -> node -> value."""

    path: Path
    values: Mapping[str, Mapping[At, Mapping[str, str]]]

    def of(self, place: str) -> Mapping[At, Mapping[str, str]] | None:
        """Return what nodes had there; None if nobody looked there then."""
        return self.values.get(place)

    def nodes(self, place: str, kind: str) -> frozenset[str]:
        """Return the nodes of which anything of a kind is known there."""
        pages = (page for (of, _), page in self.values[place].items() if of == kind)
        return frozenset(node for page in pages for node in page)


def baseline_text(places: Iterable[Place], kept: Callable[[str, str], bool]) -> str:
    """Return the file's text: the same for the same nodes, byte for byte. `kept(kind, value)` says what is worth keeping."""
    values: dict[str, dict[str, dict[str, dict[str, str]]]] = {}
    for place in places:
        found: dict[At, dict[str, list[str]]] = {}
        for inventory, of in place.told if place.name else ():
            for at, value in inventory.values.items():
                if kept(at[0], value):
                    found.setdefault(at, {}).setdefault(value, []).extend(of)
        for (kind, key), having in sorted(found.items()):
            page = values.setdefault(place.name, {}).setdefault(kind, {}).setdefault(key, {})
            page |= {fold(of): value for value, of in sorted(having.items(), key=lambda pair: fold(pair[1]))}
    content = {"schema": SCHEMA, "values": values}
    return _HEAD + dump_yaml(content, width=1 << 20, blocks=True)


def read_baseline(path: Path) -> Baseline:
    """Read a baseline. Raises InputError `baseline-unreadable`, or the errors of other YAML files; EnvmgrError
    `format-unknown`.
    """
    # Nodes reported these values, which may contain characters that a reviewed file may not.
    content: Any = parse_yaml(read_file_text(path, BASELINE, tree=ANYWHERE), path, reviewed=False)
    try:
        file = _File.model_validate(require_format(content, SCHEMA, path))
        values = {
            place: {(kind, key): _by_node(page) for kind, keys in kinds.items() for key, page in keys.items()}
            for place, kinds in file.values.items()
        }
    except (ValueError, InputError) as error:
        faults = error.errors()[:4] if isinstance(error, ValidationError) else []
        wrong = [f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in faults] or str(error)
        raise InputError("baseline-unreadable", f"{path} is no baseline", context=wrong, hint=_HINT) from None
    return Baseline(path, values)


def _by_node(page: Mapping[str, str]) -> dict[str, str]:
    return {node: value for nodes, value in page.items() for node in read_folded(nodes)}
