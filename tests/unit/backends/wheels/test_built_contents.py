"""What the names of a wheel's files say: the extension modules that it lacks, and the modules that its test imports."""

from __future__ import annotations

import pytest

from envmgr.backends.wheels.built_contents import DeclaredExtension, missing_extensions

ABI = "cpython-311-x86_64-linux-gnu.so"
HOROVOD = ("horovod.tensorflow.mpi_lib", "horovod.torch.mpi_lib_v2", "horovod.mxnet.mpi_lib")


def missing(names: tuple[str, ...], *files: str, compiled: bool = True) -> tuple[str, ...]:
    return missing_extensions([DeclaredExtension(name=name, compiled=compiled) for name in names], files)


@pytest.mark.parametrize(
    "file",
    [
        f"pkg/_fast.{ABI}",
        "pkg/_fast.abi3.so",
        "pkg/_fast.so",
        f"pkg-1.0.data/platlib/pkg/_fast.{ABI}",
        "pkg/lib_fast.so",  # setuptools' `Library`
        f"pkg/inside/_fast.{ABI}",  # moved by the build
    ],
)
def test_extension_is_there_by_any_name_that_python_loads(file: str) -> None:
    assert missing(("pkg._fast",), "pkg/__init__.py", file) == ()


@pytest.mark.parametrize(
    "file", ["pkg/_fast.py", "pkg/_fast.pyi", "pkg/_fast.c", f"pkg/_faster.{ABI}", f"pkg-1.0.data/data/pkg/_fast.{ABI}"]
)
def test_extension_is_not_there_by_another_file(file: str) -> None:
    assert missing(("pkg._fast",), "pkg/__init__.py", file) == ("pkg._fast",)


def test_extensions_of_one_name_are_told_apart_by_their_packages() -> None:
    packages = [f"horovod/{name}/__init__.py" for name in ("", "tensorflow", "torch", "mxnet")]
    assert missing(HOROVOD, *packages, compiled=False) == tuple(sorted(HOROVOD))
    there = f"horovod/mxnet/mpi_lib.{ABI}"
    assert missing(HOROVOD, *packages, there, compiled=False) == HOROVOD[:2]


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("pkg", f"pkg/_core.{ABI}"),
        (".", f"pkg/_core.{ABI}"),
        ("cmake-build", f"pkg/_core.{ABI}"),
        ("cmake.build", f"pkg/_core.{ABI}"),
        ("pkg", f"pkg.{ABI}"),
    ],
)
def test_label_of_what_another_tool_builds_is_no_name_of_a_module(name: str, file: str) -> None:
    assert missing((name,), "pkg/__init__.py", file, compiled=False) == ()
    assert missing((name,), "pkg/__init__.py", compiled=False) == (name,)
