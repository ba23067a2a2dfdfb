"""What an audit expects of every node: the published generation, as this host reads it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from envmgr.audit.model import PublishedGeneration
from envmgr.catalog.names import nearest
from envmgr.errors import EnvmgrError, InputError
from envmgr.publish.record import RECORD, complete_numbers, published_spec, read_current, read_specs
from envmgr.store.prefix import Prefix
from envmgr.system.reading import GENERATION, digest_of
from envmgr.system.run import Runner, run_detached
from envmgr.system.scratch import scratch_folder
from envmgr.system.shelltext import script_text
from envmgr.wording import did_you_mean

SAMPLE = 8  # entries that are looked at closely when none are named; each costs a node about 0.1 s

_SECONDS = 20.0  # for reading some kilobytes of a prefix that has just answered


def read_published(prefix: Prefix, runner: Runner, seconds: float) -> PublishedGeneration | None:
    """The current generation; None where it cannot be read within `seconds`.

    Raises EnvmgrError `current-damaged`, `generation-damaged`.
    """
    with scratch_folder("published") as scratch:
        folder = str(scratch)
        copy = ["/bin/sh", "-c", script_text(__file__, "copy.sh"), "sh", str(prefix.root), folder]
        if run_detached(copy, seconds=min(_SECONDS, seconds), check=runner.raise_if_cancelled).returncode != 0:
            return None
        here = Prefix(Path(folder))
        try:
            record = read_current(here)
            raw = read_specs(here, record.number) if record else {}
        except EnvmgrError as error:
            error.message = error.message.replace(folder, str(prefix.root))
            error.context = tuple(line.replace(folder, str(prefix.root)) for line in error.context)
            raise
        if record is None:
            return None
        return PublishedGeneration(
            record=record,
            record_sha256=digest_of(here.generation(record.number) / RECORD, GENERATION),
            specs={name: published_spec(item).spec for name, item in raw.items()},
            kept=tuple(complete_numbers(here)),
            since=float((Path(folder) / "since").read_text()),
        )


def choose_samples(names: Sequence[str], published: PublishedGeneration) -> tuple[str, ...]:
    """The entries to look at closely: those named, `all`, or some: defaults first, then spread over the rest.

    Raises InputError `not-published`.
    """
    entries = sorted(published.record.entries)
    if list(names) == ["all"]:
        return tuple(entries)
    for name in names:
        if name not in published.record.entries:
            close = nearest(name, entries)
            raise InputError(
                "not-published",
                f"{name} is not published",
                context=f"generation {published.record.number}",
                hint=did_you_mean(close, "`envmgr list` shows what is"),
            )
    if names or len(entries) <= SAMPLE:
        return tuple(names or entries)
    first = [name for name in entries if published.specs[name].default][:SAMPLE]
    rest = [name for name in entries if name not in first]
    step = max(1, len(rest) // max(1, SAMPLE - len(first)))
    return tuple(sorted([*first, *rest[::step]][:SAMPLE]))
