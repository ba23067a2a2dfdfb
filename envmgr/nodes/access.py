"""Options by which a job gets at nodes: Slurm's partitions and what to leave out of them, and free GPUs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from envmgr.errors import CommandError, EnvmgrError
from envmgr.nodes import tool, tool_env
from envmgr.nodes.sets import Partitions, fold, read_folded
from envmgr.nodes.slurm import UNCONFIGURED, slurm_here, slurm_names, slurm_reason, states_or_reason, why_no_step
from envmgr.system.run import Runner

_ASK = 10.0  # seconds that a command of Slurm's may take


@dataclass(frozen=True, slots=True)
class SlurmNodes:
    """Slurm's `nodes`, its `partitions` with their nodes, and whether it keeps accounts of ended jobs."""

    nodes: frozenset[str]
    partitions: Mapping[str, frozenset[str]]
    accounting: bool


NO_SLURM = SlurmNodes(frozenset(), {}, accounting=False)


def ask_slurm(runner: Runner) -> SlurmNodes:
    """Return what Slurm knows; `NO_SLURM` where this host has no Slurm, or its commands without a configuration.

    Raises EnvmgrError `groups-unreadable` where Slurm is there and does not answer.
    """
    if not slurm_here():
        return NO_SLURM
    states, broken = states_or_reason(runner, _ASK)
    if broken == UNCONFIGURED:
        return NO_SLURM
    if broken:
        raise EnvmgrError("groups-unreadable", "`sinfo` does not say which nodes there are", context=broken)
    found = {name: frozenset(read_folded(nodes)) for name, nodes in Partitions(runner, _ASK).groups().items()}
    return SlurmNodes(frozenset(states), found, _keeps_accounts(runner))


def _keeps_accounts(runner: Runner) -> bool:
    try:
        said = runner.run([tool("scontrol"), "show", "config"], env=tool_env(), timeout=_ASK).stdout
    except CommandError:
        return False
    lines = [line.partition("=") for line in said.splitlines()]
    kind = next((value.strip() for name, _, value in lines if name.strip() == "AccountingStorageType"), "")
    return kind.startswith("accounting_storage/") and kind != "accounting_storage/none"


def access_options(
    nodes: Sequence[str], slurm: SlurmNodes, *, partition: str | None = None, given: Iterable[str] = ()
) -> tuple[str, ...]:
    """Return sbatch's options for a job on any of `nodes`, which Slurm knows, and on no other.

    `partition` is the group's own, if it is one of Slurm's. Else it is the smallest that has all nodes, or all
    partitions that have some. `given` are options of the site, which take precedence.
    """
    wanted, options = frozenset(nodes), tuple(given)
    named = next((option.partition("=")[2] for option in options if option.startswith("--partition=")), partition)
    chosen = named.split(",") if named else _having(wanted, slurm.partitions)
    others = frozenset[str]().union(*(slurm.partitions.get(name, frozenset()) for name in chosen)) - wanted
    found = [] if any(option.startswith("--partition=") for option in options) else [f"--partition={','.join(chosen)}"]
    found += [f"--exclude={fold(others)}"] if others else []
    return (*options, *found)


def _having(wanted: frozenset[str], partitions: Mapping[str, frozenset[str]]) -> list[str]:
    whole = [(len(nodes), name) for name, nodes in partitions.items() if wanted <= nodes]
    # The smallest partition leaves the fewest nodes to exclude.
    return [min(whole)[1]] if whole else sorted(name for name, nodes in partitions.items() if wanted & nodes)


_GPUS_ASK = 10.0  # seconds that a command of Slurm's may take
_NO_SLURM = "no Slurm here"


@dataclass(frozen=True, slots=True)
class SlurmGpus:
    """GPUs of one node that Slurm can give to jobs, those that jobs have, and the partitions of the node."""

    total: int
    used: int
    partitions: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class GpuJobs:
    """The jobs with a GPU: node -> sbatch's options for one there; node -> why no job is sent."""

    options: Mapping[str, tuple[str, ...]]
    refused: Mapping[str, str]


def gpu_request(given: Iterable[str]) -> str:
    """Return the option by which a job asks for a GPU: one of the site's options in `given`, if that asks for GPUs."""
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
    """Ask Slurm, within `timeout` seconds; `given` are options of the site, which every job has too."""

    def none(why: str) -> GpuJobs:
        return GpuJobs({}, dict.fromkeys(nodes, why))

    if not slurm_here():
        return none(_NO_SLURM)
    # Three commands are asked, one after the other.
    limit = min(timeout / 3, _GPUS_ASK)
    states, broken = states_or_reason(runner, limit)
    if broken:
        return none(_NO_SLURM if broken == UNCONFIGURED else f"Slurm: {broken}")
    try:
        ask = [tool("scontrol"), "-o", "-d", "show", "node"]
        gpus = read_nodes(runner.run(ask, env=tool_env(), timeout=limit).stdout)
        ask = [tool("sinfo"), "-h", "-o", "%P"]
        partitions = runner.run(ask, env=tool_env(), timeout=limit).stdout.split()
    except CommandError as error:
        return none(f"Slurm: {slurm_reason(error.stderr.encode()) or error.message}")
    except EnvmgrError as error:  # no scontrol
        return none(f"Slurm: {error.message}")
    # sinfo marks the default partition with `*`.
    default = next((name[:-1] for name in partitions if name.endswith("*")), "")
    return choose_jobs(nodes, states, gpus, default, given)


def choose_jobs(
    nodes: Iterable[str],
    states: Mapping[str, tuple[str, str]],
    gpus: Mapping[str, SlurmGpus],
    default: str,
    given: Sequence[str],
) -> GpuJobs:
    """Return the options of jobs that ask for a GPU, and the refused nodes.

    `states` and `gpus` have Slurm's own names of nodes; `default` is the partition of jobs that name none.
    """
    options, refused = {}, {}
    names = slurm_names(states, nodes := tuple(nodes))
    for node in nodes:
        name = names.get(node, node)
        if why := why_no_step(states, name) or _none_free(gpus.get(name)):
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
    others = f"its {gpus.total} GPUs are in use by other jobs"
    return f"busy: {'its GPU is in use by another job' if gpus.total == 1 else others}"


def _request(given: Sequence[str]) -> tuple[str, ...]:
    request = gpu_request(given)
    return () if request in given else (request,)


def _partition(gpus: SlurmGpus, default: str, given: Sequence[str]) -> tuple[str, ...]:
    """Return no option where the site names a partition or the default one has the node; else all that have it."""
    named = any(option.startswith("--partition=") for option in given)
    return () if named or default in gpus.partitions else (f"--partition={','.join(gpus.partitions)}",)


def read_nodes(text: str) -> dict[str, SlurmGpus]:
    """Read `scontrol -o -d show node`: Slurm's name -> its GPUs. Source: scontrol(1); tried with Slurm 22.05."""
    found = {}
    for line in text.splitlines():
        facts = dict(re.findall(r"(?:^| )([A-Z]\w*)=(\S*)", line))
        if "NodeName" in facts:
            partitions = tuple(name for name in facts.get("Partitions", "").split(",") if name and name != "(null)")
            total, used = (_gpus(facts.get(key, "")) for key in ("Gres", "GresUsed"))
            found[facts["NodeName"]] = SlurmGpus(total, used, partitions)
    return found


def _gpus(text: str) -> int:
    """Count the GPUs of all types: 3 in `gpu:a100:2(S:0-1),gpu:v100:1,shard:4`."""
    # Brackets hold sockets or indexes, such as `(IDX:0,3)`, in which a comma separates no types.
    words = [word.split(":") for word in re.sub(r"\([^)]*\)", "", text).split(",")]
    return sum(int(last) if (last := word[-1]).isdecimal() else 1 for word in words if word[0] == "gpu")
