"""The parts of MODULEPATH, and the generations that it has."""

from __future__ import annotations

import re

from envmgr.audit.model import AskedShell, Evidence
from envmgr.probe.model import Facts


def elements(path: str) -> list[str]:
    """Return the parts of MODULEPATH as Lmod reads it: no empty parts, no repetitions, no trailing slashes."""
    parts = (re.sub(r"/+", "/", part).rstrip("/") or "/" for part in path.split(":") if part)
    return list(dict.fromkeys(parts))


def generations_in_path(facts: Facts, shell: AskedShell, evidence: Evidence) -> list[str]:
    pattern = re.compile(re.escape(f"{evidence.site.prefix}/") + r"(?:generations/([0-9]{4,})|(current))/modules")
    matches = (pattern.fullmatch(part) for part in elements(facts.get(f"{shell.key}modulepath", "")))
    return [m[1] or m[2] for m in matches if m]
