"""The entries that failed in a verb that may go on without them (`build --keep-going`), and the entries that depend on
them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from envmgr.errors import EnvmgrError, Interrupted, Written, failed_ones


class Losses:
    """The entries that were lost.

    `failed` is entry -> its error, oldest first; `left` are entries that were not tried, because one below them failed.
    If it is not `allowed` to go on, the first error is raised at once.
    """

    def __init__(self, *, allowed: bool) -> None:
        self.allowed = allowed
        self.failed: dict[str, EnvmgrError] = {}
        self.left: list[str] = []

    @contextmanager
    def of(self, entry: object) -> Iterator[None]:
        """Take an error that is raised within as this entry's failure."""
        try:
            yield
        except Interrupted:
            raise
        except EnvmgrError as error:
            if not self.allowed:
                raise
            self.failed.setdefault(str(entry), error)

    def stand_on_lost(self, entry: object, depends: Iterable[str]) -> bool:
        """Return whether one of the entries in `depends` is lost; then this entry is lost too."""
        lost = bool({*self.failed, *self.left} & set(depends))
        if lost and str(entry) not in (*self.failed, *self.left):
            self.left.append(str(entry))
        return lost

    def raise_first(self, written: Written) -> None:
        """Raise the first error, if there is one, with what else happened."""
        if not self.failed:
            return
        (entry, error), *others = self.failed.items()
        extra = [] if entry in error.message else [f"{entry} failed"]
        for name, other in others:
            if other is error:
                extra.append(f"{name} failed by that, too")
                continue
            message = other.message if name in other.message else f"{name}: {other.message}"
            extra += ["", f"error[{other.reference}]: {message}", *(f"  {line}" for line in other.context)]
        if self.left:
            extra.append(f"not tried, because it stands on that: {', '.join(self.left)}")
        if written.generation is not None:
            extra.append(f"published anyway: {', '.join(written.published)} in generation {written.generation}")
        elif written.installs:
            extra.append(f"built and kept for the next run: {', '.join(written.installs)}")
        error.context = (*error.context, *extra)
        if written.generation is not None:
            error.hint = error.hint.removeprefix("nothing was published; ")
        error.failed, error.written = failed_ones(self.failed), written
        raise error
