"""`python -m benchmarks [RUNS] [NAME…]`: every claim on speed, both sides in this one run. Exit 1 when one does not hold.

NAME is a file of this folder; all without, but `scale`, which claims nothing.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from pathlib import Path

from benchmarks import (
    alone,
    audit,
    easybuild,
    fetch,
    gpus,
    images,
    install,
    locks,
    modules,
    page,
    scale,
    signing,
    startup,
    usage,
    users,
    verify,
)
from benchmarks.measure import Claim
from tests.helpers.standin.channel import cached_channel
from tests.helpers.standin.server import serve


def main() -> int:
    runs = next((int(word) for word in sys.argv[1:] if word.isdigit()), 5)
    named = [word for word in sys.argv[1:] if not word.isdigit()]
    channel = cached_channel(Path(__file__).parent.parent / "tests" / ".cache")
    ok = True
    with serve(channel.folder) as server:
        measures: dict[str, Callable[[], Iterable[Claim]]] = {
            "startup": lambda: startup.claims(server.url, runs),
            "install": lambda: install.claims(server.url, runs),
            "fetch": lambda: fetch.claims(server.url, runs),
            "locks": lambda: locks.claims(server.url, runs),
            "gpus": gpus.claims,
            "modules": modules.claims,
            "page": page.claims,
            "signing": signing.claims,
            "usage": lambda: usage.claims(runs),
            "users": lambda: users.claims(server.url, runs),
            "verify": lambda: verify.claims(server.url, runs),
            "audit": lambda: audit.claims(runs),
            "images": lambda: images.claims(runs),
            "alone": lambda: alone.claims(runs),
            "easybuild": lambda: easybuild.claims(runs),
        }
        apart = {"scale": scale.claims}
        for measure in [(measures | apart)[name] for name in named or measures]:
            for claim in measure():
                print(claim.line(), flush=True)
                ok = ok and claim.holds
    return 0 if ok else 1


sys.exit(main())
