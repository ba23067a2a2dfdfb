"""The check of recipes and locks: each fault with its place."""

from __future__ import annotations

import datetime
import re
from collections import defaultdict
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

from envmgr.backends import Backend, LoadedLock, get_backend
from envmgr.catalog.entries import MOST_BELOW, Catalog, CatalogEntry, find_circles, too_many_below
from envmgr.catalog.names import parse_entry, variable_name
from envmgr.catalog.recipe import Recipe
from envmgr.catalog.recipe_parts import Requires
from envmgr.catalog.site import Target, read_target
from envmgr.catalog.site_file import CPU_ORDER
from envmgr.errors import EnvmgrError, InputError, Interrupted
from envmgr.modules.families import Clash, Member, find_clashes
from envmgr.report import Finding, Severity
from envmgr.steps import Context
from envmgr.steps.lock_checks import entry_faults, judge_all, why_failed
from envmgr.wording import MOST_LINES, one_line, shortened

_LONGEST = 1500  # characters of one finding
_ORDER = "the first of `catalogs` in site.yaml that has an entry counts: remove the other one, or name it otherwise"


@dataclass(frozen=True, slots=True)
class Accepted:
    """A fault of a lock that a recipe accepts, for its reviewers: `change` is the fault, `reason` the recipe's."""

    entry: str
    rule: str
    change: str
    reason: str


@dataclass(frozen=True, slots=True)
class CatalogCheck:
    """The findings on recipes and locks. `checked` is the number of recipes."""

    checked: int
    findings: tuple[Finding, ...]
    accepted: tuple[Accepted, ...] = ()


@dataclass(slots=True)
class _Check:
    """A check of `entries`: what could be read of them, what their recipes accept, and how many names were `missed`. A lock that
    cannot be read is None.
    """

    ctx: Context
    catalog: Catalog
    entries: Sequence[CatalogEntry]
    recipes: dict[str, Recipe] = field(default_factory=dict)
    locks: dict[str, LoadedLock | None] = field(default_factory=dict)
    accepted: list[Accepted] = field(default_factory=list)
    missed: int = 0

    def find(self, name: str) -> CatalogEntry:
        """Find an entry by name. What is nowhere is compared with the whole catalog: not for very many names.

        Raises InputError.
        """
        entry = parse_entry(name)
        if found := self.catalog.look(entry):
            return found
        self.missed += 1
        if self.missed > MOST_LINES:
            raise InputError("unknown-entry", f"no catalog has {entry}")
        return self.catalog.find(entry)


def check_catalog(ctx: Context, names: Sequence[str] = ()) -> CatalogCheck:
    """Check all recipes and locks, or the named ones; each fault has its place."""
    catalog = ctx.catalog
    check = _Check(ctx, catalog, [catalog.find(catalog.parse(n)) for n in names] if names else catalog.entries())
    findings = [] if names else [Finding("names", "error", "catalog", text) for text in catalog.name_faults()]
    for entry in check.entries:
        try:
            findings += _check_entry(check, entry)
        # Ctrl-C is an EnvmgrError as well, and is no finding.
        except Interrupted:
            raise
        except Exception as error:  # noqa: BLE001 - a library that fails over one entry ends no check of the others
            text = f"{entry.recipe_path}: cannot be checked: {why_failed(error)}"
            hint = "report it, with the recipe and its lock"
            findings.append(Finding("recipe", "error", str(entry.entry), text, hint=hint))
    findings += _check_depending(check)
    findings += _check_together(check.recipes)
    findings += _check_families(check)
    cut = (replace(each, found=one_line(each.found, _LONGEST), hint=one_line(each.hint, _LONGEST)) for each in findings)
    return CatalogCheck(len(check.entries), tuple(cut), tuple(check.accepted))


def _check_entry(check: _Check, found: CatalogEntry) -> list[Finding]:
    """Return the findings for an entry. The check gets what could be read of it."""
    ctx = check.ctx
    findings = [
        Finding("hidden", "warning", str(found.entry), f"{found.folder} counts, and {folder} is hidden", hint=_ORDER)
        for folder in ctx.catalog.hidden(found)
    ]
    recipe, faulty = None, frozenset[str]()
    try:
        recipe, faults, faulty = found.sound_recipe()
        findings += [Finding("recipe", "error", str(found.entry), one_line(line)) for line in shortened(faults)]
    except EnvmgrError as error:
        findings += _unreadable(found, error)
    try:
        found.software()
    except EnvmgrError as error:
        findings += _unreadable(found, error)
    if recipe is None:  # nothing is known of its fields
        return findings
    check.recipes[str(found.entry)] = recipe
    backend, wrong, without = None, list[str](), list[EnvmgrError]()
    try:
        backend = get_backend(recipe.backend)
    except EnvmgrError as error:
        findings += _unreadable(found, error)
    else:
        wrong = backend.faults(recipe, ctx.site)
        without = [] if wrong else [*backend.missing(found.entry, recipe, found.folder, ctx.site)]
        remarks = [] if wrong else backend.remarks(recipe, ctx.site)
        hint = "name it in site.yaml, or look at what it has"
        findings += [_finding("recipe", "error", found, one_line(fault)) for fault in shortened(wrong)]
        findings += [Finding("recipe", "error", str(found.entry), why_failed(each), hint=each.hint) for each in without]
        findings += [_finding("recipe", "warning", found, one_line(each), hint) for each in shortened(remarks)]
    findings += _missing(check, found, recipe)
    if recipe.deprecated and recipe.deprecated.date < datetime.datetime.now(datetime.UTC).date():
        text = f"deprecated.date {recipe.deprecated.date} has passed"
        findings.append(_finding("deprecated", "warning", found, text, f"`envmgr publish --remove {found.entry}`"))
    beyond = _beyond_target(recipe.requires, read_target(ctx.site.cpu_level))
    findings += [_finding("requires", "warning", found, f"requires.{fault}") for fault in beyond]
    if not recipe.tests and "tests" not in faulty:
        findings.append(_finding("tests", "warning", found, "no smoke test: only loading is checked"))
    if backend is not None:
        known = {*wrong, *faulty, *map(why_failed, without)}
        findings += _check_lock(check, found, recipe, backend, known)
    return findings


def _unreadable(found: CatalogEntry, error: EnvmgrError) -> list[Finding]:
    """Return a finding for each fault. Where the message names no place, the faults are its context, with their
    lines.
    """
    has_place = error.message.startswith(f"{found.recipe_path}:")
    lines = (error.message,) if has_place else error.context or (error.message,)
    return [Finding("recipe", "error", str(found.entry), one_line(line), hint=error.hint) for line in shortened(lines)]


def _check_lock(
    check: _Check, found: CatalogEntry, recipe: Recipe, backend: Backend, known: Collection[str]
) -> list[Finding]:
    """Return the findings on the lock. With faults of the recipe that are `known`, nobody can say what it accepts."""
    findings: list[Finding] = []
    check.locks[str(found.entry)] = None
    try:
        lock = check.locks[str(found.entry)] = backend.load_lock(found.entry, recipe, found.folder, check.ctx.site)
        if known:
            return []
        judged = judge_all(found.entry, recipe, lock.facts, lock.below)
        findings += [
            _finding("lock", "error", found, f"{fault.rule}: {fault.text}", fault.mend)
            for fault in entry_faults(found.entry, judged)
        ]
        own = judged[-1][1]
        findings += [
            _finding("lock", "warning", found, f"accept.{rule}: its lock has no such fault", "take it out")
            for rule in own.unused
        ]
        for fault, why in own.accepted:
            change, reason = one_line(fault.text, _LONGEST), one_line(why, _LONGEST)
            check.accepted.append(Accepted(str(found.entry), fault.rule, change, reason))
    except EnvmgrError as error:
        if why_failed(error) in known or (known and error.reference == "recipe-invalid"):
            return []  # it is reported
        severity: Severity = "warning" if error.reference == "lock-missing" else "error"
        findings.append(Finding("lock", severity, str(found.entry), why_failed(error), hint=error.hint))
    return findings


def _finding(check: str, severity: Severity, found: CatalogEntry, text: str, hint: str = "") -> Finding:
    """Return a finding about the recipe of `found`."""
    return Finding(check, severity, str(found.entry), f"{found.recipe_path}: {text}", hint=hint)


def _missing(check: _Check, found: CatalogEntry, recipe: Recipe) -> list[Finding]:
    """Return a finding for each dependency that no catalog has; of very many, the first."""
    findings: list[Finding] = []
    for dependency in recipe.depends:
        try:
            check.find(dependency)
        except InputError as error:
            text = error.message if len(findings) < MOST_LINES else "and more"
            findings.append(_finding("depends", "error", found, f"depends: {text}", error.hint))
            if len(findings) > MOST_LINES:
                break
    return findings


def _check_depending(check: _Check) -> list[Finding]:
    """Return findings on circles, and on entries that depend on very many; dependencies that are not checked are read
    too.
    """
    depends: dict[str, tuple[str, ...]] = {}
    waiting = [*check.recipes]
    while waiting:
        name = waiting.pop()
        if name not in depends:
            depends[name] = ()
            with suppress(Exception):  # reported where it is checked
                depends[name] = (check.recipes.get(name) or check.find(name).recipe()).depends
            waiting += depends[name]
    circles = find_circles(depends)
    faults = {name: f"{first} depends on itself: {way}" for name, (first, way) in circles.items()}
    many = f"depends on more than {MOST_BELOW} entries, directly or not"
    faults |= {name: many for name in too_many_below(depends) if name not in circles}
    by_name = {str(each.entry): each for each in check.entries}
    in_order = sorted(by_name, key=lambda name: name not in circles)
    return [_finding("depends", "error", by_name[name], faults[name]) for name in in_order if name in faults]


def _beyond_target(requires: Requires, target: Target) -> list[str]:
    """Return the requirements that the site's own target does not meet, so that no node of it can be counted on."""
    faults = []
    if requires.cpu_level and CPU_ORDER.get(requires.cpu_level, 0) > CPU_ORDER.get(target.cpu_level, 0):
        faults.append(f"cpu_level: {requires.cpu_level}, the site is built for {target.cpu_level}")
    numbers = [tuple(int(n) for n in re.findall(r"\d+", text)) for text in (requires.glibc or "0", target.glibc)]
    if numbers[1] and numbers[0] > numbers[1]:
        faults.append(f"glibc: {requires.glibc}, here is {target.glibc}")
    return faults


def _check_together(recipes: dict[str, Recipe]) -> list[Finding]:
    """Return findings that only show between entries: two defaults of a name, two names with one variable."""
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


def _check_families(check: _Check) -> list[Finding]:
    """Return findings on entries that load two members of one family, or two versions of one name."""
    members: dict[str, Member] = {}
    waiting, seen = [str(each.entry) for each in check.entries], set[str]()
    while waiting:
        name = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        with suppress(Exception):  # what is wrong with a recipe or a lock is reported where that is checked
            each = check.find(name)
            recipe = check.recipes.get(name) or each.recipe()
            members[name] = Member(recipe.families, False, recipe.depends)
            waiting += recipe.depends
            if name not in check.locks:
                backend = get_backend(recipe.backend)
                check.locks[name] = backend.load_lock(each.entry, recipe, each.folder, check.ctx.site)
            if (lock := check.locks[name]) is not None:
                members[name] = Member(recipe.families, _brings_python(check.ctx, lock), recipe.depends)
    for name in too_many_below({name: member.depends for name, member in members.items()}):
        del members[name]
    places = {str(each.entry): str(each.recipe_path) for each in check.entries}
    return [_clash_finding(clash, places[clash.entry]) for clash in find_clashes(members) if clash.entry in places]


def _brings_python(ctx: Context, lock: LoadedLock) -> bool:
    """Return whether an entry has its own Python. Where its lock does not say, its install does; before the build that
    is not known.
    """
    if lock.python is not None:
        return lock.python
    install = lock.items(ctx.site, read_target(ctx.site.cpu_level))[-1].install
    return install.exists() and install.has_python()


def _clash_finding(clash: Clash, where: str) -> Finding:
    others = [each for each in clash.members if each != clash.entry]
    named, verb = " and ".join(others), "is" if len(others) == 1 else "are"
    if not clash.certain:
        family = f"would each be of family {clash.family} by default, and {verb} not, so that both can be loaded"
        text = f"depends: {named} {family}"
        return Finding("families", "warning", clash.entry, f"{where}: {text}", hint="depend on one of them, if it does")
    if not clash.family:
        text = f"depends: {' and '.join(clash.members)} have one name, and Lmod keeps one version of a name loaded"
        hint = "depend on one of them, or give one another name"
    elif len(others) < len(clash.members):
        text = f"families: {clash.family}: {named}, which it depends on, {verb} of it too, and Lmod cannot load both"
        hint = f"take {clash.family} out of it: its module leaves it out, and loading it still replaces members of it"
    else:
        text = f"depends: {named} are both of family {clash.family}, and Lmod keeps one module of a family loaded"
        hint = "depend on one of them, or let one of them say `families: []`"
    return Finding("families", "error", clash.entry, f"{where}: {text}", hint=hint)
