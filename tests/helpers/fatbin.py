"""ELF files with a section of code for GPUs, as CUDA's tools write it; the code itself is noise."""

from __future__ import annotations

import struct
from collections.abc import Sequence

from envmgr.catalog.gpus import parse_code

_FLAGS = {"": 0x8011, "a": 0x108011, "f": 0x208011}


def fatbin(*containers: Sequence[str]) -> bytes:
    """Each container has an entry for each code: `8.6` machine code, `ptx 9.0` code to be compiled."""
    text = b""
    for codes in containers:
        entries = b""
        for each in codes:
            kind, _, name = each.rpartition(" ")
            code, body = parse_code(name), b"noise" * 16
            head = struct.pack(
                "<HHIQIIHHIIIQQQ",
                1 if kind else 2,
                0x101,
                64,
                len(body),
                0,
                0,
                0,
                0,
                code.major * 10 + code.minor,
                0,
                0,
                _FLAGS[code.only],
                0,
                len(body),
            )
            assert len(head) == 64
            entries += head + body
        text += struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(entries)) + entries + b"\0" * (-len(entries) % 8)
    return text


def elf(section: bytes, name: str = ".nv_fatbin") -> bytes:
    """A shared library of one section."""
    names = b"\0" + name.encode() + b"\0.shstrtab\0"
    at = 64
    table = at + len(section) + len(names)
    head = (
        b"\x7fELF"
        + bytes([2, 1, 1])
        + bytes(9)
        + struct.pack("<HHIQQQIHHHHHH", 3, 62, 1, 0, 0, table, 0, 64, 56, 0, 64, 3, 2)
    )
    rows = [(0, 0, 0, 0), (1, 1, at, len(section)), (names.index(b".shstrtab"), 3, at + len(section), len(names))]
    text = b"".join(
        struct.pack("<IIQQQQIIQQ", name_at, kind, 0, 0, where, size, 0, 0, 1, 0) for name_at, kind, where, size in rows
    )
    return head + section + names + text
