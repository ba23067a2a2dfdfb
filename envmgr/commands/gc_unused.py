"""`envmgr gc --unused-for`: entries that nobody loaded for so long leave, by a new generation, before what is no longer needed is
removed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from envmgr.commands import Context, published_record
from envmgr.commands.gc import GcResult, Kept, collect_garbage
from envmgr.commands.generations import remove_entries
from envmgr.commands.usage import days_of
from envmgr.commands.usage_read import Reading, read_logs, save_reading
from envmgr.errors import EnvmgrError
from envmgr.publish.records import read_specs
from envmgr.store.usage import loads_since
from envmgr.store.user_holds import read_holds


def collect_unused(
    ctx: Context,
    unused_for: str,
    *,
    dry_run: bool = False,
    now: bool = False,
    settle: Callable[[], None] = lambda: None,
) -> GcResult:
    """Publish a generation without the entries that nobody loaded for `unused_for` (such as 180d), then collect garbage.

    The installs of these entries go later, when no generation that policy keeps names them. `now` and `settle` are as for
    `collect_garbage`.

    Raises:
        InputError: `usage-days`, and as `collect_garbage`.
        EnvmgrError: `usage-unknown`, and as `collect_garbage`.
    """
    days, time = days_of(unused_for), datetime.now(UTC).replace(microsecond=0)
    reading = read_logs(ctx, time)
    try:
        gone, stay = unused_entries(ctx, reading, days, time)
    except EnvmgrError:
        if not dry_run:
            save_reading(ctx, reading, settle)
        raise

    settled = False

    def settle_once() -> None:
        nonlocal settled
        if not settled:
            settled = True
            save_reading(ctx, reading, settle)
            if gone:
                remove_entries(ctx, gone)

    done = collect_garbage(ctx, dry_run=dry_run, now=now, settle=settle_once)
    kept = (*(Kept(name, f"nobody loaded it for {days} days; {reason}") for name, reason in stay.items()), *done.kept)
    return replace(done, entries=tuple(gone), kept=kept)


def unused_entries(ctx: Context, reading: Reading, days: int, now: datetime) -> tuple[list[str], dict[str, str]]:
    """Return the entries that nobody loaded for `days` days, and those of them that stay all the same, with the reason.

    Raises EnvmgrError `usage-unknown` if that is not known of every node.
    """
    first, known = now - timedelta(days=days), reading.known
    unknown = [reading.off] if reading.off else []
    unknown += [f"{each.nodes}: {each.reason}" for each in reading.unread]
    if known is None or known > first:
        unknown.append(f"all nodes are known since {known.isoformat()}" if known else "some nodes were never read")
    if unknown:
        raise EnvmgrError(
            "usage-unknown",
            f"what was loaded in the last {days} days is not known, and nothing is removed",
            context=unknown[:5],
            hint="with `usage: true` in site.yaml, loads count from the next `envmgr publish` on"
            if reading.off
            else "`envmgr usage` reads the logs, and says since when they are known",
        )
    current = published_record(ctx)
    specs = {name: each["spec"] for name, each in read_specs(ctx.prefix, current.number).items()}
    held = dict(read_holds(ctx.site))

    def why(name: str) -> Iterator[str]:
        if (since := reading.usage.entries[name].since) > first.date():
            yield f"it was first seen on {since.isoformat()}"
        if specs[name].get("default"):
            yield "it is the default of its name"
        if specs[name].get("kernel"):
            yield "Jupyter starts it without a load"
        yield from (held[path] for path in current.entries[name].paths if path in held)

    idle = [n for n in current.entries if not loads_since(reading.usage.entries[n], first.date()).count]
    stay = {name: reason for name in idle for reason in list(why(name))[:1]}
    while needed := {
        need: f"{name} depends on it"
        for name in current.entries
        if name in stay or name not in idle
        for need in idle
        if need not in stay and need in specs[name].get("depends", ())
    }:
        stay |= needed
    return [name for name in idle if name not in stay], stay
