"""Scripts for nodes, as a busy machine would run them."""

from __future__ import annotations

from pathlib import Path

from envmgr.system.shelltext import quote


def begins_slowly(file: Path) -> str:
    """A script that makes `file`, is deaf to SIGTERM for a second, and from then on removes the file at its end."""
    tidy = f"trap 'trap \"\" TERM; rm {quote(str(file))}; exit 1' TERM"
    return f"trap : TERM; touch {quote(str(file))}; for _ in 1 2 3 4 5; do sleep 0.2; done; {tidy}; sleep 1299; echo no"
