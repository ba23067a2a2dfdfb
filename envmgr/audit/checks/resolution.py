"""What `module load` resolves to: for every published entry the same file as published, on every node.

In the ordinary user's login shell: every published entry is listed by `module avail`, in the generation's folder and in no
folder before it; the list is the same with and without Lmod's cache; default versions are the same on every node. For a
sample of entries (`--modules` names them, `--modules all` takes all): the file that Lmod would load, where that really
lies, and its sha256 against the generation's record. Equal paths prove little: other content can lie under the same path.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from envmgr.audit.checks._folding import drift, short
from envmgr.audit.model import Evidence, Facts, Fleet, Plan, Stage
from envmgr.finding import Finding
from envmgr.nodes import fold

_LOGIN = r"""
ask() { "$LMOD_CMD" bash --no_redirect "$@" 2>&1 >/dev/null; }
listed=
case :${MODULEPATH-}: in *":$generation/modules:"*) listed=yes ;; esac
if [ -n "${LMOD_CMD-}" ] && [ -n "$listed" ]; then
  here=$(mktemp -d) && trap 'rm -rf "$here"' EXIT
  ask -t --show_hidden avail >"$here/avail"
  ask -t --show_hidden --ignore_cache avail >"$here/plain"
  lines resolution.avail <"$here/avail"
  diff "$here/avail" "$here/plain" | grep '^[<>]' | head -n 20 | lines resolution.cache_differs
  ask -t -d avail | lines resolution.defaults
  for entry in $samples; do
    path=$(ask --location show "$entry" | grep .)
    path=$(printf '%s\n' "$path" | grep '^/' || printf '%s\n' "$path" | head -n 1)
    put "resolution.path.$entry" "$path"
    case $path in
      /*)
        put "resolution.real.$entry" "$(readlink -f "$path")"
        put "resolution.sha256.$entry" "$(sum <"$path" 2>/dev/null)"
        ;;
    esac
  done
fi
"""
_BUILD = "`envmgr node-setup` puts the generation first in MODULEPATH; is another line put before it?"


def probe(plan: Plan) -> Mapping[Stage, str]:
    return {"login": _LOGIN} if plan.number is not None else {}


def judge(evidence: Evidence) -> Iterator[Finding]:
    published = evidence.published
    if published is None:
        return
    generation = f"generations/{published.record.number:04d}"
    fleet = evidence.fleet.sound.only(lambda facts: "resolution.avail" in facts and facts.get("current") == generation)
    yield from _listed(fleet, evidence)
    for text, nodes in fleet.by_value("resolution.cache_differs").items():
        shown = [
            f"{'only in the cache' if line[0] == '<' else 'not in the cache'}: {line[2:]}" for line in text.splitlines()
        ]
        yield Finding(
            "resolution", "error", "module avail", short("; ".join(shown)), "the same list with and without Lmod's cache",
            "`module --config` names the caches in use; which rc file names an old one?", fold(nodes),
        )  # fmt: skip
    yield from drift(
        "resolution", "default versions", fleet, "resolution.defaults", severity="error",
        hint="which .modulerc or .version, in which folder of MODULEPATH?", say=lambda text: short(" ".join(text.split())),
    )  # fmt: skip
    for entry in evidence.plan.samples:
        yield from _sample(entry, fleet, evidence)


def _listed(fleet: Fleet, evidence: Evidence) -> Iterator[Finding]:
    published = evidence.published
    assert published is not None
    ours = f"{evidence.site.prefix}/generations/{published.record.number:04d}/modules"
    missing: dict[str, list[str]] = {}
    shadowed: dict[tuple[str, str], list[str]] = {}
    for group in fleet.groups:
        places = first_places(group.facts["resolution.avail"])
        if ours not in group.facts["resolution.avail"]:
            continue  # not in MODULEPATH: told by the check of contexts
        for entry in published.record.entries:
            place = places.get(entry)
            if place is None:
                missing.setdefault(entry, []).extend(group.nodes)
            elif place != ours:
                shadowed.setdefault((entry, place), []).extend(group.nodes)
    for entry, nodes in missing.items():
        yield Finding(
            "resolution", "error", entry, "`module avail` does not list it", f"{ours}/{entry}.lua",
            "hidden or masked by a .modulerc.lua or an rc file of the node? an old cache?", fold(nodes),
        )  # fmt: skip
    for (entry, place), nodes in shadowed.items():
        yield Finding("resolution", "error", entry, f"taken from {place}", ours, _BUILD, fold(nodes))


def first_places(avail: str) -> dict[str, str]:
    """entry -> the first folder of MODULEPATH that has it, from `module --terse avail`."""
    places: dict[str, str] = {}
    folder = ""
    for line in avail.splitlines():
        if line.startswith("/") and line.endswith(":"):
            folder = line[:-1].rstrip("/")
        elif folder and (name := line.strip()) and not name.endswith("/"):
            places.setdefault(name.partition("(")[0].strip(), folder)
    return places


def _sample(entry: str, fleet: Fleet, evidence: Evidence) -> Iterator[Finding]:
    published = evidence.published
    assert published is not None
    expected = f"{evidence.site.prefix}/generations/{published.record.number:04d}/modules/{entry}.lua"
    for path, nodes in fleet.by_value(f"resolution.path.{entry}").items():
        if path != expected:
            found = f"resolves to {path}" if path.startswith("/") else f"cannot be found: {short(path) or 'no answer'}"
            yield Finding("resolution", "error", entry, found, expected, _BUILD, fold(nodes))
    right = fleet.only(lambda facts: facts.get(f"resolution.path.{entry}") == expected)
    for real, nodes in right.by_value(f"resolution.real.{entry}").items():
        if not _below_prefix(real, evidence):
            yield Finding(
                "resolution",
                "error",
                entry,
                f"really lies at {real}",
                expected,
                "a link that leads out of the prefix",
                fold(nodes),
            )
    text = published.record.files.get(f"modules/{entry}.lua", "")
    for found, nodes in right.by_value(f"resolution.sha256.{entry}").items():
        if found != text:
            yield Finding(
                "resolution", "error", entry, f"other content ({found[:12] or 'cannot be read'})",
                f"sha256 {text[:12]}, as generation {published.record.number} records",
                "not the published file: which mount or copy is it? `envmgr verify` looks at the prefix itself", fold(nodes),
            )  # fmt: skip


def _below_prefix(real: str, evidence: Evidence) -> bool:
    return real.startswith((f"{evidence.site.prefix}/", f"{evidence.controller.get('real', evidence.site.prefix)}/"))


__all__ = ["Facts", "first_places", "judge", "probe"]
