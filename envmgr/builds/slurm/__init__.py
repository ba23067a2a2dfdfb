"""Builds as Slurm jobs: one a missing item, chained, followed from here, left and found again. The counterpart of `make_all`."""

from __future__ import annotations

from envmgr.buildjobs.desk import Desk, Ticket, sweep
from envmgr.buildjobs.folder import requested_installs
from envmgr.buildjobs.watch import follow

__all__ = ["Desk", "Ticket", "follow", "requested_installs", "sweep"]
