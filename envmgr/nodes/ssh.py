"""The ssh transport: the system's `ssh` with its config, and what it must not weaken; its words as reasons."""

from __future__ import annotations

import math
import os
import re
import stat
from contextlib import suppress
from pathlib import Path

from envmgr.catalog.site_file import Transport
from envmgr.nodes import tool

_MOST_SOCKET = 104  # bytes of a Unix socket's path, less than sun_path everywhere
_HASH = 1 + 40 + 17  # `/`, %C, and the suffix that ssh gives the socket while it makes it

# What is on the command line comes before ~/.ssh/config. curve25519 first: OpenSSH's default post-quantum key exchange
# takes five times the controller's CPU (FACTS-cluster, 200 nodes: 11.4 s and 3.5 s).
_OPTIONS = (
    # Nobody is there to type a password, or to answer a question.
    "BatchMode=yes",
    # A node with an unknown key gets no script: the script often runs as root there.
    "StrictHostKeyChecking=yes",
    "UpdateHostKeys=no",
    "KexAlgorithms=^curve25519-sha256",
    # At a higher level, banners of nodes would be among the reasons of a failure.
    "LogLevel=ERROR",
    "ConnectionAttempts=1",
    "ServerAliveInterval=5",  # a kept connection to a node that died is given up after 15 s
    "ServerAliveCountMax=3",
    # The user's own configuration must not open ports or lend keys to every node.
    "ForwardAgent=no",
    "ForwardX11=no",
    "ClearAllForwardings=yes",
    "PermitLocalCommand=no",
    # ssh refuses a command on its command line if the configuration has a RemoteCommand.
    "RemoteCommand=none",
    "RequestTTY=no",
)
_NOISE = re.compile(
    r"^(@+|\*{3,}.*|debug\d:.*|Warning: Permanently added.*|ControlSocket .* already exists, disabling multiplexing"
    r"|mux_client.*|Control socket connect.*|Shared connection to .* closed|Host key for .* has changed.*"
    r"|kex_exchange_identification: .*)$"
)
_CONNECT = (
    "ssh: ",
    "Host key verification",
    "No .* host key is known",
    "Permission denied",
    ".*: Permission denied",
    "Bad owner",
    "Too many authentication failures",
    ".*: Bad configuration",
    "command-line",
)


def command(
    transport: Transport, node: str, *, user: str | None, socket: Path | None, program: str = "/bin/sh -s"
) -> tuple[str, ...]:
    """Return the ssh command for one node; by default its shell reads the script from stdin.

    `socket` is the place of a kept connection.
    """
    options = [*_OPTIONS, f"ConnectTimeout={max(1, math.ceil(transport.connect_timeout))}"]
    if socket is None:
        # The user's configuration may share connections, and this call must have its own.
        options += ["ControlMaster=no", "ControlPath=none"]
    else:
        kept = max(1, math.ceil(transport.persist))
        options += ["ControlMaster=auto", f"ControlPath={socket}", f"ControlPersist={kept}"]
    login = user or transport.user
    shell = f"exec {transport.become.strip()} {program}" if transport.become else f"exec {program}"
    return (
        tool("ssh"),
        "-T",
        *(word for option in options for word in ("-o", option)),
        *(("-l", login) if login else ()),
        "--",
        node,
        shell,
    )


def control_socket(runtime: str | None) -> Path | None:
    """Return where connections are kept: a folder that only we can look into, or None.

    `runtime` is $XDG_RUNTIME_DIR. The folder is made when it is missing.
    """
    own = Path(f"/tmp/envmgr-ssh-{os.geteuid()}")  # noqa: S108 - checked to be ours below
    for folder in ([Path(runtime) / "envmgr-ssh"] if runtime and runtime.startswith("/") else []) + [own]:
        # ssh expands `%` in ControlPath, and ends an option's value at a space.
        if len(os.fsencode(folder)) + _HASH > _MOST_SOCKET or "%" in str(folder) or " " in str(folder):
            continue
        with suppress(OSError):
            with suppress(FileExistsError):
                folder.mkdir(mode=0o700)
            # In /tmp another user may have made the folder first, and could take over connections.
            found = folder.lstat()
            if stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() and stat.S_IMODE(found.st_mode) == 0o700:
                return folder / "%C"
    return None


def ssh_reason(errors: bytes) -> str:
    """Return ssh's last line that means something, without the node's name, so that nodes with one reason fold; or
    empty.
    """
    lines = [line.strip() for line in errors.decode("utf-8", "backslashreplace").splitlines()]
    lines = [line for line in lines if line and not _NOISE.match(line)]
    if not lines:
        return ""
    line = lines[-1].rstrip(".")
    if said := re.fullmatch(r"ssh: connect to host \S+ port (\d+): (.*)", line):
        return f"{said[2]} (port {said[1]})" if said[1] != "22" or "refused" in said[2] else said[2]
    line = re.sub(r"^ssh: Could not resolve hostname \S+: .*", "Could not resolve hostname", line)
    line = re.sub(r"^\S+@\S+: (?=Permission denied)", "", line)
    line = re.sub(r" (by|to|from|with) \S+ port \d+", "", line)
    return line.removeprefix("ssh: ")


def is_about_connecting(errors: bytes) -> bool:
    """Return whether ssh itself could not connect. Else a kept connection had gone stale, and a new one may work."""
    lines = errors.decode("utf-8", "backslashreplace").splitlines()
    return any(re.match(rf"({'|'.join(_CONNECT)})", line.strip()) for line in lines)
