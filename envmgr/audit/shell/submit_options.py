"""Variables of a submitting shell that Slurm's commands take for options, and the refusals that follow from them."""

from __future__ import annotations

import re
from collections.abc import Iterator

from envmgr.probe.model import Facts

# What Slurm says of an option that it refuses -> the variables of such options.
_REFUSED = {
    "partition": "SBATCH_PARTITION SLURM_PARTITION",
    "account": "SBATCH_ACCOUNT SLURM_ACCOUNT",
    "qos": "SBATCH_QOS SLURM_QOS",
    "reservation": "SBATCH_RESERVATION SLURM_RESERVATION",
    "feature": "SBATCH_CONSTRAINT SLURM_CONSTRAINT",
    "cluster": "SBATCH_CLUSTERS SLURM_CLUSTERS",
    "license": "SBATCH_LICENSES SLURM_LICENSES",
    "gres|generic resource": "SBATCH_GRES SBATCH_GPUS SLURM_GRES",
    "wckey": "SBATCH_WCKEY SLURM_WCKEY",
    "time limit": "SBATCH_TIMELIMIT SLURM_TIMELIMIT",
}


def refused_by(said: str, facts: Facts) -> Iterator[tuple[str, str]]:
    """Yield name and value of each variable in `submitting.variables` to which a refusal of Slurm points."""
    found = dict(line.partition("=")[::2] for line in facts.get("submitting.variables", "").splitlines())
    for pattern, names in _REFUSED.items():
        for name in names.split() if re.search(pattern, said, re.IGNORECASE) else ():
            if name in found:
                yield name, found[name]
