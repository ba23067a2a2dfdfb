"""The manifest: the content of an install, and its provenance. It is written last; an install without one does not
exist.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from envmgr.errors import EnvmgrError, InputError
from envmgr.modules.spec import EnvOp, Outside
from envmgr.store.prefix import Install
from envmgr.store.tree import TreePath, scan_tree, tree_digest
from envmgr.system.files import atomic_write, sha256_bytes
from envmgr.system.models import FrozenModel, require_format
from envmgr.system.safe_paths import remove_below
from envmgr.system.sandbox import PLACE
from envmgr.system.untrusted_files import MANIFEST, read_bytes, why_unreadable

FORMAT = 1
"""The number of a manifest's format; another one is refused."""


class InstallFacts(FrozenModel):
    """The facts of an install that a module needs. `environment` is its PATH-like variables and captured activation.

    `needs` are the other installs that it does not work without, by their paths relative to the prefix. `gpu_codes` are
    the capabilities for which its binaries have code (`8.6`, `9.0+PTX`), as measured; None if nothing was found.
    `imports` are the distributions that were built from source, in the order in which a test imports their modules.
    `outside` is the tree that the install leads to, if the software is not ours. `kernel` is its program that starts a
    Python with ipykernel, relative to it, where that Python lies in an image.
    """

    environment: tuple[EnvOp, ...] = ()
    python: str | None = None
    needs: tuple[str, ...] = ()
    gpu_codes: tuple[str, ...] | None = None
    imports: tuple[str, ...] = ()
    outside: Outside | None = None
    kernel: str = ""

    def home(self, root: Path) -> Path:
        """Return the folder of the software itself; `root` is the install's."""
        return Path(self.outside.path) if self.outside else root


@dataclass(frozen=True, slots=True)
class Manifest:
    """The manifest of one install. `digest` names the install, `tree` is the tree digest, `mask` the umask applied to
    the recorded modes.

    `extra` are files that belong to it and lie elsewhere below the prefix: path relative to that -> sha256.
    """

    digest: str
    tree: str
    mask: int
    facts: InstallFacts
    provenance: Mapping[str, Any]
    paths: tuple[TreePath, ...]
    extra: Mapping[str, str] = field(default_factory=dict)

    @property
    def size(self) -> int:
        return sum(p.size for p in self.paths)

    @property
    def made_at(self) -> tuple[str, ...]:
        """The place where it was built, unless every host and user builds it alike: built elsewhere, its files may
        differ.
        """
        rows = self.provenance.get("made")
        made = rows if isinstance(rows, (list, tuple)) else ()
        found = {str(row["path"]) for row in made if isinstance(row, Mapping) and "path" in row}
        return tuple(sorted(found - {str(PLACE)}))


def make_manifest(
    root: Path,
    digest: str,
    facts: InstallFacts,
    provenance: Mapping[str, Any],
    *,
    mask: int,
    workers: int,
    extra: Mapping[str, str] | None = None,
    paths: tuple[TreePath, ...] | None = None,
) -> Manifest:
    """Hash every path under `root`, unless `paths` are those already. Modes are recorded before `mask`, so that two
    sites' trees have one digest.
    """
    paths = unmasked_tree(root, workers=workers) if paths is None else paths
    return Manifest(digest, tree_digest(paths), mask, facts, provenance, paths, extra or {})


def write_manifest(path: Path, manifest: Manifest) -> None:
    """Write one path per line: long, but easy to read and to diff. The digest comes first, for callers that need only
    the digest.
    """
    head = {
        "digest": manifest.digest,
        "schema": FORMAT,
        "tree": manifest.tree,
        "mask": f"{manifest.mask:03o}",
        "facts": manifest.facts.model_dump(mode="json"),
        "provenance": dict(manifest.provenance),
        **({"extra": dict(manifest.extra)} if manifest.extra else {}),
    }
    rows = ",\n".join(_line(p) for p in manifest.paths)
    atomic_write(path, json.dumps(head, ensure_ascii=False)[:-1] + ',\n"paths": [\n' + rows + "\n]}\n", mode=0o444)


def read_manifest(path: Path, *, named: str | None = None, hint: str = "") -> Manifest:
    """Return the manifest. Raise EnvmgrError `manifest-damaged`, or `format-unknown` for one that a later envmgr
    wrote; `manifest-differs` with this hint, if its sha256 is not the one that a generation `named`.
    """
    try:
        content = read_bytes(path, MANIFEST)
    except (OSError, InputError) as error:
        raise _damaged(path, error) from None
    if named not in (None, sha256_bytes(content)):
        raise EnvmgrError("manifest-differs", f"{path} is not what the generation's record says", hint=hint)
    return parse_manifest(path, content)


def read_facts(install: Install) -> InstallFacts:
    """Return the facts of an install. Raise as `read_manifest`."""
    return read_manifest(install.manifest).facts


def read_provenance(path: Path) -> Mapping[str, Any]:
    """Return the provenance of a manifest, without reading the rows of its files: those may be 100,000.

    Raises:
        EnvmgrError: `manifest-damaged`, `format-unknown`.
    """
    try:
        head = read_bytes(path, MANIFEST, until=b"\n")
        data = require_format(json.loads(head.rstrip(b",") + b"}"), FORMAT, path)
        return dict(data["provenance"])
    except (OSError, InputError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise _damaged(path, error) from None


def parse_manifest(path: Path, content: bytes) -> Manifest:
    """Parse `content`, read from `path`. Raises EnvmgrError `manifest-damaged`, `format-unknown`."""
    try:
        data = require_format(json.loads(content), FORMAT, path)
        return Manifest(
            digest=data["digest"],
            tree=data["tree"],
            mask=int(data["mask"], 8),
            facts=InstallFacts.model_validate(data["facts"]),
            provenance=dict(data["provenance"]),
            paths=tuple(_from_row(row) for row in data["paths"]),
            extra=_extra(data.get("extra", {})),
        )
    # A damaged manifest may have any JSON type in any place: each of these errors means the same.
    except (ValueError, KeyError, TypeError, IndexError, AttributeError, RecursionError) as error:
        raise _damaged(path, error) from None


def _damaged(path: Path, error: Exception) -> EnvmgrError:
    return EnvmgrError(
        "manifest-damaged",
        f"{path} cannot be read",
        context=why_unreadable(error),
        hint="remove it and its install, then build the entry again",
    )


def _extra(rows: Mapping[str, str]) -> dict[str, str]:
    """Return the extra files. Raise ValueError for a path that leaves the prefix: what is named here is removed with
    the install.
    """
    for path in rows:
        if path.startswith("/") or ".." in path.split("/"):
            raise ValueError(f"extra: {path} does not lie below the prefix")
    return dict(rows)


def remove_install(install: Install) -> None:
    """Remove the install with its extra files; a backend cleans those of a damaged manifest. Call it under the
    install's lock.
    """
    extra: Mapping[str, str] = {}
    with suppress(EnvmgrError):
        extra = read_manifest(install.manifest).extra
    top = install.prefix.root
    remove_below(top, install.manifest)  # first: from here on the install does not exist
    for path in (install.path, *(top / path for path in extra)):
        remove_below(top, path)


def unmasked_tree(root: Path, *, workers: int = 4) -> tuple[TreePath, ...]:
    """Return every path of a tree, as a manifest has it."""
    return tuple(_unmasked(p) for p in scan_tree(root, workers=workers))


def _unmasked(path: TreePath) -> TreePath:
    """Return the mode without the site's umask: 0555 or 0444, plus any bit that should not be set."""
    if path.kind == "link":
        return path
    read = 0o555 if path.mode & 0o100 else 0o444
    mode = read | (path.mode & 0o7222)
    return TreePath(path.path, path.kind, mode, path.size, path.sha256, path.target)


def _line(path: TreePath) -> str:
    """Return a line of readable UTF-8. Names that are not UTF-8 are JSON escapes, which are read back unchanged."""
    text = json.dumps(path.row(), ensure_ascii=False)
    return text if text.isprintable() else json.dumps(path.row())


def _from_row(row: list[Any]) -> TreePath:
    path, kind, mode, size, content = row
    link = kind == "link"
    return TreePath(path, kind, int(mode, 8), size, "" if link else content, content if link else "")


# Folder of an install -> the list it belongs on. Never LD_LIBRARY_PATH, PYTHONPATH, PYTHONHOME (invariant 7): packages
# find their own libraries by RPATH.
_PATH_FOLDERS = (
    ("bin", "PATH"),
    ("sbin", "PATH"),
    ("share/man", "MANPATH"),
    ("man", "MANPATH"),
    ("lib/pkgconfig", "PKG_CONFIG_PATH"),
    ("share/pkgconfig", "PKG_CONFIG_PATH"),
    ("share/aclocal", "ACLOCAL_PATH"),
)


def path_environment(root: Path) -> tuple[EnvOp, ...]:
    """Return the changes in load order, so that the first row of the table is the first of its list."""
    found = [
        EnvOp(kind="prepend", name=variable, value=str(root / folder))
        for folder, variable in reversed(_PATH_FOLDERS)
        if (root / folder).is_dir()
    ]
    if (root / "include").is_dir() or (root / "lib/cmake").is_dir():
        found.append(EnvOp(kind="prepend", name="CMAKE_PREFIX_PATH", value=str(root)))
    return tuple(found)
