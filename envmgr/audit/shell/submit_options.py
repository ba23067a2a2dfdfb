"""Variables of a submitting shell that Slurm's commands take for options, and the refusals that follow from them."""

from __future__ import annotations

from collections.abc import Iterator

from envmgr.probe.model import Facts

_WORDS = {"clusters": "cluster", "constraint": "feature", "gpus": "gres", "licenses": "license"}


def refused_by(said: str, facts: Facts) -> Iterator[tuple[str, str]]:
    """Yield name and value of each variable in `submitting.variables` that a refusal of Slurm names, or whose option it
    does.
    """
    refusal = said.lower().replace(" ", "")
    for line in facts.get("submitting.variables", "").splitlines():
        name, _, value = line.partition("=")
        option = name.split("_")[1].lower()
        if name in said or (name != "SLURM_CONF" and _WORDS.get(option, option) in refusal):
            yield name, value
