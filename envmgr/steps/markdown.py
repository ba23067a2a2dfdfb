"""Tables of Markdown."""

from __future__ import annotations

from collections.abc import Iterable


def md_table(header: list[str], rows: Iterable[list[str]]) -> list[str]:
    """Return the lines of a table."""
    return [f"| {' | '.join(cells)} |" for cells in (header, ["---"] * len(header), *rows)]


def md_cell(text: str) -> str:
    """Return a stranger's text so that it changes no table and no page, and calls nobody: as code, in one line."""
    plain = " ".join(text.split()).replace("`", "'").replace("|", "\\|")
    return f"`{plain}`" if plain else ""
