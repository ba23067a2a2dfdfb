"""The things that nodes and their shells have: files, mounts, packages, accounts, variables, programs, rows of Slurm.

What differs between like nodes is compared, and joined with what users do not get: a file, mount or account that
differs explains what fails on its own nodes if it is named there, is read, sets a variable that is named, or leads to
what is named. What differs and harms nobody comes below, worst first. Of nodes that differ, and of one that does not,
the start of shells is traced, and the text of files that all may read is compared.
"""

from __future__ import annotations

from envmgr.audit.inventory.texts import inventory_texts
from envmgr.audit.model import Check

CHECK = Check(probe=inventory_texts, wants=frozenset({"slurm"}))
