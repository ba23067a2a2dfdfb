"""`envmgr copy` and `catalog check`: take a shipped recipe, and find what is wrong with recipes and locks."""

from __future__ import annotations

import datetime
import re
import shutil
import tempfile
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from envmgr.backends import get_backend
from envmgr.catalog.entries import Catalog, CatalogEntry
from envmgr.catalog.names import parse_entry, variable_name
from envmgr.catalog.recipe import Recipe, Requires
from envmgr.catalog.target import CPU_ORDER, Target, read_target
from envmgr.commands import Context
from envmgr.errors import EnvmgrError, InputError
from envmgr.finding import Finding
from envmgr.report import Result
from envmgr.system.files import atomic_write, explain_os_error


@dataclass(frozen=True, slots=True)
class CopyResult(Result):
    schema: ClassVar[str] = "envmgr.copy/1"
    entry: str
    target: str
    files: tuple[str, ...]
    dry_run: bool


@dataclass(frozen=True, slots=True)
class CheckResult(Result):
    """`checked` counts recipes."""

    schema: ClassVar[str] = "envmgr.check/1"
    checked: int
    findings: tuple[Finding, ...]

    @property
    def exit_code(self) -> int:
        return 1 if any(f.severity == "error" for f in self.findings) else 0


def copy_entry(ctx: Context, name: str, *, dry_run: bool = False) -> CopyResult:
    """A shipped recipe, with its lock, into the site's first own catalog. Never overwrites an entry."""
    catalog = ctx.catalog
    found = catalog.find(catalog.parse(name))
    root = catalog.own_root()
    target = root / found.entry.name / found.entry.version
    if target.exists():
        raise InputError("entry-exists", f"{target} exists", hint="edit it there, or remove it first")
    files = sorted(p.name for p in found.folder.iterdir() if p.is_file())
    recipe = found.recipe()
    named = get_backend(recipe.backend).beside(recipe, ctx.site)
    beside = {source: place for source, place in named.items() if not place.exists()}  # a copy may be edited
    if not dry_run:
        with explain_os_error(target):
            target.parent.mkdir(parents=True, exist_ok=True)
            software = target.parent / found.software_path.name
            if not software.exists():
                atomic_write(software, found.software_path.read_bytes())
            with tempfile.TemporaryDirectory(dir=target.parent, prefix=".copy-") as staging:
                shutil.copytree(found.folder, Path(staging) / target.name)
                (Path(staging) / target.name).rename(target)
            for source, place in beside.items():
                atomic_write(place, source.read_bytes())
    return CopyResult(str(found.entry), str(target), (*files, *(str(p) for p in beside.values())), dry_run)


def check_catalog(ctx: Context, names: Sequence[str] = ()) -> CheckResult:
    """All recipes and all locks, each fault with its place."""
    catalog = ctx.catalog
    found = [catalog.find(catalog.parse(n)) for n in names] if names else catalog.entries()
    findings = [] if names else [Finding("names", "error", "catalog", text) for text in catalog.name_faults()]
    recipes: dict[str, Recipe] = {}
    for entry in found:
        findings += _check_entry(ctx, catalog, entry, recipes)
    findings += _check_together(recipes)
    return CheckResult(len(found), tuple(findings))


def _check_entry(ctx: Context, catalog: Catalog, found: CatalogEntry, recipes: dict[str, Recipe]) -> list[Finding]:
    where = str(found.recipe_path)
    try:
        recipe = found.recipe()
        found.software()
        backend = get_backend(recipe.backend)
    except EnvmgrError as error:
        return [
            Finding("recipe", "error", str(found.entry), line, hint=error.hint)
            for line in error.context or (error.message,)
        ]
    recipes[str(found.entry)] = recipe
    findings = [
        Finding("recipe", "error", str(found.entry), f"{where}: {fault}") for fault in backend.faults(recipe, ctx.site)
    ]
    if findings:
        return findings
    for dependency in recipe.depends:
        try:
            catalog.find(parse_entry(dependency))
        except InputError as error:
            findings.append(
                Finding("depends", "error", str(found.entry), f"{where}: depends: {error.message}", hint=error.hint)
            )
    try:
        catalog.with_dependencies([found.entry])
    except InputError as error:
        if error.reference == "dependency-cycle":
            findings.append(
                Finding("depends", "error", str(found.entry), f"{where}: {error.message}: {error.context[0]}")
            )
    if recipe.deprecated and recipe.deprecated.date < datetime.datetime.now(datetime.UTC).date():
        text = f"{where}: deprecated.date {recipe.deprecated.date} has passed"
        findings.append(Finding("deprecated", "warning", str(found.entry), text, hint=f"`envmgr remove {found.entry}`"))
    findings += [
        Finding("requires", "warning", str(found.entry), f"{where}: requires.{fault}")
        for fault in _beyond_target(recipe.requires, read_target(ctx.site.cpu_level))
    ]
    if not recipe.tests:
        findings.append(
            Finding("tests", "warning", str(found.entry), f"{where}: no smoke test: only loading is checked")
        )
    try:
        lock = backend.load_lock(found.entry, recipe, found.folder, ctx.site)
        findings += [Finding("requires", "error", str(found.entry), f"{where}: {f}") for f in lock.faults(recipe)]
    except EnvmgrError as error:
        severity = "warning" if error.reference == "lock-missing" else "error"
        findings.append(Finding("lock", severity, str(found.entry), error.message, hint=error.hint))  # type: ignore[arg-type]
    return findings


def _beyond_target(requires: Requires, target: Target) -> list[str]:
    """What the site's own target does not give, so that no node of it can be counted on."""
    faults = []
    if requires.cpu_level and CPU_ORDER.get(requires.cpu_level, 0) > CPU_ORDER.get(target.cpu_level, 0):
        faults.append(f"cpu_level: {requires.cpu_level}, the site is built for {target.cpu_level}")
    numbers = [tuple(int(n) for n in re.findall(r"\d+", text)) for text in (requires.glibc or "0", target.glibc)]
    if numbers[1] and numbers[0] > numbers[1]:
        faults.append(f"glibc: {requires.glibc}, here is {target.glibc}")
    return faults


def _check_together(recipes: dict[str, Recipe]) -> list[Finding]:
    """What only shows between entries: two defaults of a name, two names with one variable."""
    findings = []
    defaults: dict[str, list[str]] = defaultdict(list)
    stems: dict[str, set[str]] = defaultdict(set)
    for entry, recipe in recipes.items():
        name = entry.partition("/")[0]
        stems[variable_name(name)].add(name)
        if recipe.default:
            defaults[name].append(entry)
    for name, entries in sorted(defaults.items()):
        if len(entries) > 1:
            findings.append(Finding("default", "error", name, f"{' and '.join(entries)} are both the default"))
    for stem, names in sorted(stems.items()):
        if len(names) > 1:
            findings.append(Finding("names", "error", " and ".join(sorted(names)), f"both set {stem}_ROOT"))
    return findings
