"""Pseudo-terminals: whether users of a node can open one, as ssh sessions, `srun --pty`, tmux and script(1) do."""

from __future__ import annotations

from collections.abc import Iterator

from envmgr.audit.model import Evidence
from envmgr.finding import Finding
from envmgr.nodes import fold
from envmgr.system.shelltext import script_text

_MOUNT = "mount -t devpts -o gid=5,mode=620,ptmxmode=0666 devpts /dev/pts"
# What the shell text says, without a number at its end -> what is so, and what mends it.
_CAUSES = {
    "unmounted": ("/dev/pts is no mounted devpts", f"on the node: `{_MOUNT}`, and its line in /etc/fstab"),
    "link": (
        "/dev/ptmx has mode {}, by the ptmxmode of /dev/pts",
        "on the node: `mount -o remount,ptmxmode=0666 /dev/pts`; what mounted it so, /etc/fstab or a chroot's script?",
    ),
    "device": (
        "/dev/ptmx has mode {}",
        "on the node: `udevadm trigger --name-match=ptmx` gives it the mode of udev's rules, which is 666; which rule made it so?",
    ),
    "full": (
        "all {} are in use",
        "on the node: `fuser -v /dev/pts/*` tells who has them; `sysctl kernel.pty.max` is how many there may be",
    ),
}


def terminal() -> str:
    """Shell text for the stage `node`: the fact `terminal`, where users can open none."""
    return script_text(__file__, "sh")


def terminal_findings(evidence: Evidence) -> Iterator[Finding]:
    for said, nodes in evidence.fleet.by_value("terminal").items():
        cause, _, number = said.partition(" ")
        what, mend = _CAUSES[cause]
        yield Finding(
            "contexts",
            "error",
            "/dev/ptmx",
            f"users can open no pseudo-terminal: {what.format(number)}",
            "terminals for `srun --pty`, ssh sessions, tmux and script",
            mend,
            fold(nodes),
        )


def without_terminal(evidence: Evidence) -> frozenset[str]:
    """Nodes of which that is told: that shells at a terminal do not start there follows."""
    return frozenset(node for nodes in evidence.fleet.by_value("terminal").values() for node in nodes)
