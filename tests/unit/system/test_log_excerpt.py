"""What is shown of the output of a command that failed: the cause, and a dozen lines at most."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envmgr.system.log_excerpt import meaningful

NOISE = [f"cc -O2 -Wall -c -o obj/file{n}.o file{n}.c" for n in range(200)]

CASES = {
    "gcc": (
        """\
make[1]: Entering directory '/b/x'
cc -O2 -c -o a.o a.c
a.c: In function 'main':
a.c:2:10: error: 'missing' undeclared (first use in this function)
    2 |   return missing;
      |          ^~~~~~~
make[1]: *** [Makefile:3: a.o] Error 1
make: *** [Makefile:9: all] Error 2
make[1]: Leaving directory '/b/x'
""",
        """\
a.c: In function 'main':
a.c:2:10: error: 'missing' undeclared (first use in this function)
    2 |   return missing;
      |          ^~~~~~~
make[1]: *** [Makefile:3: a.o] Error 1
make: *** [Makefile:9: all] Error 2
""",
    ),
    "make -j, whose other jobs go on for long": (
        "\n".join(
            [
                "gcc -c -o a.o a.c",
                "gcc -c -o b.o b.c",
                "a.c:7:24: error: expected ';' before '}' token",
                "    7 | int f(void) { return 3 }",
                "      |                        ^",
                "make: *** [Makefile:6: a.o] Error 1",
                "make: *** Waiting for unfinished jobs....",
                "b.c:2:12: warning: 'unused' defined but not used [-Wunused-variable]",
                *NOISE,
                "c.c:1:1: error: another one, later",
            ]
        ),
        """\
a.c:7:24: error: expected ';' before '}' token
    7 | int f(void) { return 3 }
      |                        ^
make: *** [Makefile:6: a.o] Error 1
make: *** Waiting for unfinished jobs....
""",
    ),
    "missing header": (
        """\
In file included from include/top.h:4,
                 from src/main.c:1:
include/deep.h:9:10: fatal error: zlib.h: No such file or directory
    9 | #include <zlib.h>
      |          ^~~~~~~~
compilation terminated.
make: *** [Makefile:3: main.o] Error 1
""",
        """\
In file included from include/top.h:4,
                 from src/main.c:1:
include/deep.h:9:10: fatal error: zlib.h: No such file or directory
    9 | #include <zlib.h>
      |          ^~~~~~~~
compilation terminated.
make: *** [Makefile:3: main.o] Error 1
""",
    ),
    "linker": (
        "cc -o toy main.o\nmain.c:(.text+0x5): undefined reference to `deflate'\ncollect2: error: ld returned 1 exit status\n",
        "main.c:(.text+0x5): undefined reference to `deflate'\ncollect2: error: ld returned 1 exit status\n",
    ),
    "gfortran shows the line before it complains": (
        """\
gfortran -c -o a.o a.f90
a.f90:3:4:

    3 |  x = 1
      |    1
Error: Symbol 'x' at (1) has no IMPLICIT type
make: *** [Makefile:3: a.o] Error 1
""",
        """\
a.f90:3:4:
    3 |  x = 1
      |    1
Error: Symbol 'x' at (1) has no IMPLICIT type
make: *** [Makefile:3: a.o] Error 1
""",
    ),
    "nvcc": (
        'nvcc -c kernel.cu\nkernel.cu(12): error: identifier "foo" is undefined\n1 error detected in the compilation of "kernel.cu".\n',
        'kernel.cu(12): error: identifier "foo" is undefined\n1 error detected in the compilation of "kernel.cu".\n',
    ),
    "configure, whatever the probes before said": (
        """\
checking for gcc... gcc
conftest.c:3:10: error: unknown type name 'foo'
checking for strerror... yes
checking for perror in -lfoo... no
checking for libfoo >= 1.2... no
configure: error: libfoo 1.2 or newer is required
See `config.log' for more details
""",
        """\
checking for perror in -lfoo... no
checking for libfoo >= 1.2... no
configure: error: libfoo 1.2 or newer is required
See `config.log' for more details
""",
    ),
    "cmake": (
        """\
-- Detecting C compile features - done
-- Looking for strerror - not found
CMake Error at CMakeLists.txt:3 (find_package):
  Could not find a package configuration file provided by "Nope".


-- Configuring incomplete, errors occurred!
""",
        """\
CMake Error at CMakeLists.txt:3 (find_package):
  Could not find a package configuration file provided by "Nope".
-- Configuring incomplete, errors occurred!
""",
    ),
    "test step": (
        """\
PASS: t1
FAIL: t2 expected 4, got 5
PASS: t3
# TOTAL: 3
# PASS:  2
# FAIL:  1
# ERROR: 0
make: *** [Makefile:8: check] Error 2
""",
        """\
PASS: t1
FAIL: t2 expected 4, got 5
PASS: t3
# TOTAL: 3
# PASS:  2
# FAIL:  1
# ERROR: 0
make: *** [Makefile:8: check] Error 2
""",
    ),
    "extension of a Python package": (
        """\
  Building wheel for toy (setup.py): finished with status 'error'
  error: subprocess-exited-with-error

  \N{MULTIPLICATION SIGN} python setup.py bdist_wheel did not run successfully.
  \N{BOX DRAWINGS LIGHT VERTICAL} exit code: 1
  \N{BOX DRAWINGS LIGHT ARC UP AND RIGHT}\N{BOX DRAWINGS LIGHT HORIZONTAL}> [12 lines of output]
      running build_ext
      gcc -Wall -O2 -fPIC -I/usr/include/python3.11 -c toy.c -o build/toy.o
      toy.c:2:10: fatal error: nowhere.h: No such file or directory
          2 | #include <nowhere.h>
            |          ^~~~~~~~~~~
      compilation terminated.
      error: command '/usr/bin/gcc' failed with exit code 1
      [end of output]

  note: This error originates from a subprocess, and is likely not a problem with pip.
""",
        """\
toy.c:2:10: fatal error: nowhere.h: No such file or directory
    2 | #include <nowhere.h>
      |          ^~~~~~~~~~~
compilation terminated.
error: command '/usr/bin/gcc' failed with exit code 1
""",
    ),
    "archive": (
        "\ngzip: stdin: unexpected end of file\ntar: Unexpected EOF in archive\ntar: Unexpected EOF in archive\n",
        "gzip: stdin: unexpected end of file\ntar: Unexpected EOF in archive\n",
    ),
    "colours": ("\x1b[1;31mtoy.c:1:1: error:\x1b[0m odd\n", "toy.c:1:1: error: odd\n"),
    "no complaint at all": ("\n".join(f"line {n}" for n in range(30)), "\n".join(f"line {n}" for n in range(18, 30))),
    "nothing": ("", ""),
    "harmless words": (
        "cc -Werror=format -c error.c\nchecking for error.h... no\n0 errors\nmake: [x] Error 1 (ignored)\nlast words\n",
        "cc -Werror=format -c error.c\nchecking for error.h... no\n0 errors\nmake: [x] Error 1 (ignored)\nlast words\n",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_meaningful_shows_the_cause(case: str) -> None:
    output, expected = CASES[case]
    assert "\n".join(meaningful(output)) == expected.rstrip("\n")


def test_meaningful_finds_the_cause_in_a_long_output() -> None:
    output = "\n".join([*NOISE, "deep.c:3:1: error: here", *NOISE * 50, "make: *** [Makefile:1: all] Error 2"])
    assert len(output) > 300_000
    assert meaningful(output) == ["deep.c:3:1: error: here", "make: *** [Makefile:1: all] Error 2"]
    assert len(meaningful(output.replace("cc -O2", "more"))) == 12


@given(st.text(max_size=2000))
def test_meaningful_is_short_whatever_was_said(output: str) -> None:
    lines = meaningful(output)
    assert len(lines) <= 12
    assert all(len(line) <= 200 for line in lines)


@given(
    st.lists(
        st.sampled_from(
            ["a.c:1:1: error: x", "FAIL: y", "plain", "", "configure: error: z", "In file included from a.h:1:"]
        )
    )
)
def test_meaningful_says_only_what_was_said(lines: list[str]) -> None:
    assert set(meaningful("\n".join(lines))) <= set(lines)
