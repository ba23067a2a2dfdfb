"""What a build that failed, or was killed, must not leave behind."""

from __future__ import annotations

from tests.helpers.easybuild.workshop import Workshop
from tests.helpers.scenes import no_processes


def nothing_left(box: Workshop) -> list[str]:
    """What is there and should not: in the store, among the modules, in the job table, where it compiles. Nothing is alive."""
    no_processes(box)
    finished = set(box.items())
    trees = {f"{p.parent.name}/{p.name}" for p in box.prefix.glob("store/*/*") if p.is_dir()}
    modules = {f"{p.parent.name}/{p.stem}" for p in box.prefix.glob("easybuild/modules/*/*.lua")}
    found = sorted((trees ^ finished) | (modules ^ finished))
    found += [str(p) for p in box.prefix.glob("var/jobs/*.json")]
    found += [str(p) for p in box.prefix.glob("var/jobs/easybuild-locks/*")]
    found += [str(p) for p in (box.root / "build").rglob("*")]
    return [*found, *box.leftovers()]
