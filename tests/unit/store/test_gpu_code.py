"""What binaries have code for, from the headers in them; the same was found in PyTorch and TensorFlow themselves (docs/gpu.md)."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path

import pytest

from envmgr.store.gpu_code import measure
from tests.helpers.fatbin import elf, fatbin


def library(root: Path, name: str, *containers: Sequence[str], section: str = ".nv_fatbin") -> None:
    root.mkdir(exist_ok=True)
    (root / name).write_bytes(elf(fatbin(*containers), section))


@pytest.mark.parametrize(
    ("containers", "codes"),
    [
        ([["7.5", "8.0"]], ("7.5", "8.0")),
        ([["7.5", "8.0"], ["7.5", "8.0"]], ("7.5", "8.0")),
        ([["8.0", "ptx 9.0"]], ("8.0", "9.0+PTX")),
        ([["8.0", "9.0", "ptx 9.0"]], ("8.0", "9.0+PTX")),
        ([["ptx 7.0", "ptx 8.0"]], ("8.0+PTX",)),
        ([["9.0a", "8.0"]], ("8.0", "9.0a")),
        ([["9.0a", "9.0", "8.0"]], ("8.0", "9.0")),
        ([["10.0f", "12.0f"]], ("10.0f", "12.0f")),
        ([["10.0f", "10.3"]], ("10.0f", "10.3")),
        ([["10.0a", "10.0"]], ("10.0",)),
    ],
)
def test_one_library(tmp_path: Path, containers: list[list[str]], codes: tuple[str, ...]) -> None:
    library(tmp_path, "libown.so.1", *containers)
    assert measure(tmp_path) == codes


@pytest.mark.parametrize(
    ("libraries", "codes"),
    [
        ({"libone.so": ["7.0", "7.5", "8.0"], "libtwo.so": ["7.0", "8.0"]}, ("7.0", "7.5", "8.0")),  # 7.0 runs on 7.5
        ({"libone.so": ["7.5", "8.0"], "libtwo.so": ["8.0", "9.0"]}, ("8.0",)),
        (
            {"libone.so": ["8.0", "9.0"], "libtwo.so": ["8.0", "ptx 8.0"]},
            ("8.0+PTX",),
        ),  # one of them is compiled for 9.0
        ({"libone.so": ["8.0", "9.0"], "libtwo.so": ["8.0"]}, ("8.0",)),
        ({"libone.so": ["8.0", "9.0"], "libstub.so": ["5.2"]}, ("8.0", "9.0")),  # a single entry is the compiler's own
        (
            {"libone.so": ["8.0", "9.0"], "libcusparseLt.so.0": ["9.0", "9.0"]},
            ("8.0", "9.0"),
        ),  # NVIDIA's own do not restrict it
        ({"libcublas.so.12": ["8.0", "9.0"], "libcufft.so.11": ["8.0", "9.0"]}, ("8.0", "9.0")),
        ({"libstub.so": ["5.2"]}, ("5.2",)),
    ],
)
def test_several_libraries(tmp_path: Path, libraries: dict[str, list[str]], codes: tuple[str, ...]) -> None:
    for name, each in libraries.items():
        library(tmp_path, name, each)
    assert measure(tmp_path) == codes


def test_code_that_is_to_be_linked_counts_and_programs_do(tmp_path: Path) -> None:
    library(tmp_path, "program", ["8.0", "9.0"], section="__nv_relfatbin")
    assert measure(tmp_path) is None  # nobody can run it
    (tmp_path / "program").chmod(0o755)
    assert measure(tmp_path) == ("8.0", "9.0")


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"\x7fELF",
        b"#!/bin/sh\n",
        elf(fatbin(["8.0", "9.0"]))[:-100],
        elf(b"\x50\xed\x55\xba" + b"\xff" * 60),
        elf(b"x" * 999),
    ],
)
def test_files_without_code_or_that_cannot_be_read_have_none(tmp_path: Path, text: bytes) -> None:
    (tmp_path / "libodd.so").write_bytes(text)
    (tmp_path / "libgone.so").symlink_to("nowhere")
    assert measure(tmp_path) is None


def test_tables_that_lie_nowhere_are_no_end_of_a_build(tmp_path: Path) -> None:
    text = bytearray(elf(fatbin(["8.0", "9.0"])))
    for at in range(40, 48):  # where the table of sections is
        (tmp_path / "libodd.so").write_bytes(bytes([*text[:at], 0xFF, *text[at + 1 :]]))
        assert measure(tmp_path) in (None, ("8.0", "9.0"))


def test_it_can_be_interrupted(tmp_path: Path) -> None:
    library(tmp_path, "libown.so", ["8.0"])

    def stop() -> None:
        raise InterruptedError

    with pytest.raises(InterruptedError):
        measure(tmp_path, stop)


def test_count_of_sections_without_end_ends(tmp_path: Path) -> None:
    """A stranger's file may say that it has a billion sections, which all lie at one place."""
    content = bytearray(elf(fatbin(["8.0", "9.0"]), ".nv_fatbin"))
    table = struct.unpack_from("<Q", content, 0x28)[0]
    struct.pack_into("<Q", content, table + 0x20, 1 << 40)
    for size, names in ((0, 0), (64, 2), (0, 2)):
        struct.pack_into("<HHH", content, 0x3A, size, 0, names)
        (tmp_path / "libown.so").write_bytes(content)
        measure(tmp_path)
