"""`python -m benchmarks [RUNS]`: every claim on speed, both sides in this one run. Exit 1 when one does not hold."""

from __future__ import annotations

import sys
from pathlib import Path

from benchmarks import install, modules, startup
from tests.standin.channel import cached_channel
from tests.standin.server import serve


def main() -> int:
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    channel = cached_channel(Path(__file__).parent.parent / "tests" / ".cache")
    ok = True
    with serve(channel.folder) as server:
        for measure in (
            lambda: startup.claims(server.url, runs),
            lambda: install.claims(server.url, runs),
            modules.claims,
        ):
            for claim in measure():
                print(claim.line(), flush=True)
                ok = ok and claim.holds
    return 0 if ok else 1


sys.exit(main())
