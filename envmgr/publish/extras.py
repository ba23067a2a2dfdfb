"""Files that a generation has beside its modules, such as its page: made while it is staged, in a folder of their own
each, and named in its record like all others. A publish goes on without those that could not be made.
"""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from envmgr.errors import Interrupted
from envmgr.modules.spec import ModuleSpec
from envmgr.publish.records import PublishedEntry
from envmgr.report import Reporter
from envmgr.system.files import sha256_bytes
from envmgr.system.safe_paths import change, remove_below
from envmgr.wording import one_line


@dataclass(frozen=True, slots=True)
class GenerationContents:
    """A generation's contents, from which its extra files are made. `created` is its time, as in its record."""

    number: int
    parent: int | None
    created: str
    reason: str
    entries: Mapping[str, PublishedEntry]
    specs: Mapping[str, ModuleSpec]


Extra = Callable[[GenerationContents], Iterable[tuple[str, bytes]]]
"""Yields the files of one folder: the path below it, without `..`, and the content. It may raise anything."""


def write_extras(
    generation: Path, extras: Mapping[str, Extra], contents: GenerationContents, reporter: Reporter
) -> dict[str, str]:
    """Write the files of each folder below `generation`; return their paths relative to that -> sha256.

    A folder whose files cannot all be written is left out, with a warning: a page never stops a publish.
    """
    files: dict[str, str] = {}
    for name, make in extras.items():
        try:
            with reporter.stage(f"generation {contents.number} {name}"):
                files |= {f"{name}/{path}": digest for path, digest in _write(generation / name, make(contents))}
        except Interrupted:
            raise
        except Exception as error:  # noqa: BLE001 - whatever it is, modules are worth more than a page
            with suppress(OSError):
                remove_below(generation, generation / name)
            reporter.say(f"warning: generation {contents.number} has no {name}/: {one_line(error)}")
            reporter.log("".join(traceback.format_exception(error)))
    return files


def _write(folder: Path, made: Iterable[tuple[str, bytes]]) -> Iterable[tuple[str, str]]:
    _make_folder(folder)
    for path, content in made:
        for parent in reversed(Path(path).parents[:-1]):
            _make_folder(folder / parent)
        with (folder / path).open("xb") as file:
            file.write(content)
            os.fchmod(file.fileno(), 0o644)
        yield path, sha256_bytes(content)


def _make_folder(folder: Path) -> None:
    with suppress(FileExistsError):
        folder.mkdir()
        change(folder, mode=0o755)
