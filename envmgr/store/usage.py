"""Loads of entries, as `<prefix>/var/usage/usage.json` keeps them: what was counted in the nodes' logs, and since when each log
is known without a gap.

A reading counts what lies between two marks in a log: see `commands/usage.logs.sh`. No name of a user is kept, and a uid
only where the site says so.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from pathlib import Path

from pydantic import Field

from envmgr.errors import EnvmgrError, InputError
from envmgr.store.prefix import Prefix
from envmgr.system.files import atomic_write, pretty_json
from envmgr.system.models import FrozenModel, require_format
from envmgr.system.untrusted_files import FACTS, read_json, why_unreadable

FORMAT = 1
"""The number of the format of the file; another one is refused."""

DAYS = 400  # that are kept one by one; older ones are kept as months


class DayLoads(FrozenModel):
    """The loads of an entry on one day (or in one month): by users, `by` entries that depend on it, in jobs; and the
    users' uids.
    """

    own: int = 0
    by: dict[str, int] = {}
    jobs: int = 0
    uids: tuple[int, ...] = ()

    @property
    def count(self) -> int:
        return self.own + sum(self.by.values())


class EntryLoads(FrozenModel):
    """`since` is the day of the first reading that saw the entry published; `days` are `2026-11-28`, or months."""

    since: date
    days: dict[str, DayLoads] = {}


class NodeLog(FrozenModel):
    """The log of one node, whose own name is `name`: all loads from `since` to `read` are counted, except before the
    first reading. `mark` is where the last one stopped.
    """

    name: str
    mark: str
    since: datetime
    read: datetime


class Usage(FrozenModel):
    """The content of the file: the logs of nodes, and the entries that are or were published."""

    schema_version: int = Field(default=FORMAT, alias="schema")
    nodes: dict[str, NodeLog] = {}
    entries: dict[str, EntryLoads] = {}


@dataclass(slots=True)
class LogAnswer:
    """The answer of a host that read logs: its own name, the reason why it sent no mark or can read no log; by a node's own
    name, whether the earlier mark and the new one were there, and its loads (day, entry, loads).
    """

    name: str = ""
    fault: str = ""
    hosts: dict[str, tuple[bool, bool]] = field(default_factory=dict)
    loads: dict[str, list[tuple[str, str, DayLoads]]] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)


_ROWS = {
    "name": r"([A-Za-z0-9_.+-]{1,64})",
    "host": r"([A-Za-z0-9_.+-]{1,64}) (mark|start) (mark|end)",
    "load": r"([0-9]{1,12}) (\S+) ([0-9]{4}-[0-9]{2}-[0-9]{2}) (\S+) (\S+) (job|-) ([0-9]{1,10}|-)",
    "damaged": "([0-9]{1,12})",
    "others": "([0-9]{1,12})",
    "lost": "([0-9]{1,12})",
}


def read_logs_answer(text: str) -> LogAnswer:
    """Read what `commands/usage.logs.sh` prints. A line that makes no sense is damaged, and counted."""
    found = LogAnswer(counts=dict.fromkeys(("damaged", "others", "lost"), 0))
    for line in text.splitlines():
        kind, _, rest = line.partition(" ")
        match = re.fullmatch(_ROWS.get(kind, r"(?!)"), rest)
        if kind == "unmarked":
            found.fault = f"its syslog takes no message: {rest}"
        elif kind in ("closed", "nolog"):
            found.fault = f"it cannot read {rest}" if rest else "it has no such log"
        elif match is None:
            found.counts["damaged"] += kind != "mark"
        elif kind == "name":
            found.name = rest
        elif kind == "host":
            found.hosts[match[1]] = match[2] == "mark", match[3] == "mark"
        elif kind == "load":
            count, by = int(match[1]), "" if match[5] == "-" else match[5]
            loads = DayLoads(
                own=0 if by else count,
                by={by: count} if by else {},
                jobs=count if match[6] == "job" else 0,
                uids=() if match[7] == "-" else (int(match[7]),),
            )
            found.loads.setdefault(match[2], []).append((match[3], match[4], loads))
        else:
            found.counts[kind] += int(match[1])
    return found


def usage_file(prefix: Prefix) -> Path:
    return prefix.root / "var" / "usage" / "usage.json"


def read_usage(prefix: Prefix) -> Usage:
    """Return what is kept; nothing before the first reading. Raise EnvmgrError `usage-damaged`, `format-unknown`."""
    path = usage_file(prefix)
    try:
        return Usage.model_validate(require_format(read_json(path, FACTS), FORMAT, path))
    except FileNotFoundError:
        return Usage()
    except (OSError, InputError, ValueError) as error:
        raise EnvmgrError(
            "usage-damaged",
            f"{path} cannot be read",
            context=why_unreadable(error).splitlines()[:3],
            hint=f"bring it back from a backup; or `rm {path}`: counting begins again with the next `envmgr usage`",
        ) from None


def save_usage(prefix: Prefix, usage: Usage, *, private: bool) -> None:
    """Write it in one step, for its owner only if `private`. Raises as `atomic_write`."""
    text = pretty_json(usage.model_dump(mode="json", by_alias=True))
    atomic_write(usage_file(prefix), text, mode=0o600 if private else 0o644)


def merged(
    before: Usage,
    answers: Mapping[str, LogAnswer],
    published: Collection[str],
    *,
    mark: str,
    now: datetime,
    gapless: bool,
) -> tuple[Usage, dict[str, str]]:
    """Return what is known after a reading, and the nodes of which nothing was counted, each with the reason.

    `answers` are by node; `mark` is this reading's. Where the earlier mark is not in a log, or not `gapless`, loads may
    be lost, and the log is known from now on.
    """
    nodes, faults = dict(before.nodes), dict[str, str]()
    entries = {
        name: before.entries.get(name, EntryLoads(since=now.date())) for name in sorted({*published, *before.entries})
    }
    for node, answer in answers.items():
        begun, ended = answer.hosts.get(answer.name, (False, False))
        if answer.fault or not ended:
            faults[node] = answer.fault or "its mark did not arrive in the log"
            continue
        old = nodes.get(node)
        whole = old is not None and begun and gapless and not answer.counts["lost"]
        nodes[node] = NodeLog(name=answer.name, mark=mark, since=old.since if old and whole else now, read=now)
        for day, entry, loads in answer.loads.get(answer.name, ()):
            # Without the earlier mark, what is older than that reading was counted by it.
            if entry in entries and (old is None or begun or day > old.read.date().isoformat()):
                entries[entry] = _added(entries[entry], day, loads)
    oldest = (now.date() - timedelta(days=DAYS)).isoformat()
    return Usage(nodes=nodes, entries={name: _by_months(each, oldest) for name, each in entries.items()}), faults


def _added(entry: EntryLoads, day: str, loads: DayLoads) -> EntryLoads:
    return entry.model_copy(update={"days": {**entry.days, day: _sum([entry.days.get(day, DayLoads()), loads])}})


def _sum(loads: Sequence[DayLoads]) -> DayLoads:
    return DayLoads(
        own=sum(each.own for each in loads),
        by=dict(sum((Counter(each.by) for each in loads), Counter())),
        jobs=sum(each.jobs for each in loads),
        uids=tuple(sorted({uid for each in loads for uid in each.uids})),
    )


def _by_months(entry: EntryLoads, oldest: str) -> EntryLoads:
    kept = EntryLoads(since=entry.since)
    for day, loads in entry.days.items():
        kept = _added(kept, day[:7] if day < oldest else day, loads)
    return kept


def loads_since(entry: EntryLoads, day: date) -> DayLoads:
    """Return the sum of an entry's loads from a day on. A month that began before it does not count."""
    return _sum([loads for each, loads in entry.days.items() if each >= day.isoformat()])


def known_since(usage: Usage, nodes: Iterable[str]) -> datetime | None:
    """Return since when the logs of all nodes are known; None if one was never read."""
    found = [usage.nodes[node].since if node in usage.nodes else None for node in nodes]
    return None if not found or None in found else max(each for each in found if each)


def recorded_loads(usage: Usage, entry: str, since: date) -> int | None:
    """Return how often an entry was loaded from a day on, by users and as a dependency; None if that is not recorded."""
    if not usage.nodes or entry not in usage.entries:
        return None
    return loads_since(usage.entries[entry], since).count
