"""Nodes: which there are, and one script run on many of them. Only this room imports ClusterShell.

ClusterShell is imported by the functions that need it.
"""

from __future__ import annotations

from envmgr.nodes.access import GpuJobs, SlurmNodes, access_options, ask_slurm, gpu_request, jobs_with_gpu
from envmgr.nodes.allocation import Allocation, allocated
from envmgr.nodes.batch import batch_on_nodes
from envmgr.nodes.envelope import Reply, Status
from envmgr.nodes.fanout import ask_nodes
from envmgr.nodes.jobs import (
    JobOptions,
    JobSeen,
    QueuedJob,
    ask_a_node,
    end_jobs,
    job_facts,
    queued_jobs,
    see_jobs,
    send_job,
)
from envmgr.nodes.sets import NodeSets, expand, fold, read_folded, resolve_nodes
from envmgr.nodes.slurm import (
    UNCONFIGURED,
    asleep,
    in_words,
    mpi_plugins,
    node_hosts,
    node_states,
    slurm_here,
    slurm_names,
    states_or_reason,
    users_with_jobs,
)

__all__ = [
    "UNCONFIGURED",
    "Allocation",
    "GpuJobs",
    "JobOptions",
    "JobSeen",
    "NodeSets",
    "QueuedJob",
    "Reply",
    "SlurmNodes",
    "Status",
    "access_options",
    "allocated",
    "ask_a_node",
    "ask_nodes",
    "ask_slurm",
    "asleep",
    "batch_on_nodes",
    "end_jobs",
    "expand",
    "fold",
    "gpu_request",
    "in_words",
    "job_facts",
    "jobs_with_gpu",
    "mpi_plugins",
    "node_hosts",
    "node_states",
    "queued_jobs",
    "read_folded",
    "resolve_nodes",
    "see_jobs",
    "send_job",
    "slurm_here",
    "slurm_names",
    "states_or_reason",
    "users_with_jobs",
]
