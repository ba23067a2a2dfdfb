"""`envmgr find`: the installs that have a package, who gets them, and what follows from a new version. It changes nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, ClassVar

from envmgr.errors import EnvmgrError
from envmgr.people.environments import all_installs
from envmgr.people.lock import lock_of
from envmgr.people.places import user_places
from envmgr.publish.records import GenerationRecord, current_number, raw_defaults, read_records, read_specs
from envmgr.report import Lines, Result, Table
from envmgr.steps import Context, require_current_if_ever
from envmgr.steps.parts import Known, WantedPart, parse_wanted, read_parts
from envmgr.store.away import why_not_mounted
from envmgr.store.parts import Part
from envmgr.store.user_holds import read_holds
from envmgr.verbs import argument, needs
from envmgr.wheels.parts import wheel_parts
from envmgr.wording import counted


@dataclass(frozen=True, slots=True)
class FoundPart:
    """A package that was asked for, in one install of one entry. `compared` is false if its name is the one, and its
    version cannot be compared: look yourself.

    `generations` are those in which the entry has this install, `current` says whether the one that users get is among
    them. `default` says whether a load of the name without a version gets the entry. `held` are user environments that
    keep the install. `rebuild` are the commands that follow once a recipe gives another version, empty where the entry is not current.
    """

    asked: str
    compared: bool
    entry: str
    package: str
    version: str
    build: str
    ecosystem: str
    install: str
    generations: tuple[int, ...]
    current: bool
    default: bool
    held: tuple[str, ...]
    rebuild: str


@dataclass(frozen=True, slots=True)
class NotLooked:
    """Something that could not be looked at, and why."""

    what: str
    why: str


@dataclass(frozen=True, slots=True)
class FindResult(Result):
    """The packages that were found. `entries` counts those of `generations`, `held_by` the users whose environments keep
    installs, `environments` those of the user who asked.
    """

    schema: ClassVar[str] = "envmgr.find/1"
    asked: tuple[str, ...]
    found: tuple[FoundPart, ...]
    entries: int
    installs: int
    packages: int
    current: int | None
    generations: tuple[int, ...]
    held_by: int
    environments: int
    unread: tuple[NotLooked, ...]

    @property
    def exit_code(self) -> int:
        """1 if anything was found, or could not be looked at: that is not known to be free of it."""
        return 1 if self.found or self.unread else 0

    def lines(self) -> Lines:
        header = ("entry", "package", "version", "of", "generations", "install")
        yield Table([_row(each) for each in self.found], header)
        if self.found:
            yield ""
        for line in dict.fromkeys(each.rebuild for each in self.found if each.rebuild):
            yield f"once the recipe gives another version: {line}"
        for who in dict.fromkeys(who for each in self.found for who in each.held):
            yield f"also for {who}"
        for each in self.unread:
            yield f"not looked at: {each.what}: {each.why}"
        entries = counted(self.entries, "entries")
        where = f"{entries}, {counted(len(self.generations), 'generations')}, {_environments(self)}"
        yield f"{len(self.found)} found in {where}" if self.found else f"no {' and no '.join(self.asked)} in {where}"


@dataclass(slots=True)
class _Store:
    """The installs that are in use: path -> entry -> its generations, and path -> holders."""

    records: Mapping[int, GenerationRecord]
    current: int | None
    used: dict[str, dict[str, list[int]]] = field(default_factory=dict)
    held: dict[str, list[str]] = field(default_factory=dict)
    known: dict[str, Known] = field(default_factory=dict)
    own: set[str] = field(default_factory=set)  # paths of this user's environments

    def rebuild(self, path: str, name: str) -> str:
        """Return the commands for the current entries that have the install. Those whose own lock has the package are
        locked again; the others stand on these, and are only built again.
        """
        if path in self.own:
            return f"envmgr user update {self.known[path].entry.partition('/')[2]}"
        record = self.records.get(self.current or 0)
        current = {} if record is None else record.entries
        users = [entry for entry in self.used.get(path, ()) if entry in current and path in current[entry].paths]
        if not users:
            return ""
        own = {entry: self.known.get(current[entry].path) for entry in users}
        again = [entry for entry, known in own.items() if known and name.lower() in known.names]
        locked = again or [self.known[path].entry]
        return f"envmgr lock {' '.join(locked)} && envmgr build {' '.join(dict.fromkeys((*locked, *users)))}"


@needs("prefix")
def find(
    ctx: Context,
    packages: Annotated[list[str], argument("Names, with versions if you like: 'openssl<3.0.15'.", "PACKAGE")],
) -> FindResult:
    """Find the entries that have a package.

    It looks into all generations, into what users' environments stand on, and into your own environments. The exit code
    is 1 if something was found or could not be looked at, and 0 if nothing was.
    """
    wanted = [parse_wanted(text) for text in packages]
    require_current_if_ever(ctx)
    records, damaged = read_records(ctx.prefix)
    unread = [NotLooked(f"generation {number}", error.message) for number, error in damaged.items()]
    if not records and (why := why_not_mounted(ctx.site)):
        unread.append(NotLooked(str(ctx.prefix.root), why))
    store = _Store(records, current_number(ctx.prefix))
    for number, record in records.items():
        for path, entries in record.installs.items():
            for entry in entries:
                store.used.setdefault(path, {}).setdefault(entry, []).append(number)
    for path, who in read_holds(ctx.site, lambda file, why: unread.append(NotLooked(file, why))):
        store.held.setdefault(path, []).append(who)
    unread += _read_all(ctx, store)
    unread += _read_own(ctx, store)
    for text in packages:
        if at := [number for number, record in records.items() if text in record.entries]:
            where = "" if store.current in at else f" --generation {max(at)}"
            ctx.reporter.say(f"{text} is an entry: `envmgr sbom {text}{where}` lists the packages in it")
    return FindResult(
        asked=tuple(packages),
        found=tuple(_found(ctx, store, wanted)),
        entries=len({entry for record in records.values() for entry in record.entries}),
        installs=len(store.known),
        packages=sum(len(known.parts) for known in store.known.values()),
        current=store.current,
        generations=tuple(records),
        held_by=len({who for each in store.held.values() for who in each}),
        environments=len(store.own),
        unread=tuple(unread),
    )


def _read_all(ctx: Context, store: _Store) -> Iterator[NotLooked]:
    """Read what is known of all installs; yield those that cannot be read."""
    paths = sorted({*store.used, *store.held})
    with ctx.reporter.stage("packages of installs", total=len(paths), unit="installs") as stage:
        for index, path in enumerate(paths):
            ctx.runner.raise_if_cancelled()
            stage.update(index + 1, detail=path)
            try:
                store.known[path] = read_parts(ctx.prefix.install_at(path))
            except (EnvmgrError, ValueError) as error:
                why = error.message if isinstance(error, EnvmgrError) else str(error)
                yield NotLooked(path, why)


def _read_own(ctx: Context, store: _Store) -> Iterator[NotLooked]:
    """Read the environments of this user; yield those that cannot be read."""
    places = user_places(ctx.environ)
    installs = [*all_installs(places)]
    for name in places.names():
        if (now := places.install(name)) is not None and now not in installs:
            yield NotLooked(str(now.path), f"it is your environment {name}, and its manifest is not there")
    for install in installs:
        path = str(install.path)
        try:
            wheels = lock_of(install).wheels
        except EnvmgrError as error:
            yield NotLooked(path, error.message)
            continue
        parts = tuple(wheel_parts(wheels.rows))
        store.known[path] = Known(parts, str(install.entry), frozenset(wheels.versions), "")
        store.own.add(path)


def _found(ctx: Context, store: _Store, wanted: Sequence[WantedPart]) -> Iterator[FoundPart]:
    current = store.current
    specs = read_specs(ctx.prefix, current) if current is not None and current in store.records else {}
    defaults = frozenset(raw_defaults(specs).values())
    for path, known in store.known.items():
        users = store.used.get(path, {})
        for one, part, compared in _matches(known, wanted):
            for entry in users or [known.entry]:
                numbers = tuple(users.get(entry, ()))
                yield FoundPart(
                    asked=one.text,
                    compared=compared,
                    entry=entry,
                    package=part.name,
                    version=part.version,
                    build=part.build,
                    ecosystem=part.ecosystem,
                    install=path if path in store.own else str(ctx.prefix.install_at(path).path),
                    generations=numbers,
                    current=store.current in numbers,
                    default=store.current in numbers and entry in defaults,
                    held=tuple(store.held.get(path, ())),
                    rebuild=store.rebuild(path, part.name) if path in store.own or store.current in numbers else "",
                )


def _matches(known: Known, wanted: Sequence[WantedPart]) -> Iterator[tuple[WantedPart, Part, bool]]:
    for one in wanted:
        for part in known.parts:
            if (judged := one.judge(part)) is not False:
                yield one, part, judged is not None


def _row(each: FoundPart) -> tuple[str, ...]:
    words = [str(number) for number in each.generations]
    words += [word for word, holds in (("current", each.current), ("default", each.default)) if holds]
    version = f"{each.version}{'' if each.compared else ' (cannot be compared)'}"
    kept = ", ".join(words) or ("users' environments" if each.held else "your environment")
    return each.entry, each.package, version, each.ecosystem, kept, each.install


def _environments(result: FindResult) -> str:
    held = f"what environments of {counted(result.held_by, 'users')} stand on"
    return f"{counted(result.environments, 'environments')} of yours, {held}"
