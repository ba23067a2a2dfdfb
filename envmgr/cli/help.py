"""`envmgr help`: the verbs, in groups."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from envmgr.cli.app import grouped
from envmgr.report import Lines, Result, Table
from envmgr.verbs import option


@dataclass(frozen=True, slots=True)
class HelpResult(Result):
    """Group -> rows of an example, without `envmgr`, and what the verb does."""

    schema: ClassVar[str] = "envmgr.help/1"
    groups: dict[str, list[tuple[str, str]]]

    def lines(self) -> Lines:
        for group, rows in self.groups.items():
            yield f"{group}:"
            yield Table([f"  {example}", about] for example, about in rows)


def list_verbs(
    everything: Annotated[bool, option("List every verb, not only those of a week's work.", None, "--all")] = False,
) -> HelpResult:
    """List the verbs, each with an example."""
    return HelpResult(grouped(everything=everything))
