"""A user environment as an entry for the site's catalog: recipe and lock with its very packages, and a text that asks
for it.

Nothing is solved: the lock has the packages of the entry below, as they were published, and the environment's own.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from pydantic import ValidationError

from envmgr.backends import LoadedEntry, get_backend
from envmgr.backends.wheels.built_contents import top_modules
from envmgr.backends.wheels.extend import on_python
from envmgr.catalog.entries import RECIPE_NAME, SOFTWARE_NAME, open_catalog
from envmgr.catalog.environment import UNPARSED
from envmgr.catalog.names import Entry, parse_entry
from envmgr.catalog.recipe import Recipe
from envmgr.catalog.site import Site, read_target
from envmgr.errors import EnvmgrError, InputError
from envmgr.people.lock import UserLock
from envmgr.people.solve import question_of
from envmgr.people.wishes import unchanged
from envmgr.publish.records import PublishedEntry
from envmgr.store.manifest import read_manifest
from envmgr.store.prefix import Install, Prefix
from envmgr.system.files import atomic_write
from envmgr.system.shelltext import quote
from envmgr.system.untrusted_files import SOFTWARE, read_bytes
from envmgr.system.usernames import own_name
from envmgr.system.yamlfile import dump_yaml
from envmgr.wheels.difference import Difference
from envmgr.wording import and_more, counted, for_terminal, size_text

REQUEST_NAME = "REQUEST.md"
_REST = {"schema_version", "backend", "input", "tests", "default", "hidden", "deprecated"}


@dataclass(frozen=True, slots=True)
class RequestedPackage:
    """A package that the new entry has more than the one below; `before` is the version there, empty if it has none."""

    name: str
    version: str
    before: str
    file: str
    sha256: str
    size: int | None


def lock_below(published: PublishedEntry, on: str, name: str, site: Site, work: Path) -> LoadedEntry:
    """Return the entry that the environment `name` stands on, with the lock by which its install was made.

    That is the catalog's, unless it has moved on: then the one that the install's manifest keeps, written below `work`.

    Raises:
        InputError: `not-requestable`, if neither says it.
    """
    entry, target = parse_entry(on), read_target(site.cpu_level)

    def loaded(recipe: Recipe, folder: Path) -> LoadedEntry | None:
        lock = get_backend(recipe.backend).load_lock(entry, recipe, folder, site)
        same = lock.items(site, target)[-1].install.digest == published.digest
        return LoadedEntry(recipe, folder, lock) if same else None

    with suppress(EnvmgrError):  # whatever is wrong in the catalog now
        if (found := open_catalog(site).look(entry)) and (made := loaded(found.recipe(shells=False), found.folder)):
            return made
    install = Prefix(site.prefix).install_at(published.path)
    with suppress(
        EnvmgrError, OSError, ValueError, KeyError, TypeError
    ):  # no install, or one of an envmgr that kept less
        kept = read_manifest(install.manifest).provenance
        recipe = Recipe.model_validate(kept["recipe"], context=UNPARSED)
        folder = work / on
        folder.mkdir(parents=True)
        for file, text in kept["lock"].items():
            atomic_write(folder / file, text)
        if made := loaded(recipe, folder):
            return made
    raise InputError(
        "not-requestable",
        f"the lock of {on} is another one now than that of the install which the environment stands on",
        context=f"install {published.path}",
        hint=f"when the administrators have built it again: `envmgr user update {name} --rebase`, and the same command",
    )


def requested_packages(lock: UserLock, below: LoadedEntry) -> tuple[RequestedPackage, ...]:
    before = {name: below.lock.packages.get(name, "").partition(" ")[0] for name in lock.replaced}
    return tuple(
        RequestedPackage(w.name, w.version, before.get(w.name, ""), w.file, w.sha256, w.size)
        for w in lock.wheels.wheels
    )


def entry_files(
    entry: Entry, lock: UserLock, below: LoadedEntry, published: PublishedEntry, install: Install, site: Site
) -> Mapping[str, str | bytes]:
    """Return the files of the new entry, by their paths in a catalog. `install` is the environment's.

    Raises:
        InputError: `not-requestable`.
    """
    rows = question_of(unchanged(lock), site).requirements
    more = Difference(rows, frozenset(lock.replaced), lock.wheels)
    root = Prefix(site.prefix).install_at(published.path).path
    recipe, backend = below.recipe, below.recipe.backend
    try:
        made = below.lock.extended(recipe, more, root)
        if made is None:
            made, backend = on_python(lock.on, more, below.folder), "wheels"
    except ValidationError as error:
        context = [each["msg"] for each in error.errors()]
        message = f"no recipe can say what user/{install.entry.version} has"
        raise InputError("not-requestable", message, context=context) from None
    tests = [test.model_dump(mode="json", exclude_defaults=True, exclude={"files"}) for test in recipe.tests]
    if modules := dict.fromkeys(_imports(install, rows)):
        name = f"import {', '.join(modules)}"
        tests = [test for test in tests if test["name"] != name] + [{"name": name, "run": f"python -c '{name}'"}]
    said = recipe.model_dump(mode="json", by_alias=True, exclude_defaults=True, exclude=_REST)
    document = {"schema": 1, "backend": backend, "input": made[0], **said, **({"tests": tests} if tests else {})}
    files = {f"{entry}/{name}": content for name, content in made[1].items()}
    return {
        f"{entry.name}/{SOFTWARE_NAME}": _software(entry, lock.on, rows, site),
        f"{entry}/{RECIPE_NAME}": dump_yaml(document, width=120, blocks=True),
        **files,
    }


def _imports(install: Install, rows: Sequence[str]) -> Iterator[str]:
    """Yield a module of each package that the user asked for, as far as the environment has it itself."""
    asked = {canonicalize_name(Requirement(row).name) for row in rows}
    for record in sorted(install.path.glob("lib/python3*/site-packages/*.dist-info/RECORD")):
        if canonicalize_name(record.parent.name.partition("-")[0]) in asked:
            with record.open(encoding="utf-8", errors="replace", newline="") as lines:
                modules, _ = top_modules(row[0] for row in csv.reader(lines) if row)
            yield from [module for module in modules if not module.startswith("_")][:1]


def _software(entry: Entry, on: str, rows: Sequence[str], site: Site) -> str | bytes:
    """Return what all versions of the name share: as the catalog has it, or else of the entry below."""
    for root in site.catalogs:
        if (place := root / entry.name / SOFTWARE_NAME).is_file():
            return read_bytes(place, SOFTWARE, tree=root)
    description = f"{on} with {and_more([Requirement(row).name for row in rows], 5)}"
    found = open_catalog(site).look(parse_entry(on))
    shared = found.software().model_dump(include={"category", "acknowledge"}, exclude_defaults=True) if found else {}
    return dump_yaml({"description": description, **shared}, width=120)


def request_text(
    entry: Entry,
    lock: UserLock,
    packages: Sequence[RequestedPackage],
    published: PublishedEntry,
    site: Site,
    *,
    why: str,
    takes: tuple[int, int],
) -> str:
    """Return the text of a pull request. `takes` are the inodes and bytes of the environment."""
    import jinja2

    place = Path(__file__).with_name("request.md.j2")
    environment = jinja2.Environment(undefined=jinja2.StrictUndefined, trim_blocks=True, keep_trailing_newline=True)  # noqa: S701 - the text is no HTML
    environment.filters["amount"] = lambda size: "" if size is None else size_text(size)
    text: str = environment.from_string(place.read_text(encoding="utf-8")).render(
        entry=entry,
        lock=lock,
        packages=packages,
        published=published,
        site=site,
        user=own_name(),
        why=for_terminal(why).strip(),
        count=counted(len(packages), "packages"),
        takes=f"{counted(takes[0], 'inodes')}, {size_text(takes[1])}",
        left_out=[Path(folder).name for folder in lock.editable],
        catalog=quote(str(next(iter(site.catalogs[:-1]), "CATALOG"))),
    )
    return text
