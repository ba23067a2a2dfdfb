"""The differences between two generations, entry by entry."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from envmgr.catalog.locks import LockChange, diff_packages
from envmgr.publish.records import published_spec, raw_defaults, read_record, read_specs
from envmgr.store.prefix import Prefix


@dataclass(frozen=True, slots=True)
class EntryDiff:
    """A difference. `change` is added, removed, changed (another install), module (same install, another module text)
    or default: then `entry` is a name, and `packages` has the versions that `module load NAME` gave and gives.
    """

    entry: str
    change: str
    packages: tuple[LockChange, ...]


class Generation:
    """A generation that is still there."""

    def __init__(self, prefix: Prefix, number: int) -> None:
        self.record = read_record(prefix, number)
        self.entries = self.record.entries
        self._specs = read_specs(prefix, number)
        self.defaults = raw_defaults(self._specs)

    def packages(self, name: str) -> dict[str, str]:
        return published_spec(self._specs[name]).spec.packages if name in self.entries else {}

    def loaded_with(self, name: str) -> Iterator[str]:
        """Yield an entry and all entries that its module loads."""
        if name in self.entries:
            yield name
            for each in published_spec(self._specs[name]).spec.depends:
                yield from self.loaded_with(each)


def changed_entries(names: Iterable[str], old: Generation, new: Generation) -> Iterator[EntryDiff]:
    """Yield what differs of these entries."""
    for name in sorted(names):
        before, after = old.entries.get(name), new.entries.get(name)
        if before == after:
            continue
        if before is None or after is None:
            change = "removed" if after is None else "added"
        else:
            change = "changed" if before.digest != after.digest else "module"
        yield EntryDiff(name, change, diff_packages(old.packages(name), new.packages(name)))
