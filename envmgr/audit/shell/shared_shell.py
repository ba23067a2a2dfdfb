"""Shell text and facts that several checks share."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from envmgr.probe.model import Facts, Fleet
from envmgr.system.run import Runner, run_detached
from envmgr.system.shelltext import assign, script_text, words

_OPTIONS = {"clusters": "cluster", "constraint": "feature", "gpus": "gres", "licenses": "license"}
_SECONDS = 20.0  # for one entry; the prefix may begin to hang


def shared(*names: str) -> str:
    """Return the shell functions of the files `shared_shell.NAME.sh`, whose heads say what they define and need."""
    return "".join(script_text(__file__, f"{name}.sh") for name in names)


def elements(path: str) -> list[str]:
    """Return the parts of MODULEPATH as Lmod reads it: no empty parts, no repetitions, no trailing slashes."""
    parts = (re.sub(r"/+", "/", part).rstrip("/") or "/" for part in path.split(":") if part)
    return list(dict.fromkeys(parts))


def refused_by(said: str, facts: Facts) -> Iterator[tuple[str, str]]:
    """Yield name and value of each variable in `submitting.variables` that a refusal of Slurm names, or whose option it
    does: Slurm's commands take some variables of the submitting shell for options.
    """
    refusal = said.lower().replace(" ", "")
    for line in facts.get("submitting.variables", "").splitlines():
        name, _, value = line.partition("=")
        option = name.split("_")[1].lower()
        if name in said or (name != "SLURM_CONF" and _OPTIONS.get(option, option) in refusal):
            yield name, value


def changed_lines(text: str, reference: str) -> str:
    """Return the variables that differ in `text`, and those that it lacks; both texts are lines `NAME=VALUE`."""
    names = {line.partition("=")[0] for line in text.splitlines()}
    gone = [n for line in reference.splitlines() if (n := line.partition("=")[0]) not in names]
    changed = (line for line in text.splitlines() if line not in reference.splitlines())
    return "; ".join([*changed, *(f"{name} is not set" for name in gone)])


def without_host(text: str, nodes: Sequence[str], fleet: Fleet) -> str:
    """Return `text` with `NODE` for the node's own name, if only one node has the text."""
    if len(nodes) != 1 or not (host := fleet.own.get(nodes[0], {}).get("host", "")):
        return text
    return re.sub(rf"(?<![A-Za-z0-9_-]){re.escape(host)}(?![A-Za-z0-9_-])", "NODE", text)


def expected_effects(
    lmod: Path, modules: Path, lmodrc: Path, entries: Sequence[str], runner: Runner, seconds: float
) -> dict[str, str]:
    """Return entry -> the effect of loading it on this host, within `seconds` for all entries.

    An entry that cannot be loaded here is left out.
    """
    found = {}
    end = time.monotonic() + seconds
    for entry in entries:
        call = f"effect {words(str(lmod), str(modules), str(lmodrc), entry)}"
        script = f"{shared('effect')}\neffect_cached=yes effect_mark=\nscratch=$(mktemp) && trap 'rm -f \"$scratch\"' EXIT && {call}"
        left = min(_SECONDS, end - time.monotonic())
        done = run_detached(["/bin/sh", "-c", script], seconds=left, check=runner.raise_if_cancelled)
        if done.returncode == 0:
            found[entry] = done.output
    return found


def module_show(chain: str) -> str:
    """Return the command that shows the last of the modules that are loaded in this order."""
    before, _, last = chain.rpartition(" ")
    return f"module load {before} && module show {last}" if before else f"module show {last}"


def of_login(draw: int, seconds: int) -> str:
    """Return the shell functions that the texts of the stage `login` share, once for all of them.

    `draw` selects the modules that are asked if there are very many. `seconds` are those of the node's whole answer; a
    quarter of them is for asking, and at least 15.
    """
    given = assign(opened_draw=draw, opened_seconds=max(15, seconds // 4))
    return shared("module_tool", "effect", "named_paths") + given + shared("opened")
