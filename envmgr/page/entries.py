"""The page's data, from the contents of a generation and the manifests of its installs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Any

from envmgr.catalog.gpus import FLOORS, GpuNeeds, toolkit_driver
from envmgr.errors import EnvmgrError
from envmgr.modules.families import find_families, member_of
from envmgr.modules.spec import ModuleSpec, default_entries
from envmgr.page.history import read_history
from envmgr.page.model import Deprecation, GpuCode, PageEntry, PageGeneration, PageInstall, PageTest, Since
from envmgr.publish.extras import GenerationContents
from envmgr.publish.records import PublishedEntry
from envmgr.store.manifest import read_provenance
from envmgr.store.prefix import Prefix

JobScript = Callable[[Mapping[str, ModuleSpec], str, int], str]
"""Returns a job of an entry: specs of the generation, the entry, the generation's number."""


def make_catalog(
    prefix: Prefix, site: str, contents: GenerationContents, job: JobScript, sboms: Mapping[str, str] | None = None
) -> tuple[PageGeneration, dict[str, bytes]]:
    """Return the data of the page, and the locks of its installs: path below the page -> content. `sboms` maps entries
    to further files of the page.
    """
    since, news = read_history(prefix, contents)
    families = find_families({name: member_of(spec) for name, spec in contents.specs.items()})
    dependents: dict[str, list[str]] = defaultdict(list)
    for name, spec in sorted(contents.specs.items()):
        for needed in spec.depends:
            dependents[needed].append(name)
    parts, locks = dict[str, PageInstall](), dict[str, bytes]()
    for path in sorted({path for entry in contents.entries.values() for path in entry.paths}):
        parts[path], texts = _read_part(prefix, path)
        locks |= texts
    named = default_entries((s.name, s.version, s.default, s.hidden) for s in contents.specs.values())
    defaults = frozenset(named.values())
    entries = tuple(
        _entry(
            contents.specs[name],
            published,
            since[name],
            default=name in defaults,
            families=families[name].own,
            dependents=tuple(dependents[name]),
            job=job(contents.specs, name, contents.number),
            sbom=(sboms or {}).get(name, ""),
        )
        for name, published in sorted(contents.entries.items())
    )
    number, created = contents.number, contents.created
    found = PageGeneration(site=site, generation=number, created=created, entries=entries, parts=parts, news=news)
    return found, locks


def _entry(
    spec: ModuleSpec,
    published: PublishedEntry,
    since: Since,
    *,
    default: bool,
    families: tuple[str, ...],
    dependents: tuple[str, ...],
    job: str,
    sbom: str,
) -> PageEntry:
    gone = spec.deprecated
    return PageEntry(
        entry=spec.entry,
        name=spec.name,
        version=spec.version,
        digest=published.digest,
        description=spec.description,
        homepage=spec.homepage,
        licence=spec.licence,
        category=spec.category,
        help=spec.help,
        load=f"module load {spec.entry}",
        job=job,
        default=default,
        hidden=spec.hidden,
        families=families,
        depends=spec.depends,
        dependents=dependents,
        requires=spec.requires,
        gpu=_gpu(spec.gpu) if spec.gpu else None,
        tests=tuple(PageTest(name=each.name, needs=each.needs, nodes=each.nodes) for each in spec.tests),
        since=since,
        deprecated=Deprecation(message=gone.message, until=gone.date) if gone else None,
        not_ours=published.not_ours,
        parts=published.paths,
        sbom=sbom,
    )


def _gpu(needs: GpuNeeds) -> GpuCode:
    cuda = needs.cuda or ""
    return GpuCode(
        cuda=cuda,
        codes=needs.codes,
        runs_from=FLOORS.get(cuda.partition(".")[0], needs.driver),
        compiles_from=toolkit_driver(cuda).partition(".")[0],
        compat=needs.compat,
    )


def _read_part(prefix: Prefix, path: str) -> tuple[PageInstall, dict[str, bytes]]:
    """Return an install and its locks. One whose manifest is damaged has no packages: they are not known."""
    install = prefix.install_at(path)
    try:
        provenance = read_provenance(install.manifest)
        folder = f"locks/{install.entry.name}/{install.label}"
        locks = {f"{folder}/{name}": text.encode() for name, text in _texts(provenance.get("lock")) if _is_plain(name)}
        part = PageInstall(
            entry=str(install.entry),
            backend=str(dict(provenance.get("recipe") or {}).get("backend", "")),
            packages=dict(sorted(_texts(provenance["packages"]))),
            locks=tuple(locks),
        )
    # A damaged manifest may have any JSON in any place; a lone surrogate is no text that a page can hold.
    except (EnvmgrError, ValueError, TypeError, KeyError, AttributeError):
        return PageInstall(entry=str(install.entry)), {}
    return part, locks


def _texts(rows: Any) -> list[tuple[str, str]]:
    """Return the rows of a mapping of texts; another thing raises."""
    found = [(key, value) for key, value in dict(rows or {}).items() if isinstance(key, str) and isinstance(value, str)]
    if len(found) != len(rows or {}):
        raise ValueError("not all of it is text")
    return found


def _is_plain(name: str) -> bool:
    return name.isprintable() and "/" not in name and not name.startswith(".")
