"""Parallel builds of installs: dependencies first, within a number of cores that running builds share."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass

from envmgr.backends import LoadedLock
from envmgr.builds import Ensured
from envmgr.catalog.recipe import Recipe
from envmgr.errors import Bug, EnvmgrError, Written, failed_ones
from envmgr.store.prefix import Item
from envmgr.system.run import Runner


@dataclass(frozen=True, slots=True)
class Work:
    """One install to make sure of; `recipe` and `lock` are of the entry that brought it in."""

    recipe: Recipe
    lock: LoadedLock
    item: Item

    @property
    def label(self) -> str:
        """`store/<name>/<version>-<digest8>`."""
        return self.item.install.relative


@dataclass(frozen=True, slots=True)
class Outcome:
    """The results, by label: what is there now, what failed, and what was not tried because something below it
    failed.
    """

    done: Mapping[str, Ensured]
    failed: Mapping[str, EnvmgrError]
    left: tuple[str, ...]


def make_all(work: Sequence[Work], runner: Runner, *, jobs: int, make: Callable[[Work, int], Ensured]) -> Outcome:
    """Call `make(work, cores)` for each, in an order in which what it needs comes first; one failure does not stop the
    others.

    `jobs` cores are shared: a build that starts gets its part of those that are free, at least one, and keeps it to its
    end. An exception of `make` that is no EnvmgrError is the Bug of that item, with its traceback.

    Raises:
        KeyboardInterrupt: the runner is cancelled then, and every `make` has ended.
    """
    waiting = {w.label: w for w in work}
    # A need that is not in `work` exists already, and nothing would ever report it as done.
    needs = {w.label: {i.relative for i in (*w.item.needs, *w.item.build_needs)} & waiting.keys() for w in work}
    done: dict[str, Ensured] = {}
    failed: dict[str, EnvmgrError] = {}
    running: dict[Future[Ensured], tuple[str, int]] = {}
    free = jobs
    with ThreadPoolExecutor(max(1, jobs)) as pool:
        try:
            while True:
                ready = [w for label, w in waiting.items() if needs[label] <= done.keys()]
                for number, each in enumerate(ready):
                    if free < 1:
                        break
                    cores = max(1, free // (len(ready) - number))
                    free -= cores
                    del waiting[each.label]
                    running[pool.submit(make, each, cores)] = each.label, cores
                if not running:
                    break
                finished, _ = wait(running, timeout=0.2, return_when=FIRST_COMPLETED)
                for future in finished:
                    label, cores = running.pop(future)
                    free += cores
                    try:
                        done[label] = future.result()
                    except EnvmgrError as error:
                        failed[label] = error
                    except Exception as error:  # noqa: BLE001 - only this item failed: others may have run for hours
                        failed[label] = _bug(label, error)
        except BaseException:
            runner.cancel.set()  # Ctrl-C: every worker ends, every thread cleans up after itself
            raise
    return Outcome(done, failed, tuple(waiting))


def _bug(label: str, error: Exception) -> Bug:
    said = " ".join(traceback.format_exception_only(error)).strip()
    bug = Bug(f"{label.removeprefix('store/')}: envmgr did not expect {said}", hint="report it with the lines above")
    bug.context = tuple("".join(traceback.format_exception(error)).splitlines())
    return bug


def raise_first(outcome: Outcome, entries: Mapping[str, str]) -> None:
    """Raise the first failure, if there is one, with what else happened; `entries` are the entries of labels that have
    one.
    """
    if not outcome.failed:
        return
    label, error = next(iter(outcome.failed.items()))

    def name(label: str) -> str:
        return entries.get(label, label.removeprefix("store/"))

    extra = [] if error.message.startswith(name(label)) else [f"{name(label)} was not built"]
    extra += [f"{name(other)} failed too: {e.message}" for other, e in outcome.failed.items() if other != label]
    if outcome.left:
        extra.append(f"not tried, because it stands on that: {', '.join(name(other) for other in outcome.left)}")
    if built := [name(other) for other, e in outcome.done.items() if e.built]:
        extra.append(f"built and kept for the next run: {', '.join(built)}")
    error.context = (*error.context, *extra)
    error.failed = failed_ones({name(label): each for label, each in outcome.failed.items()})
    error.written = Written(installs=tuple(label for label, e in outcome.done.items() if e.built))
    raise error
