"""Builds as Slurm jobs: one per missing item, chained, followed from here, or left and found again later.

This is the counterpart of `make_all`.
"""

from __future__ import annotations

from envmgr.builds.slurm.folder import requested_installs
from envmgr.builds.slurm.follow import follow
from envmgr.builds.slurm.submit import QueuedBuild, Submitter, sweep

__all__ = ["QueuedBuild", "Submitter", "follow", "requested_installs", "sweep"]
