"""The results of a generation's tests on nodes, in `<prefix>/var/tests/0043.json`: for `promote`, and for people."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Literal

from pydantic import Field

from envmgr.catalog.site import Site
from envmgr.errors import EnvmgrError, InputError
from envmgr.store.prefix import Prefix
from envmgr.store.state_file import change_state
from envmgr.system.files import pretty_json
from envmgr.system.models import FrozenModel, require_format
from envmgr.system.untrusted_files import FACTS, read_json, why_unreadable

FORMAT = 1
"""The number of the format of the results; another one is refused."""


class SeenTest(FrozenModel):
    """The end of one test of an entry on `nodes`; `time` is seconds since the epoch."""

    entry: str
    test: str
    status: Literal["passed", "failed", "skipped", "not-run"]
    nodes: tuple[str, ...]
    time: float


class NodeTests(FrozenModel):
    """The content of the file. A test that ran again on a node has its last end there only."""

    schema_version: int = Field(default=FORMAT, alias="schema")
    tests: tuple[SeenTest, ...] = ()

    def seen(self, *status: str) -> set[str]:
        """Return the entries that have a test with one of these ends."""
        return {each.entry for each in self.tests if each.status in status}


def node_tests_file(prefix: Prefix, number: int) -> Path:
    return prefix.root / "var" / "tests" / f"{number:04d}.json"


def read_node_tests(prefix: Prefix, number: int) -> NodeTests:
    """Return what was seen of the generation; nothing before the first test on nodes. Raise EnvmgrError
    `node-tests-damaged`, `format-unknown`.
    """
    path = node_tests_file(prefix, number)
    try:
        return NodeTests.model_validate(require_format(read_json(path, FACTS), FORMAT, path))
    except FileNotFoundError:
        return NodeTests()
    except (OSError, InputError, ValueError) as error:
        raise EnvmgrError(
            "node-tests-damaged",
            f"{path} cannot be read",
            context=why_unreadable(error).splitlines()[:3],
            hint=f"`envmgr test --generation {number} --via ssh` writes it again",
        ) from None


def save_node_tests(
    site: Site, number: int, tests: Iterable[SeenTest], *, check: Callable[[], None] = lambda: None
) -> str:
    """Add results of a generation's tests; return why that failed, or "": see `change_state`."""
    path = node_tests_file(Prefix(site.prefix), number)

    def change(text: str) -> str:
        known = NodeTests()
        with suppress(ValueError):  # damaged: what is seen now replaces it
            known = NodeTests.model_validate(require_format(json.loads(text or "{}"), FORMAT, path) if text else {})
        return pretty_json(_merged(known, tuple(tests)).model_dump(mode="json", by_alias=True))

    return change_state(path, change, site, check=check)


def _merged(known: NodeTests, new: Sequence[SeenTest]) -> NodeTests:
    seen = {(each.entry, each.test, node) for each in new for node in each.nodes}
    kept = []
    for old in known.tests:
        nodes = tuple(node for node in old.nodes if (old.entry, old.test, node) not in seen)
        if nodes:
            kept.append(old.model_copy(update={"nodes": nodes}))
    return NodeTests(tests=(*kept, *new))
