"""EasyBuild as a backend: its locks, its private environment, one `eb` process per store item, flat modules."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from envmgr.catalog.site import Site
from envmgr.report import Reporter
from envmgr.store.prefix import Prefix
from envmgr.system.run import Runner


@dataclass(frozen=True, slots=True)
class Workbench:
    """All that work for an entry is done with; `label` names the entry in messages."""

    site: Site
    environ: Mapping[str, str]
    runner: Runner
    reporter: Reporter
    label: str = ""

    @property
    def prefix(self) -> Prefix:
        """The site's prefix."""
        return Prefix(self.site.prefix)
