"""A wheels recipe and its lock with the wheels of a user added: its very files, and nothing is resolved."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from envmgr.backends.wheels.input import WheelsInput, WheelsQuestion, read_question
from envmgr.backends.wheels.lock import WheelsLock, wheels_lock_texts
from envmgr.catalog.names import catalog_of
from envmgr.system.untrusted_files import BESIDE, read_bytes
from envmgr.wheels.difference import Difference, unasked


def extended(
    lock: WheelsLock, wanted: WheelsQuestion, said: Mapping[str, Any], more: Difference, folder: Path
) -> tuple[dict[str, Any], Mapping[str, str | bytes]]:
    """Return the new `input`, and the texts of its lock with the patches; `said` is the input of the recipe in
    `folder`.
    """
    kept = [patch for patch in wanted.patches if patch.package not in more.replaced]
    given = {
        **said,
        "requirements": more.rows(wanted.requirements),
        "constraints": more.without_replaced(wanted.constraints),
        "indexes": more.indexes(wanted.indexes),
        "build": [name for name in wanted.build if name not in more.replaced],
        "build_requires": {name: rows for name, rows in wanted.build_requires.items() if name not in more.replaced},
        "patches": [patch.model_dump() for patch in kept],
        "exclude_newer": None,
    }
    given = {key: value for key, value in given.items() if value}
    made = lock.model_copy(
        update={
            "wheels": more.joined(lock.wheels),
            "sdists": tuple(sdist for sdist in lock.sdists if sdist.name not in more.replaced),
            "exclude_newer": None,
        }
    )
    question = read_question(WheelsInput.model_validate(given), folder)
    given["requirements"] += unasked(question, made.parts, made.python)
    digest = read_question(WheelsInput.model_validate(given), folder).digest()
    patches = {patch.file: read_bytes(folder / patch.file, BESIDE, tree=catalog_of(folder)) for patch in kept}
    return given, {**patches, **wheels_lock_texts(made.model_copy(update={"recipe_digest": digest}))}


def on_python(python: str, more: Difference, folder: Path) -> tuple[dict[str, Any], Mapping[str, str | bytes]]:
    """Return as `extended`, for an entry of only the user's wheels on the Python of the entry `python`."""
    files = more.wheels
    empty = WheelsLock(recipe_digest="", python=files.python, platform=files.platform, uv=files.uv, wheels=())
    said = {
        "python": python,
        "requirements": more.requirements,
        "indexes": more.indexes(()),
        "platform": files.platform,
    }
    return extended(empty, read_question(WheelsInput.model_validate(said), folder), said, more, folder)
