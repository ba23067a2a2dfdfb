"""`python -m tests.soak [CAMPAIGN…] [--first N] [--rounds N] [--seed N]`: play campaigns, all by default; go on where they were left.

How far each came is in tests/.cache/soak.json, by commit, seed and rounds; another commit begins anew. A campaign that has come
to its end, or has shown a fault, gets a line in docs/campaigns.md, where the files of the commit were unchanged in each round.
"""

from __future__ import annotations

import argparse
import datetime
import importlib
import json
import pkgutil
import subprocess
import sys
import time
import traceback
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from envmgr.system.files import atomic_write, pretty_json
from tests.helpers.places import CACHE, ROOT
from tests.soak import campaigns

STATE = CACHE / "soak.json"
TABLE = ROOT / "docs/campaigns.md"


def main() -> int:
    known = known_campaigns()
    parser = make_parser(known)
    options = parser.parse_args()
    names = options.campaigns or list(known)
    if unknown := set(names) - known.keys():
        parser.error(f"no such campaign: {', '.join(sorted(unknown))}")
    commit = _git("rev-parse", "--short=12", "HEAD")
    failed = [name for name in names if not _play(name, known[name], options, commit)]
    if failed:
        print(f"soak: failed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


def known_campaigns() -> dict[str, Any]:
    return {module.name: importlib.import_module(f"{campaigns.__name__}.{module.name}") for module in _modules()}


def make_parser(known: Mapping[str, Any]) -> argparse.ArgumentParser:
    about = "\n".join(f"  {name}: {module.__doc__.splitlines()[0]}" for name, module in known.items() if module.__doc__)
    parser = argparse.ArgumentParser(
        prog="python -m tests.soak",
        description=f"{__doc__}\n{about}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("campaigns", nargs="*", metavar="CAMPAIGN", help=f"of {', '.join(known)}; all by default")
    parser.add_argument(
        "--first", type=int, default=1, help="the round with which it begins: other machines can play a part"
    )
    parser.add_argument("--rounds", type=int, help="the last round, instead of as many as the campaign has")
    parser.add_argument("--seed", type=int, default=1)
    return parser


def _modules() -> list[pkgutil.ModuleInfo]:
    return sorted(pkgutil.iter_modules(campaigns.__path__), key=lambda module: module.name)


def _play(name: str, campaign: Any, options: argparse.Namespace, commit: str) -> bool:
    """Whether the campaign came to its end without a fault."""
    first, rounds, seed = options.first, options.rounds, options.seed
    last = rounds or campaign.ROUNDS
    key = f"{commit} {name} seed {seed} rounds {f'{first} to ' * (first > 1)}{last}"
    state = _state()
    done, seconds, clean = state.get(key, (first - 1, 0.0, True))
    if done >= last:
        print(f"{name}: {done} of {last} rounds were played before, on this commit with seed {seed}")
        return True
    began = time.monotonic() - seconds
    fault, clean = "", clean and _is_clean(commit)
    try:
        with closing(campaign.play(seed, done + 1, last)) as rest:
            for words in rest:
                done, clean = done + 1, clean and _is_clean(commit)
                _keep(key, done, time.monotonic() - began, clean)
                print(f"{name}: {done} of {last}: {words}", flush=True)
    except Exception:  # noqa: BLE001 - whatever it is, it is the campaign's result
        traceback.print_exc()
        fault = f"round {done + 1}: {_first_line(sys.exception())}"
    given = {"FIRST": first if first > 1 else None, "ROUNDS": rounds, "SEED": seed if seed != 1 else None}
    command = " ".join([f"make soak SOAK={name}", *(f"{key}={value}" for key, value in given.items() if value)])
    played = f"{done} of {last}" if fault else str(last)
    line = _line(
        commit,
        seed,
        f"`{command}`",
        played,
        fault or f"no fault, {datetime.timedelta(seconds=round(time.monotonic() - began))} h",
    )
    print(line, end="")
    if clean and _is_clean(commit):
        atomic_write(TABLE, TABLE.read_text() + line)
    else:
        print(f"soak: files differed from {commit}: {_table()} was not written", file=sys.stderr)
    return not fault


def _first_line(error: BaseException | None) -> str:
    return f"{type(error).__name__}: {error}".splitlines()[0][:200]


def _state() -> dict[str, Any]:
    return json.loads(STATE.read_text()) if STATE.exists() else {}


def _keep(key: str, done: int, seconds: float, clean: bool) -> None:
    """How many rounds were played, in how many seconds, and whether all of them on the files of the commit."""
    STATE.parent.mkdir(parents=True, exist_ok=True)
    atomic_write(STATE, pretty_json(_state() | {key: (done, seconds, clean)}))


def _line(commit: str, seed: int, command: str, rounds: str, result: str) -> str:
    cells = [commit, datetime.datetime.now(datetime.UTC).date().isoformat(), str(seed), command, rounds, result]
    return f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |\n"


def _is_clean(commit: str) -> bool:
    """Return whether nothing but the page of the tables differs from the commit."""
    head = _git("rev-parse", "--short=12", "HEAD")
    return head == commit and not _git("status", "--porcelain", "--", ".", f":!{_table()}")


def _table() -> Path:
    return TABLE.relative_to(ROOT)


def _git(*argv: str) -> str:
    return subprocess.run(["git", *argv], cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()


if __name__ == "__main__":
    sys.exit(main())
