"""`python3 nfs_calls.py` on the file server: counts the calls of NFSv3 that come in, as JSON, when its input ends.

Source: RFC 1813 (procedures), RFC 5531 (the call's head). A call begins a TCP segment, which holds for calls that are small; WRITE
and others that are not do not matter here.
"""

from __future__ import annotations

import json
import select
import socket
import struct
import sys
from collections import Counter

NAMES = ("NULL GETATTR SETATTR LOOKUP ACCESS READLINK READ WRITE CREATE MKDIR SYMLINK MKNOD REMOVE RMDIR RENAME LINK READDIR "
         "READDIRPLUS FSSTAT FSINFO PATHCONF COMMIT").split()  # fmt: skip


def main() -> None:
    calls: Counter[str] = Counter()
    size = 0
    wire = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.ntohs(0x0003))
    wire.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 << 20)
    print("ready", flush=True)
    while True:
        ready, _, _ = select.select([wire, sys.stdin], [], [])
        if wire in ready:
            frame, (_, _, kind, *_) = wire.recvfrom(1 << 17)
            if name := call(frame):
                calls[name] += 1
            if kind == socket.PACKET_OUTGOING:
                size += len(frame)
        elif not sys.stdin.readline():
            break
    print(json.dumps({**calls, "bytes": size}))


def call(frame: bytes) -> str:
    """The procedure's name, if the frame (Ethernet, IPv4, TCP to port 2049) begins a call of NFSv3."""
    if frame[12:14] != b"\x08\x00" or frame[23] != socket.IPPROTO_TCP:
        return ""
    head = 14 + (frame[14] & 15) * 4
    if struct.unpack_from("!H", frame, head + 2)[0] != 2049:
        return ""
    data = frame[head + (frame[head + 12] >> 4) * 4 :]
    if len(data) < 28:
        return ""
    _, _, kind, version, program, of_program, procedure = struct.unpack_from("!7I", data)
    if (kind, version, program, of_program) != (0, 2, 100003, 3) or procedure >= len(NAMES):
        return ""
    return NAMES[procedure]


if __name__ == "__main__":
    main()
