"""What an audit expects of every node: the published generation, as this host reads it."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace

from envmgr.apart import run_apart
from envmgr.audit.checks import get_check
from envmgr.audit.model import Facts, Plan, Published
from envmgr.audit.shell import GATE_SECONDS, join_probes, read_answer
from envmgr.errors import InputError
from envmgr.generation import RECORD, complete_numbers, published_spec, read_current, read_specs
from envmgr.names import nearest
from envmgr.run import Runner
from envmgr.store import Prefix

SAMPLE = 8  # entries that are looked at closely when none are named; each costs a node about 0.1 s


def look_here(plan: Plan, runner: Runner) -> Facts:
    """How this host has the prefix, by the same probe as on nodes. `gate` is `ok` where it answers; it never hangs."""
    script = join_probes([get_check("mount")], replace(plan, contexts=()), stages=("node",))
    done = run_apart(["/bin/sh", "-s"], stdin=script, seconds=GATE_SECONDS + 10, check=runner.raise_if_cancelled)
    facts, _, _ = read_answer(done.output)
    return {"gate": "hung", **facts}


def read_published(prefix: Prefix) -> Published | None:
    """The current generation; None before the first publish. Only for a prefix that was seen to answer."""
    record = read_current(prefix)
    if record is None:
        return None
    raw = read_specs(prefix, record.number)
    text = (prefix.generation(record.number) / RECORD).read_bytes()
    return Published(
        record=record,
        record_sha256=hashlib.sha256(text).hexdigest(),
        specs={name: published_spec(item).spec for name, item in raw.items()},
        kept=tuple(complete_numbers(prefix)),
        since=prefix.current.lstat().st_mtime,
    )


def choose_samples(names: Sequence[str], published: Published) -> tuple[str, ...]:
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
                "not-published", f"{name} is not published", context=f"generation {published.record.number}",
                hint=f"did you mean {', '.join(close)}?" if close else "`envmgr list` shows what is",
            )  # fmt: skip
    if names or len(entries) <= SAMPLE:
        return tuple(names or entries)
    first = [name for name in entries if published.specs[name].default][:SAMPLE]
    rest = [name for name in entries if name not in first]
    step = max(1, len(rest) // max(1, SAMPLE - len(first)))
    return tuple(sorted([*first, *rest[::step]][:SAMPLE]))
