"""What entries depend on, of many at once: each is gone through once, however they hang together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from envmgr.wording import shortened

MOST_BELOW = 300  # entries that one may depend on, directly or not


def find_circles(depends: Mapping[str, Iterable[str]]) -> dict[str, tuple[str, str]]:
    """Entry -> (who depends on itself, by which way), of those that are in a circle or lead into one."""
    found: dict[str, tuple[str, str]] = {}
    done: set[str] = set()
    for entry in depends:
        way = {entry: iter(depends[entry])} if entry not in done else {}
        while way:
            last = next(reversed(way))
            following = next(
                (each for each in way[last] if each in depends and (each not in done or each in found)), None
            )
            if following is None:
                del way[last]
                done.add(last)
                continue
            if following in way:
                circle = [*way][[*way].index(following) :]
                told = (following, " -> ".join(shortened([*circle, following])))
            elif following in found:
                told = found[following]
            else:
                way[following] = iter(depends[following])
                continue
            found |= dict.fromkeys(way, told)
            done.update(way)
            way = {}
    return found


def too_many_below(depends: Mapping[str, Iterable[str]]) -> list[str]:
    """The entries that depend on more than `MOST_BELOW`."""
    return [entry for entry in depends if _has_many(entry, depends)]


def _has_many(entry: str, depends: Mapping[str, Iterable[str]]) -> bool:
    seen, waiting = {entry}, [entry]
    while waiting:
        for each in depends.get(waiting.pop(), ()):
            if each not in seen:
                seen.add(each)
                waiting.append(each)
                if len(seen) > MOST_BELOW + 1:
                    return True
    return False
