"""Inventory of nodes and their shells: files, mounts, packages, accounts, variables, programs. It is asked for by name.

Nothing is judged yet: the answers are for comparing.
"""

from __future__ import annotations

from envmgr.audit.inventory.texts import inventory_texts
from envmgr.audit.model import Check

CHECK = Check(probe=inventory_texts, wants=frozenset({"peers"}), named=True)
