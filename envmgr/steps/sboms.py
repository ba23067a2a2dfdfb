"""The documents of what entries are made of."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from envmgr.errors import EnvmgrError, InputError, Interrupted
from envmgr.exchange.sboms import write_sbom
from envmgr.exchange.sboms.document import CarriedPart, CarriedSbom, Component, Document
from envmgr.publish.records import PublishedEntry
from envmgr.steps import Context
from envmgr.steps.parts import Known, read_parts
from envmgr.store.dist_info import DistInfo, dist_infos
from envmgr.store.parts import PYPI, Part, same_name
from envmgr.system.files import canonical_json, sha256_bytes
from envmgr.wording import one_line


def entry_sboms(
    ctx: Context, entries: Mapping[str, PublishedEntry], created: str, names: Iterable[str]
) -> Iterator[tuple[str, str]]:
    """Yield entries of a generation that is `created` now, each with its document; none without the extra `sbom`, and
    none for an entry whose install cannot be read.
    """
    read = PartsOfEntries(ctx)
    for name in names:
        try:
            members = {name: read.entry(entries[name].paths)}
            text = write_sbom(make_document(entries, name, members, read, name, created))
        except Interrupted:
            raise
        except Exception as error:  # noqa: BLE001 - a library that fails over one entry costs no other its SBOM
            if isinstance(error, EnvmgrError) and error.reference == "extra-missing":
                return
            ctx.reporter.log(f"no SBOM of {name}: {one_line(str(error))}")
            continue
        yield name, text


def make_document(
    entries: Mapping[str, PublishedEntry],
    title: str,
    members: Mapping[str, tuple[str, ...]],
    read: PartsOfEntries,
    name: str | None,
    created: str,
) -> Document:
    """Return the document of an entry, or of all of a generation that was `created` then. `title` is name/version."""
    short, version = title.split("/", 1)
    paths = [path for each in members for path in entries[each].paths]
    digests = {each: [entries[each].digest, *entries[each].paths] for each in members}
    refs = dict.fromkeys(ref for of in members.values() for ref in of)
    time = read.known[entries[name].path].time if name else created
    return Document(
        name=short,
        version=version,
        seed=sha256_bytes(canonical_json({"of": f"{short}/{version}", "installs": digests})),
        time=_moment(time or created),
        components=tuple(read.components[ref] for ref in refs),
        members=members,
        carried=tuple(own for path in dict.fromkeys(paths) for own in read.left[path]),
    )


def _moment(text: str) -> datetime:
    """Raise EnvmgrError `generation-damaged`: both times are of files of ours."""
    try:
        return datetime.fromisoformat(text).astimezone(UTC)
    except ValueError:
        raise EnvmgrError("generation-damaged", f"`{text[:60]}` is no time", hint="`envmgr verify`") from None


class PartsOfEntries:
    """The components of entries; each install is read once. `left` maps installs to SBOMs of packages that no lock names."""

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx
        self.known: dict[str, Known] = {}
        self.components: dict[str, Component] = {}
        self.left: dict[str, list[CarriedSbom]] = {}

    def entry(self, paths: Sequence[str]) -> tuple[str, ...]:
        """Return the identifiers of the parts of an entry with these installs, its own first. Raises EnvmgrError."""
        new = [path for path in paths if path not in self.known]
        for path in new:
            self._ctx.runner.raise_if_cancelled()
            self.known[path] = read_parts(self._ctx.prefix.install_at(path))
        for path in new:
            self._add(path, self._names(dict.fromkeys((path, *paths))))
        refs = (_ref(path, part) for path in paths for part in self.known[path].parts)
        return tuple(dict.fromkeys(refs))

    def _names(self, paths: Iterable[str]) -> Mapping[tuple[str, str], str]:
        """Return (ecosystem, key) -> the identifier of the first part that has them; a wheel also needs what conda has,
        which is then found without an ecosystem.
        """
        found: dict[tuple[str, str], str] = {}
        for path in paths:
            for part in self.known[path].parts:
                found.setdefault((part.ecosystem, part.key), _ref(path, part))
                found.setdefault(("", same_name(PYPI, part.name)), _ref(path, part))
        return found

    def _add(self, path: str, names: Mapping[tuple[str, str], str]) -> None:
        install = self._ctx.prefix.install_at(path)
        try:
            infos: dict[str, DistInfo] = {each.name: each for each in dist_infos(install.path)}
        except OSError as error:
            raise InputError("file-unreadable", f"cannot read {install.path}", context=str(error)) from None
        for part in self.known[path].parts:
            info = infos.pop(same_name(PYPI, part.name), None)
            asked = part.needs or (info.needs if info and part.ecosystem == PYPI else ())
            needs = (names.get((part.ecosystem, each)) or names.get(("", each)) for each in asked)
            ref = _ref(path, part)
            self.components[ref] = Component(
                ref,
                part,
                tuple(dict.fromkeys(each for each in needs if each and each != ref)),
                part.licence or (info.licence if info else ""),
                tuple(_carried(info)) if info else (),
            )
        self.left[path] = [each for info in infos.values() for each in _carried(info)]


def _carried(info: DistInfo) -> Iterator[CarriedSbom]:
    for path, content in info.sboms.items():
        yield CarriedSbom(path, sha256_bytes(content), tuple(_parts_inside(content)))


def _parts_inside(content: bytes) -> Iterator[CarriedPart]:
    """Yield the components of a CycloneDX file in JSON; nothing of another file."""
    try:
        data: Any = json.loads(content)
        rows = data["components"] if data["bomFormat"] == "CycloneDX" else []
        parts = [CarriedPart(*(_text(row.get(key)) for key in ("name", "version", "purl"))) for row in rows]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return
    yield from (part for part in parts if part.name)


def _text(value: object) -> str:
    """Return a text that every format can hold: JSON may name half a character."""
    return str(value or "").encode("utf-8", "replace").decode()


def _ref(path: str, part: Part) -> str:
    return f"{path}#{part.ecosystem}:{part.key}"
