"""Requirements of anybody: one bounded line of visible ASCII comes out, or a reason."""

from __future__ import annotations

import re
import string
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packaging.requirements import Requirement

from envmgr.wheels.requirements import MOST_ROWS, checked, checked_all, read_requirement
from envmgr.wheels.target import target_environment


@pytest.mark.parametrize(
    ("row", "written"),
    [
        ("six", "six"),
        (" Six >= 1.0,<2\t", "Six<2,>=1.0"),
        ("a[x,y] (>=1)", "a[x,y]>=1"),
        ("a ; python_version<'3.12' and extra=='x'", 'a; python_version < "3.12" and extra == "x"'),
        ("a==1!2.0+cu118", "a==1!2.0+cu118"),
    ],
)
def test_requirement_is_written_again(row: str, written: str) -> None:
    assert checked(row) == written


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ("six\n--extra-index-url http://evil", "U+000A"),
        ("six\r-r /etc/shadow", "U+000D"),
        ("six\x0bevil", "U+000B"),
        ("six\u2028evil", "U+2028"),
        ("six\x85evil", "U+0085"),
        ("six\u202e", "U+202E"),
        ("s\u0456x", "U+0456"),
        ("six #evil", "U+0023"),
        ("six===${HOME}", "U+0024"),
        ("six \\", "U+005C"),
        ("-r evil.txt", "put the rows of that one here"),
        ("--index-url=http://evil", "indexes are named in site.yaml"),
        ("six @ http://evil/six.whl", "names a place"),
        ("six@file:evil", "names a folder of another machine"),
        ("six @ file:///croot/six_1/work#sha256=00", "names a folder of another machine"),
        ("six[all] @ git+https://evil/six#subdirectory=x", "names a place"),
        ("-e git+https://evil/six@00#egg=six", "a checkout or a folder has no sha256"),
        ("git+https://evil/six", "names a place"),
        ("./six", "names a place"),
        ("six --hash=sha256:00", "`envmgr import FILE --as NAME/VERSION` keeps those of a file"),
        ("six; " + "(" * 2_000, "2000 characters"),
        ("six; " + "(" * 1_000 + "os_name=='x'" + ")" * 900, "30 brackets"),
        ("six" + ",".join("!=1" for _ in range(100_000)), "2000 characters"),
        ("", "is no requirement"),
        ("six; os_name ~= 'x'", "has a marker that says neither yes nor no: `~=` compares versions"),
        ("six; extra == 'x' and (os_name == 'y' or python_version ~= '3')", "`~=` compares versions"),
        ("six; '1' ~= extra", "`~=` compares versions"),
        ("six; 'x' in extras", "has a marker that says neither yes nor no: there is no 'extras'"),
        ("six; 'x' in dependency_groups", "there is no 'dependency_groups'"),
        ("six; 'a' == 'b'", "there is no 'b'"),
        (f"six[{','.join(f'x{number}' for number in range(101))}]", "has 101 extras: there are 100 at most"),
    ],
)
def test_what_is_no_requirement_is_refused(row: str, reason: str) -> None:
    with pytest.raises(ValueError, match=re.escape(reason)):
        checked(row)


def test_deep_marker_of_a_real_package_is_read() -> None:
    names = ["aarch64", "ppc64le", "x86_64", "amd64", "AMD64", "win32", "WIN32"]
    marker = "".join(f'(platform_machine == "{name}" or ' for name in names) + 'os_name == "nt"' + ")" * len(names)
    assert read_requirement(f"greenlet!=0.4.17; {marker}").marker is not None


def test_more_rows_than_a_package_has_are_refused() -> None:
    with pytest.raises(ValueError, match=f"more than {MOST_ROWS} requirements"):
        checked_all(["six"] * (MOST_ROWS + 1))


@given(st.text(alphabet=string.printable + "\x85\u2028\u2029\u202e\ufeff\x00\x1b", max_size=60))
def test_what_comes_out_is_one_line_of_one_package(row: str) -> None:
    try:
        written = checked(row)
    except ValueError:
        return
    assert written.isascii()
    assert written.isprintable()
    assert written[0].isalnum()
    assert checked(written) == written
    assert Requirement(written).url is None


_WORDS = "os_name python_version platform_release extra extras 'x' '3' '3.11' '1.0' '' '>=3'".split()
_SIGNS = ["==", "!=", "<", ">", "<=", ">=", "~=", "===", "in", "not in"]


@given(
    st.sampled_from(_WORDS), st.sampled_from(_SIGNS), st.sampled_from(_WORDS), st.sampled_from(["", "x", "1.0", "3.11"])
)
def test_marker_that_is_read_can_be_evaluated_for_any_platform_and_extra(
    left: str, sign: str, right: str, extra: str
) -> None:
    try:
        marker = read_requirement(f"six; {left} {sign} {right}").marker
    except ValueError:
        return
    assert marker is not None
    for python in ("3.9.0", "3.14.2"):
        for platform in ("x86_64-manylinux_2_28", "aarch64-manylinux_2_17"):
            where = cast("dict[str, str]", target_environment(python, platform))
            assert marker.evaluate({**where, "extra": extra}) in (True, False)
