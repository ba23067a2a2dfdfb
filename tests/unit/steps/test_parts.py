"""Names and versions as `find` compares them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envmgr.errors import InputError
from envmgr.steps.parts import parse_wanted
from envmgr.store.parts import Part


def judged(text: str, version: str, ecosystem: str = "conda", name: str = "openssl") -> bool | None:
    return parse_wanted(text).judge(Part(ecosystem=ecosystem, name=name, version=version))


@pytest.mark.parametrize(
    ("versions", "among"),
    [
        ("<3.0.15", "1.1.1 1.1.1w 3.0.14"),
        ("<1.1.1w", "1.1.1"),  # conda itself has 1.1.1w before 1.1.1
        ("<=1.1.1w", "1.1.1 1.1.1w"),
        (">1.1.1,<2", "1.1.1w"),
        ("==1.1.1w", "1.1.1w"),
        ("!=1.1.1", "1.1.1w 3.0.14 3.0.15 2024a"),
        ("~=3.0.14", "3.0.14 3.0.15"),
        ("==3.0.*", "3.0.14 3.0.15"),
        ("<2024b", "1.1.1 1.1.1w 3.0.14 3.0.15 2024a"),
        (">=2024a", "2024a"),
        ("", "1.1.1 1.1.1w 3.0.14 3.0.15 2024a"),
    ],
)
@pytest.mark.parametrize("ecosystem", ["conda", "easybuild", "spack"])
def test_versions_with_letters_are_compared(ecosystem: str, versions: str, among: str) -> None:
    known = ["1.1.1", "1.1.1w", "3.0.14", "3.0.15", "2024a"]
    assert [each for each in known if judged(f"openssl{versions}", each, ecosystem)] == among.split()


@pytest.mark.parametrize(
    ("text", "version", "expected"),
    [
        ("six<2", "2.0rc1", False),
        ("six>=1", "1.0rc1", False),
        ("six>=1.0a0", "1.0rc1", True),  # a pre-release is not left out
        ("six==1.0", "1.0+cu118", True),
        ("six<1.1.1w", "1.0", None),
        ("six<1", "not a version", None),
    ],
)
def test_wheels_are_compared_as_pip_does(text: str, version: str, expected: bool | None) -> None:
    assert judged(text, version, "pypi", "six") is expected


@pytest.mark.parametrize("version", ["develop", "master", "git.abc=1", "sha256:00", "1.0 beta", ""])
def test_version_without_a_place_among_numbers_is_not_compared(version: str) -> None:
    assert judged("openssl<3", version, "spack") is None
    assert judged("openssl", version, "spack") is True
    assert judged("zlib<3", version, "spack") is False


@pytest.mark.parametrize(
    ("asked", "ecosystem", "name", "same"),
    [
        ("Scikit_Learn", "pypi", "scikit-learn", True),
        ("scikit_learn", "conda", "scikit-learn", False),
        ("openssl", "easybuild", "OpenSSL", True),
        ("nvidia/pytorch", "oci", "pytorch", False),
        ("_openmp_mutex", "conda", "_openmp_mutex", True),
        ("gtk+", "easybuild", "GTK+", True),
    ],
)
def test_names_are_compared_as_their_ecosystem_does(asked: str, ecosystem: str, name: str, same: bool) -> None:
    assert judged(asked, "1", ecosystem, name) is same


@given(st.text(max_size=30))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        wanted = parse_wanted(text)
    except InputError:  # the only error that there is
        return
    for version in ("1.1.1w", "2.0rc1", "develop", "1!2"):
        for ecosystem in ("conda", "pypi"):
            assert wanted.judge(Part(ecosystem=ecosystem, name=wanted.name, version=version)) in (True, False, None)


@pytest.mark.parametrize(
    ("text", "version"), [("openssl<v3.12", "3.11.7"), ("openssl>=1", "v1.2"), ("openssl==1.2", "v1.2")]
)
def test_v_before_a_version_says_nothing(text: str, version: str) -> None:
    assert judged(text, version) is True
