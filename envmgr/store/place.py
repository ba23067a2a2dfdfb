"""The path that a prefix was made for. Its installs and modules contain it: at another path their programs are not
found, or are other ones.

Paths are compared as site.yaml and the installs write them, without following links: a link or a mount at the old path
is the old path.
"""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from envmgr.errors import EnvmgrError, InputError
from envmgr.store.prefix import Prefix
from envmgr.system.files import atomic_write
from envmgr.system.models import require_format
from envmgr.system.shelltext import words
from envmgr.system.untrusted_files import MANIFEST, PLACE, open_untrusted, read_json

FORMAT = 1
"""The number of the format of `prefix.json`; another one is refused."""

_HEAD = 64 << 10  # bytes: a manifest has the module's values before its list of paths
_ROOT = re.compile(rb'"(/[^"\s:]+)/store/[^"/]+/[^"/]+-[0-9a-f]{8}[/"]')


def made_for(prefix: Prefix) -> Path | None:
    """Return the path that was written down when the prefix was made, or that its modules and manifests have; None if
    nothing says.

    Raise EnvmgrError `prefix-unreadable`, `format-unknown`.
    """
    try:
        return _written(prefix) or next(_said(prefix), None)
    except OSError as error:
        raise EnvmgrError("prefix-unreadable", f"cannot read {error.filename}", context=str(error.strerror)) from None


def require_place(prefix: Prefix) -> None:
    """Raise EnvmgrError `prefix-moved` if the prefix was made for another path than it has; `format-unknown`."""
    made = made_for(prefix)
    if made is not None and made != prefix.root:
        raise EnvmgrError(
            "prefix-moved",
            f"the prefix {prefix.root} was made for {made}: what it holds works only there",
            context=f"{f'{prefix.place} says' if prefix.place.exists() else 'its modules say'} so; installs, modules and "
            "scripts have that path in them",
            hint=f"mount, link or move it to {made}, on every node, and set `prefix: {made}` in site.yaml; "
            "or name a new, empty folder there, and build into it: `envmgr build --all`",
        )


def require_kinds(prefix: Prefix) -> None:
    """Raise EnvmgrError `path-unusable` if something else lies in the place of a folder or file that envmgr makes
    itself.
    """
    below_var = (prefix.logs, prefix.locks, prefix.jobs, prefix.holds, prefix.slurm_jobs)
    below_root = (prefix.store, prefix.generations, prefix.flips, prefix.cache, prefix.source_cache)
    folders = (*below_root, prefix.root / "var", *below_var)
    wanted = {**dict.fromkeys(folders, "folder"), prefix.history: "file", prefix.place: "file"}
    for path, kind in wanted.items():
        with suppress(OSError):  # missing, or a dead link: reported where it is needed
            is_folder = stat.S_ISDIR(path.stat().st_mode)
            if is_folder != (kind == "folder"):
                raise EnvmgrError(
                    "path-unusable",
                    f"{path} is {'a folder' if is_folder else 'no folder'}, where a {kind} must be",
                    hint=f"`mv -T {words(str(path), f'{path}.away')}`; then `envmgr verify` tells what is lost, "
                    "and what makes it again",
                )


def write_place(prefix: Prefix) -> None:
    """Write the path down, unless it is. Raise EnvmgrError `format-unknown`."""
    with suppress(OSError):
        if _written(prefix) is not None:
            return
    atomic_write(prefix.place, json.dumps({"schema": FORMAT, "path": str(prefix.root)}) + "\n", mode=0o444)


def _written(prefix: Prefix) -> Path | None:
    """Return the path that was written down; None if the file is lost or damaged. Raise OSError, `format-unknown`."""
    with suppress(FileNotFoundError, NotADirectoryError, InputError, ValueError, TypeError, KeyError):
        return Path(require_format(read_json(prefix.place, PLACE), FORMAT, prefix.place)["path"])
    return None


def _said(prefix: Prefix) -> Iterator[Path]:
    """Yield files that show the path if it was not written down, or the record was lost: the newest modules first."""
    specs = sorted(prefix.generations.glob("*/modules.json"), reverse=True)
    for path in (*specs, *sorted(prefix.store.glob("*/*.manifest.json"))):
        with suppress(InputError, FileNotFoundError), open_untrusted(path, MANIFEST, tree=None) as descriptor:
            text = os.read(descriptor, _HEAD)
            if re.search(b'"' + re.escape(os.fsencode(prefix.root)) + rb'("|/store/|/generations/)', text):
                yield prefix.root
            elif found := _ROOT.search(text):
                yield Path(os.fsdecode(found[1]))
