"""Counts of nodes that have entries on their own disk, by what the check `images` asks them."""

from __future__ import annotations

from envmgr.audit.model import Evidence
from envmgr.audit.table import fields_of

BY = "images"
"""The check whose answers it reads."""


def staged_nodes(evidence: Evidence) -> dict[str, int]:
    """Return how many nodes have all installs of an entry mounted from their own disk, for each entry that some have so,
    or that site.yaml wants so.
    """
    if evidence.published is None:
        return {}
    own: dict[str, set[str]] = {}
    for group in evidence.mounts.groups:
        lines = (fields_of(line, 4) for line in group.facts.get("images.copies", "").splitlines())
        copies = {(path, file) for path, _, file, _ in lines}
        for line in group.facts.get("images.mounted", "").splitlines():
            if tuple(fields_of(line, 2)) in copies:
                own.setdefault(line.partition(" ")[0], set()).update(group.nodes)
    prefix, entries, found = evidence.site.prefix, evidence.published.record.entries, {}
    wanted = evidence.site.staging.chosen(entries)
    for name, entry in entries.items():
        nodes = set.intersection(*(own.get(f"{prefix}/{path}", set()) for path in entry.paths or ("",)))
        if nodes or name in wanted:
            found[name] = len(nodes)
    return found
