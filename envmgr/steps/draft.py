"""Write a drafted entry into a catalog: whole, or not at all."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from envmgr.catalog.entries import SOFTWARE_NAME
from envmgr.catalog.names import Entry
from envmgr.errors import InputError
from envmgr.exchange.recipes import Draft
from envmgr.steps import Context
from envmgr.system.files import atomic_write, explain_os_error
from envmgr.system.scratch import copy_folder
from envmgr.system.yamlfile import dump_yaml


def require_free(ctx: Context, root: Path, entry: Entry, way: str) -> None:
    """Raise InputError `entry-exists`, with the `way` out, if the entry is in a catalog, or its place is taken."""
    place, other = root / entry.name / entry.version, ctx.catalog.look(entry)
    if os.path.lexists(place) or other is not None:
        hint = f"{way}, or remove it first"
        raise InputError("entry-exists", f"{place if other is None else other.folder} exists", hint=hint)


def write_draft(
    ctx: Context, root: Path, draft: Draft, made: str, description: str, way: str, *, dry_run: bool
) -> tuple[Path, tuple[str, ...]]:
    """Write an entry into the catalog `root`, and `software.yaml` where there is none; return its folder, and the names
    of its files. `made` is as for `Draft.files`, `way` as for `require_free`. A failure leaves nothing.
    """
    target, texts = root / draft.entry.name / draft.entry.version, draft.files(made)
    if not dry_run:
        with explain_os_error(target):
            target.parent.mkdir(parents=True, exist_ok=True)
            try:
                # A folder beside the target, so that one rename makes the whole entry appear.
                with copy_folder(target.parent) as staging:
                    (staging / target.name).mkdir()
                    for name, text in texts.items():
                        atomic_write(staging / target.name / name, text)
                    require_free(ctx, root, draft.entry, way)  # another run may have made it meanwhile
                    if not (software := target.parent / SOFTWARE_NAME).exists():
                        atomic_write(software, dump_yaml({"description": description}, width=120))
                    (staging / target.name).rename(target)
            finally:
                with suppress(OSError):  # it has the entry
                    target.parent.rmdir()
    return target, (*texts,)
