"""Users can read what their shells read at their start: /etc/profile, /etc/profile.d, Lmod's and node-setup's files.

A file that was written under umask 077 is there for root and not for users: their shells pass over it without a word, and root's tests are
well. Looked at in the ordinary user's login bash. Node against node, by content, as a note: the same files, where a difference
explains what other checks find. A file of /etc/profile.d that users cannot read on any node is meant for root.
"""

from __future__ import annotations

from collections.abc import Iterator

from envmgr.audit.compare.between_nodes import QUORUM, drift
from envmgr.audit.model import Check, Evidence, Found, Row, scripts
from envmgr.modules.nodesetup import open_hint
from envmgr.probe.shell import context_key
from envmgr.system.modes import as_user
from envmgr.system.shelltext import quote


def judge(evidence: Evidence) -> Iterator[Row]:
    yield from _shut(evidence)
    yield from _hidden(evidence)
    yield from _others(evidence)
    yield from drift(
        "/bin/sh",
        evidence.looked("startup_files").by_value("startup_files.sh"),
        evidence,
        hint="on the node: the same shell for /bin/sh as on the others (Debian: `dpkg-reconfigure dash`): `#!/bin/sh` jobs differ by it",
    )


def _hidden(evidence: Evidence) -> Iterator[Row]:
    """~/.bash_profile that reads neither ~/.profile nor ~/.bashrc."""
    for context, account, fleet in evidence.contexts():
        if context.name == "bash-login":
            for file, nodes in fleet.by_value(f"{context_key(context, account)}startup_hides").items():
                yield Found(
                    "warning",
                    file,
                    f"bash reads it instead of ~/.profile, which it does not read itself ({evidence.account(account)})",
                    "`. ~/.profile` in it",
                    f"`echo '. ~/.profile' | {as_user(evidence.account(account), f'tee -a {quote(file)}')}`",
                    nodes,
                )


def _others(evidence: Evidence) -> Iterator[Row]:
    """Files that differ between like nodes: together, where they differ on the same nodes in the same way."""
    groups = [
        ({path: digest for digest, _, path in (line.partition(" ") for line in lines.splitlines())}, nodes)
        for lines, nodes in evidence.looked("startup_files").by_value("startup_files.sums", default="").items()
    ]
    for path in sorted({path for sums, _ in groups for path in sums}):
        values: dict[str, tuple[str, ...]] = {}
        for sums, nodes in groups:
            values[sums.get(path, "")] = (*values.get(sums.get(path, ""), ()), *nodes)
        yield from drift(
            path,
            values,
            evidence,
            severity="note",
            hint=f"compare {path} of the nodes: is it meant?",
            say=lambda digest: f"content {digest}" if digest else "not there",
        )


def _shut(evidence: Evidence) -> Iterator[Row]:
    for context, account, fleet in evidence.contexts():
        if context.name != "bash-login" or account != "user":
            continue
        shut: dict[str, list[str]] = {}
        for lines, nodes in fleet.by_value(f"{context_key(context, account)}startup_files").items():
            for path in lines.splitlines():
                shut.setdefault(path, []).extend(nodes)
        for path, having in shut.items():
            meant = path.startswith("/etc/profile.d/") and len(having) == len(fleet.nodes) and len(having) >= QUORUM
            if not meant:
                yield Found(
                    "error",
                    path,
                    f"{evidence.plan.user} cannot read it, root can",
                    "readable by all users",
                    open_hint(evidence.site, [path], whom="users"),
                    having,
                )


CHECK = Check(judge=judge, probe=scripts(__file__, "context", "node"))
