"""Explanations of why specs cannot be solved: available versions, similar names, and the line that fixes the recipe."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from envmgr.backends.conda.client import SOLVER, failure
from envmgr.backends.conda.lock import read_row
from envmgr.catalog.gpus import SHIPPED
from envmgr.errors import EnvmgrError
from envmgr.report import Reporter
from envmgr.system.child import call_worker
from envmgr.system.run import Runner

_NAME = r"[A-Za-z0-9_][A-Za-z0-9_.-]*"
# Messages of rattler, libmamba and conda's own solver for a missing package.
_LACKING = (
    re.compile(rf"No candidates were found for ({_NAME})(?: ([^\n]*?))?\.?$"),
    re.compile(rf"[─ ]({_NAME})(?: ([^\n]*?))?, for which no candidates were found"),
    re.compile(rf"nothing provides (?:requested )?({_NAME})(?: ([^\n]*?))?(?: needed by .*| requested by .*)?$"),
    re.compile(rf"[─ -]({_NAME})(?: ([^\n]*?))? does not exist"),
)
_LIMITED = re.compile(
    r"[─ ](__[a-z]+) ([<>=!~\d*][^,\n]*?)(?:,? (?:which|for which)|$)"
)  # a virtual package that a package limits
_TOP = re.compile(r"^No candidates were found for|nothing provides requested")
_ROOT = re.compile(rf"^[├└]─ ({_NAME})\b")
_MENTIONED = re.compile(rf"[─ ]({_NAME}) [*<>=!~\d]")
_OTHER_SYSTEMS = ("__win", "__osx")
_FEW, _NAMES = 8, 6


@dataclass(frozen=True, slots=True)
class Offers:
    """The channels' offers.

    `versions` maps name -> pairs of a version and its builds, newest first. `near` maps a name that no channel has ->
    similar names. `bare` are channels that have nothing for the platform.
    """

    versions: Mapping[str, Sequence[tuple[str, Sequence[str]]]] = field(default_factory=dict)
    near: Mapping[str, Sequence[str]] = field(default_factory=dict)
    bare: Sequence[str] = ()


def explain_unsolvable(error: EnvmgrError, request: Mapping[str, Any], runner: Runner, reporter: Reporter) -> None:
    """Add to `error` what the channels have of the packages that it mentions, and a hint that fits.

    If the channels cannot be asked, the context says so.
    """
    specs = {read_row(spec).name: spec for spec in request["specs"]}
    lacking = _lacking(error.context)
    names = [name for name in _mentioned(error.context, lacking, specs) if not name.startswith("__")]
    # `_cuda` proposes a version of cuda-version, even if neither the recipe nor the error names it.
    question = {**request, "op": "offer", "names": [*dict.fromkeys([*names, *specs, "cuda-version"])]}
    try:
        told = call_worker(SOLVER, question, runner, reporter, failure=failure)
    except EnvmgrError as failed:
        error.context = (*error.context, f"what the channels have could not be asked: {failed.message}")
        return
    offers = Offers(told["versions"], told["near"], told["bare"])
    for spec in told["unmatched"]:  # a solver reports only the first of them
        row = read_row(spec)
        lacking.setdefault(row.name, f"{row.version} {row.build}".strip())
    error.context = (*error.context, *_told([*dict.fromkeys([*names, *lacking])], lacking, offers, request))
    error.hint = "\n  ".join(_hints(error.context, lacking, offers, request))


def _lacking(lines: Sequence[str]) -> dict[str, str]:
    """Return name -> requested version, for what no channel and no virtual package gives."""
    found: dict[str, str] = {}
    for line in lines:
        for pattern in _LACKING:
            if match := pattern.search(line.rstrip()):
                found.setdefault(match[1].lower(), (match[2] or "").strip())
                break
    return found


def _mentioned(lines: Sequence[str], lacking: Iterable[str], named: Iterable[str]) -> list[str]:
    tree = "\n".join(line for line in lines if not line.startswith(("specs: ", "virtual packages: ")))
    seen = [name.lower() for name in _MENTIONED.findall(tree)]
    others = [name for name in named if re.search(rf"(?<![\w.-]){re.escape(name)}(?![\w-])", tree)]
    return list(dict.fromkeys([*lacking, *others, *(name for name in seen if not name[0].isdigit())]))[:_NAMES]


def _told(names: Sequence[str], lacking: Mapping[str, str], offers: Offers, request: Mapping[str, Any]) -> list[str]:
    rows = [f"{channel} has nothing for {request['platform']}" for channel in offers.bare]
    for name in names:
        if there := offers.versions.get(name):
            shown = ", ".join(version for version, _ in there[:_FEW])
            older = f" and {len(there) - _FEW} older" if len(there) > _FEW else ""
            rows.append(f"there is {name} {shown}{older}")
            rows += _builds(name, lacking.get(name, ""), there)
        elif name in offers.near:
            like = offers.near[name]
            rows.append(f"no channel of the recipe has {name}" + (f"; there is {', '.join(like)}" if like else ""))
    return rows


def _builds(name: str, asked: str, there: Sequence[tuple[str, Sequence[str]]]) -> list[str]:
    """Return the builds of the requested version, if it is the build that is missing."""
    version, _, build = asked.removeprefix("==").partition(" ")
    if not build:
        return []
    exact, begin = version.removesuffix(".*"), version.removesuffix("*").rstrip(".") + "."
    found = next((builds for each, builds in there if each == exact or each.startswith(begin)), ())
    return [f"builds of {name} {version}: {', '.join(found)}"] if found else []


def _hints(lines: Sequence[str], lacking: Mapping[str, str], offers: Offers, request: Mapping[str, Any]) -> list[str]:
    own = {row.name: spec for spec in request["specs"] if (row := read_row(spec)).version or row.build}
    found = []
    if offers.bare and all(name in offers.near for name in lacking):
        return [f"add a channel that has packages for {request['platform']}, or take another `platform`"]
    tree = {name: asked for line in lines if "conflicts with" in line for name, asked in _LIMITED.findall(line)}
    for name, asked in {**tree, **lacking}.items():
        if name.startswith("__"):
            found.append(_virtual(name, asked, offers, request))
        elif name in offers.versions and name in own and not any(_TOP.search(line) for line in lines):
            found.append(
                f"the recipe's own `{own[name]}` leaves no {name} that fits: loosen it, or what needs another one"
            )
        elif name in offers.versions:
            found.append(f"ask for a {name} that is there, or add a channel that has `{f'{name} {asked}'.strip()}`")
        elif like := offers.near.get(name):
            found.append(
                f"for {name}, did you mean `{like[0]}`? If it is no conda package, `pip` of the recipe takes it "
                "from an index"
            )
        else:
            found.append(
                f"add a channel that has {name}; if it is no conda package, `pip` of the recipe takes it from an index"
            )
    if found:
        return list(dict.fromkeys(found))
    roots = list(dict.fromkeys(match[1] for line in lines if (match := _ROOT.match(line))))
    if len(roots) > 1:
        return [f"loosen the spec of {' or of '.join(roots)}, so that one version fits all; or make two entries"]
    return ["loosen a spec of the recipe, or add a channel"]


def _virtual(name: str, asked: str, offers: Offers, request: Mapping[str, Any]) -> str:
    if name in _OTHER_SYSTEMS:
        return f"a package for another operating system is asked for (`{name}`): take it out"
    version = _least(asked)
    if not version and name == "__cuda":
        version = _cuda(request["specs"], offers)
    said = request["virtual_packages"].get(name)
    instead = f" (it is {said} now)" if said else ""
    return f'say in the recipe\'s input what the nodes have: `virtual_packages: {{{name}: "{version or 1}"}}`{instead}'


def _least(asked: str) -> str:
    """Return a version, with its build, that `>=12.4,<13`, `12.*`, `1.* *haswell` or `<12` allows.

    Empty if any version is allowed, or none is known.
    """
    low = re.match(r"(?:>=|==|=|~=)?(\d+(?:\.\d+)*)", asked) or re.search(r">=(\d+(?:\.\d+)*)", asked)
    if low is None:
        high = re.match(r"<(\d+)(?:\.0+)*(?:a\d*)?$", asked.split(",", maxsplit=1)[0])
        known = [version for version in SHIPPED if high and int(version.partition(".")[0]) == int(high[1]) - 1]
        return known[-1] if known else ""
    build = asked.strip().partition(" ")[2].strip("*_ ")
    return f"{low[1]} {build}" if build else low[1]


def _cuda(specs: Sequence[str], offers: Offers) -> str:
    """Return the CUDA version that the recipe names, else the newest that the channels know."""
    rows = [read_row(spec) for spec in specs]
    for row in rows:
        if row.name in ("cuda-version", "cudatoolkit", "pytorch-cuda") and (
            found := re.search(r"\d+(\.\d+)?", row.version)
        ):
            return found[0]
    for row in rows:
        if build := re.search(r"cuda_?(\d\d)\.?(\d)", row.build):
            return f"{build[1]}.{build[2]}"
    known = offers.versions.get("cuda-version")
    return known[0][0] if known else "12.4"
