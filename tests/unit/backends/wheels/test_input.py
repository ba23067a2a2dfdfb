"""Requirements that an index can answer, and those that it cannot."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from envmgr.backends.wheels.input import WheelsInput, checked, read_wanted
from envmgr.errors import InputError


@pytest.mark.parametrize(
    "row",
    ["numpy<2", "tensorflow[and-cuda]==2.21.*", "x; python_version < '3.12'", "a_b.c >= 1, != 1.5", "torch==2.1.2+cu118"],
)  # fmt: skip
def test_rows_of_an_index(row: str) -> None:
    assert checked(checked(row)) == checked(row)


@pytest.mark.parametrize(
    "row",
    ["git+ssh://x/y", "x@https://example.org/x.whl", "x @ file:///x", "https://example.org/x.whl", "./x", "../x", "~/x", "dir/x.whl",
     "-r other.txt", "--find-links /x", "-e git+https://x", "two words", "==1", ""],
)  # fmt: skip
def test_rows_that_are_refused(row: str) -> None:
    with pytest.raises(ValueError, match=r"`"):
        checked(row)


def test_file_with_comments_hashes_and_continued_lines(tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text(
        "# head\n\none==1.0 \\\n    --hash=sha256:abc \\\n    --hash=sha256:def\n  two>2 # why\n"
    )
    given = WheelsInput(python="python/3.11", requirements="requirements.txt")
    assert read_wanted(given, tmp_path).requirements == ("one==1.0", "two>2")


def test_file_that_asks_for_nothing(tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text("# nothing\n")
    with pytest.raises(InputError, match="asks for nothing"):
        read_wanted(WheelsInput(python="system", requirements="requirements.txt"), tmp_path)


@pytest.mark.parametrize(
    "given",
    [{"python": "python"}, {"python": "system/2.7"}, {"platform": "win_amd64"}, {"requirements": []}, {"requirements": "../x.txt"},
     {"indexes": []}, {"exclude_newer": "yesterday"}],
)  # fmt: skip
def test_input_that_is_refused(given: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        WheelsInput.model_validate({"python": "python/3.11", "requirements": ["x"], **given})


def test_digest_is_of_what_the_lock_answers(tmp_path: Path) -> None:
    def digest(**fields: object) -> str:
        given = WheelsInput.model_validate({"python": "python/3.11", "requirements": ["numpy < 2"], **fields})
        return read_wanted(given, tmp_path).digest()

    assert digest() == digest(requirements=["numpy<2"])
    assert len({digest(), digest(constraints=["x"]), digest(indexes=["a"]), digest(exclude_newer="2026-01-01")}) == 4
