"""Jobs with a GPU: how one is asked for, on which nodes Slurm has one to give now, and why not on others."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from envmgr.errors import CommandError, EnvmgrError
from envmgr.nodes.slurm import UNCONFIGURED, reason, slurm_here, slurm_names, states_or_reason, tool, tool_env, why_not
from envmgr.system.run import Runner

_ASK = 10.0  # seconds that a command of Slurm's may take
_NO_SLURM = "no Slurm here"


@dataclass(frozen=True, slots=True)
class SlurmGpus:
    """Of one node, as Slurm counts: GPUs that it can give to jobs, those that jobs have, and the partitions of the node."""

    total: int
    used: int
    partitions: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class GpuJobs:
    """node -> sbatch's options for a job with a GPU there; node -> why none is to be sent."""

    options: Mapping[str, tuple[str, ...]]
    refused: Mapping[str, str]


def gpu_request(given: Iterable[str]) -> str:
    """The option by which a job asks for a GPU: one of the site's own, `given`, where that asks for GPUs."""
    gres = ""
    for option in given:
        name, _, value = option.partition("=")
        if (name.startswith("--gpus") and not re.search(r"(^|:)0$", value)) or (
            name.startswith("--tres-per-") and "gpu" in value
        ):
            return option
        if name == "--gres":
            gres = value  # of several, Slurm takes the last
    if any(re.fullmatch(r"(gres/|gres:)?gpu([:=].*)?", word) for word in gres.split(",")):
        return f"--gres={gres}"
    return f"--gres={gres},gpu:1" if gres and gres.lower() != "none" else "--gres=gpu:1"


def jobs_with_gpu(nodes: Sequence[str], given: Sequence[str], runner: Runner, *, timeout: float) -> GpuJobs:
    """By Slurm's own word, within `timeout` seconds; `given` are options of the site, which every job has besides."""

    def none(why: str) -> GpuJobs:
        return GpuJobs({}, dict.fromkeys(nodes, why))

    if not slurm_here():
        return none(_NO_SLURM)
    limit = min(timeout / 3, _ASK)
    states, broken = states_or_reason(runner, limit)
    if broken:
        return none(_NO_SLURM if broken == UNCONFIGURED else f"Slurm: {broken}")
    try:
        ask = [tool("scontrol"), "-o", "-d", "show", "node"]
        gpus = read_nodes(runner.run(ask, env=tool_env(), timeout=limit).stdout)
        ask = [tool("sinfo"), "-h", "-o", "%P"]
        partitions = runner.run(ask, env=tool_env(), timeout=limit).stdout.split()
    except CommandError as error:
        return none(f"Slurm: {reason(error.stderr.encode()) or error.message}")
    except EnvmgrError as error:  # no scontrol
        return none(f"Slurm: {error.message}")
    default = next((name[:-1] for name in partitions if name.endswith("*")), "")
    return choose_jobs(nodes, states, gpus, default, given)


def choose_jobs(
    nodes: Iterable[str],
    states: Mapping[str, tuple[str, str]],
    gpus: Mapping[str, SlurmGpus],
    default: str,
    given: Sequence[str],
) -> GpuJobs:
    """`states` and `gpus` have Slurm's own names of nodes; `default` is the partition of jobs that name none."""
    options, refused = {}, {}
    names = slurm_names(states, nodes := tuple(nodes))
    for node in nodes:
        name = names.get(node, node)
        if why := why_not(states, name) or _none_free(gpus.get(name)):
            refused[node] = why
        else:
            options[node] = (*_request(given), *_partition(gpus[name], default, given))
    return GpuJobs(options, refused)


def _none_free(gpus: SlurmGpus | None) -> str:
    if gpus is None or gpus.total == 0:
        return "Slurm has no `gpu` among its Gres"
    if not gpus.partitions:
        return "Slurm has it in no partition"
    if gpus.used < gpus.total:
        return ""
    return (
        "busy: its GPU is in use by another job"
        if gpus.total == 1
        else f"busy: its {gpus.total} GPUs are in use by other jobs"
    )


def _request(given: Sequence[str]) -> tuple[str, ...]:
    request = gpu_request(given)
    return () if request in given else (request,)


def _partition(gpus: SlurmGpus, default: str, given: Sequence[str]) -> tuple[str, ...]:
    """None where the site says it, or where the default one has the node; else all that have it: Slurm takes the first that can."""
    named = any(option.startswith("--partition=") for option in given)
    return () if named or default in gpus.partitions else (f"--partition={','.join(gpus.partitions)}",)


def read_nodes(text: str) -> dict[str, SlurmGpus]:
    """Slurm's name -> its GPUs, of what `scontrol -o -d show node` prints. Source: scontrol(1); tried with Slurm 22.05."""
    found = {}
    for line in text.splitlines():
        facts = dict(re.findall(r"(?:^| )([A-Z]\w*)=(\S*)", line))
        if "NodeName" in facts:
            partitions = tuple(name for name in facts.get("Partitions", "").split(",") if name and name != "(null)")
            total, used = (_gpus(facts.get(key, "")) for key in ("Gres", "GresUsed"))
            found[facts["NodeName"]] = SlurmGpus(total, used, partitions)
    return found


def _gpus(text: str) -> int:
    """Of `gpu:a100:2(S:0-1),gpu:v100:1,shard:4` the GPUs of all types: 3."""
    words = [word.split(":") for word in re.sub(r"\([^)]*\)", "", text).split(",")]
    return sum(int(last) if (last := word[-1]).isdecimal() else 1 for word in words if word[0] == "gpu")
