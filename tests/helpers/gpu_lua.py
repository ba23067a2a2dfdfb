"""The gate's rules in plain Lua, many rows in one process; what the gate is given is what a modulefile would hold."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Sequence

from envmgr.catalog.gpus import Gpu, GpuFacts, GpuNeeds
from envmgr.modules.statements import needs_table
from envmgr.system.files import shipped
from tests.helpers.waiting import DEADLINE


def lua_verdicts(rows: Sequence[tuple[GpuNeeds, GpuFacts]]) -> list[tuple[str, bool]]:
    calls = [f"say(gpu_verdict({needs_table(needs)}, {_facts(facts)}))" for needs, facts in rows]
    # One function each: a chunk holds so many constants only.
    text = [
        (shipped("modulefiles") / "gpu_rules.lua").read_text(),
        "local function say(verdict, reason, refused) print(verdict, refused and 'refused' or '-', #reason > 0 or verdict == 'full') end",
        *(f"(function() {call} end)()" for call in calls),
    ]
    lua = shutil.which("lua5.3") or shutil.which("lua")
    assert lua is not None
    done = subprocess.run(
        [lua, "-"], input=";\n".join(text), capture_output=True, text=True, timeout=DEADLINE, check=False
    )
    assert done.returncode == 0, done.stderr
    found = [line.split("\t") for line in done.stdout.splitlines()]
    assert all(reason == "true" for _, _, reason in found)
    return [(verdict, refused == "refused") for verdict, refused, _ in found]


def _facts(facts: GpuFacts) -> str:
    fields = {"library": facts.library, "cuda": facts.cuda or None}
    text = [f"{key} = {json.dumps(value)}" for key, value in fields.items() if value is not None]
    if facts.gpus is not None:
        text.append(f"gpus = {{ {', '.join(map(_gpu, facts.gpus))} }}")
    return "{ " + ", ".join(text) + " }"


def _gpu(gpu: Gpu) -> str:
    fields = {"vendor": gpu.vendor, "arch": gpu.arch or None, "name": gpu.name or None, "driver": gpu.driver}
    return "{ " + ", ".join(f"{key} = {json.dumps(value)}" for key, value in fields.items() if value is not None) + " }"
