"""Counts of nodes that have entries on their own disk, by what the check `images` asks them."""

from __future__ import annotations

from envmgr.audit.model import Evidence

BY = "images"
"""The check whose answers it reads."""


def staged_nodes(evidence: Evidence) -> dict[str, int]:
    """Return how many nodes have all installs of an entry mounted from their own disk, for each entry that some have so,
    or that site.yaml wants so.
    """
    if evidence.published is None:
        return {}
    own: dict[str, set[str]] = {}
    copies = _fields(evidence, "images.copies", (0, 2))
    for key, nodes in _fields(evidence, "images.mounted", (0, 1)).items():
        own.setdefault(key[0], set()).update(nodes & copies.get(key, set()))
    prefix, entries, found = evidence.site.prefix, evidence.published.record.entries, {}
    wanted = evidence.site.staging.chosen(entries)
    for name, entry in entries.items():
        nodes = set.intersection(*(own.get(f"{prefix}/{path}", set()) for path in entry.paths or ("",)))
        if nodes or name in wanted:
            found[name] = len(nodes)
    return found


def _fields(evidence: Evidence, fact: str, which: tuple[int, int]) -> dict[tuple[str, str], set[str]]:
    """Return two fields of a fact's lines -> the nodes that have such a line."""
    found: dict[tuple[str, str], set[str]] = {}
    for line, nodes in evidence.mounts.by_line(fact).items():
        fields = line.split(" ", 3)
        found.setdefault((fields[which[0]], fields[which[1]]), set()).update(nodes)
    return found
