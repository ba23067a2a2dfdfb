"""Requirements that an index can answer, and those that it cannot."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from pydantic import ValidationError

from envmgr.backends.wheels.input import WheelsInput, question_faults, read_question
from envmgr.errors import InputError
from envmgr.wheels.lock_checks import asked_urls
from envmgr.wheels.requirements import checked

A = "a" * 64


@pytest.mark.parametrize(
    "row",
    [
        "numpy<2",
        "tensorflow[and-cuda]==2.21.*",
        "x; python_version < '3.12'",
        "a_b.c >= 1, != 1.5",
        "torch==2.1.2+cu118",
    ],
)
def test_rows_of_an_index(row: str) -> None:
    assert checked(checked(row)) == checked(row)


AT = "flash-attn[cuda] @ https://example.org/flash_attn-2.8%2Bcu12-cp311-cp311-linux_x86_64.whl"


@pytest.mark.parametrize(
    "row",
    [
        f"{AT}#sha256={A}",
        f"{AT} --hash=sha256:{A}",
        f"{AT.replace(' @ ', '@')}    --hash sha256:{A.upper()}",
        f"{AT} ; python_version > '3' --hash=sha256:{A}",
    ],
)
def test_wheel_by_its_url_and_its_sum(tmp_path: Path, row: str) -> None:
    marker = ' ; python_version > "3"' if ";" in row else ""
    assert checked(row) == f"{AT}#sha256={A}{marker}"
    (tmp_path / "rows.txt").write_text(f"six\n{row.replace(' --hash', chr(92) + chr(10) + ' --hash')}\n")
    given = WheelsInput(python="system", requirements="rows.txt")
    assert read_question(given, tmp_path).requirements == ("six", checked(row))
    assert asked_urls(["six", checked(row)]) == {"flash-attn": (AT.partition(" @ ")[2], A)}


@pytest.mark.parametrize(
    "row",
    [
        AT,
        f"{AT}#sha256={A} --hash=sha256:{A}",
        f"{AT} --hash=sha256:{A} --hash=sha256:{A}",
        f"other @ {AT.partition(' @ ')[2]}#sha256={A}",
        f"{AT.replace('.whl', '.tar.gz')}#sha256={A}",
        f"{AT.replace('//', '//me:secret@')}#sha256={A}",
        f"x @ git+https://example.org/x-1-py3-none-any.whl#sha256={A}",
        "two words",
        "==1",
        "",
    ],
)
def test_rows_that_are_refused(row: str) -> None:
    with pytest.raises(ValueError, match=r"`"):
        checked(row)


def test_file_with_comments_and_continued_lines(tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text("# head\n\none==1.0 \\\n    ; python_version > '3'\n  two>2 # why\n")
    given = WheelsInput(python="python/3.11", requirements="requirements.txt")
    assert read_question(given, tmp_path).requirements == ('one==1.0; python_version > "3"', "two>2")


@pytest.mark.parametrize("field", ["requirements", "constraints"])
def test_hashes_are_refused_and_lead_to_import(tmp_path: Path, field: str) -> None:
    path = tmp_path / "rows.txt"
    path.write_text(f"six\none==1.0 --hash=sha256:{A}\n")
    given = WheelsInput.model_validate({"python": "system", "requirements": ["six"], field: path.name})
    with pytest.raises(InputError) as caught:
        read_question(given, tmp_path)
    assert [each.render() for each in question_faults(given, tmp_path)] == [caught.value.render()]
    assert caught.value.render() == (
        f"error[requirement-invalid]: {path} has hashes, and a recipe has none: its lock has one of each file\n"
        "  one==1.0\n\n"
        f"hint: `envmgr import {path} --as NAME/VERSION` makes another entry of the file; or take the hashes out"
    )


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        ("a\n\nb --hash=md5:00\n", 3, "sha256 (64 hex digits), and to no other hash"),
        (f"a --hash=sha512:{A}{A}\n", 1, "no other hash"),
        (f"a --hash=sha256:{A[1:]}\n", 1, "no other hash"),
        ("a --config-settings=x=y\n", 1, "is the only option"),
        (f"a --hash=sha256:{A} --no-binary=:all:\n", 1, "is the only option"),
        ("--index-url http://evil\n", 1, "indexes are named in site.yaml"),
        ("-r other.txt\n", 1, "put the rows of that one here"),
        ("# reviewed \\\nevil==6\n", 1, "a comment within a row"),
        ("a==1 # why \\\nevil==6\n", 1, "a comment within a row"),
        ("a==1 \\\n# why\n--hash=sha256:00\n", 2, "a comment within a row"),
        ("a==1 \\", 1, "ends in"),
        ("a\nb\nc d\n", 3, "is no requirement"),
        ("a\n" * 6_000, 5_001, "more than 5000 requirements"),
        ("a\nb" + ",".join("!=1" for _ in range(100_000)), 2, "2000 characters"),
        ("a; " + "(" * 1_500 + "\n", 1, "30 brackets"),
    ],
)
def test_what_is_not_held_is_refused_with_its_place(tmp_path: Path, text: str, line: int, reason: str) -> None:
    path = tmp_path / "requirements.txt"
    path.write_text(text)
    with pytest.raises(InputError) as caught:
        read_question(WheelsInput(python="system", requirements="requirements.txt"), tmp_path)
    assert caught.value.reference == "requirement-invalid"
    assert caught.value.message.startswith(f"{path}:{line}: ")
    assert reason in caught.value.message


FREEZE = """\
absl-py @ file:///croot/absl-py_1694/work
numpy==1.26.4
-e .
-r base.txt
-c limits.txt
--extra-index-url https://index.invalid/simple
one @ git+https://host.invalid/one
"""


def test_all_rows_of_a_file_that_are_refused_are_said_at_once(tmp_path: Path) -> None:
    """`pip freeze` of a conda environment has a hundred of them."""
    path = tmp_path / "requirements.txt"
    path.write_text(FREEZE)
    with pytest.raises(InputError) as caught:
        read_question(WheelsInput(python="system", requirements="requirements.txt"), tmp_path)
    said = [caught.value.message, *caught.value.context[1:]]
    assert [each.split(": ")[0] for each in said] == [f"{path}:{number}" for number in (1, 3, 4, 5, 6, 7)]
    reasons = (
        "write `absl-py==VERSION`",
        "build a wheel",
        "put the rows",
        "`constraints`",
        "`indexes`",
        "names a place",
    )
    for reason, line in zip(reasons, said, strict=True):
        assert reason in line


def test_all_rows_of_a_list_that_are_refused_are_said_at_once() -> None:
    rows = ["one", "two @ file:///x/two", "-e .", "three==1"]
    with pytest.raises(ValidationError) as error:
        WheelsInput.model_validate({"python": "system", "requirements": rows})
    (fault,) = error.value.errors()
    said = str(fault["msg"]).splitlines()
    assert ["two @ file:///x/two" in said[0], "-e ." in said[1], len(said)] == [True, True, 2]


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("numpy", "`numpy` is a requirement and no file: write a list, `[numpy]`"),
        ("numpy<2", "`numpy<2` is a requirement and no file: write a list, `[numpy<2]`"),
        ("pylock.toml", "`pylock.toml` is no file of requirements: name the packages that you ask for"),
        ("uv.lock", "`uv.lock` is no file of requirements"),
        ("../up.txt", "`../up.txt` is not the name of a file (requirements.txt) beside the recipe"),
    ],
)
def test_text_in_place_of_a_list_gets_an_answer_that_fits(value: str, reason: str) -> None:
    with pytest.raises(ValidationError, match=re.escape(reason)):
        WheelsInput.model_validate({"python": "system", "requirements": value})


@pytest.mark.parametrize(
    ("character", "name"),
    [
        ("\u2028", "U+2028 LINE SEPARATOR"),
        ("\r", "U+000D control character"),
        ("\ufeff", "U+FEFF ZERO WIDTH NO-BREAK SPACE"),
    ],
)
@pytest.mark.parametrize("field", ["requirements", "constraints"])
def test_line_that_nobody_sees_is_refused(tmp_path: Path, field: str, character: str, name: str) -> None:
    path = tmp_path / "some.txt"
    path.write_text(f"a==1\n# reviewed{character}evil==6.6\n", newline="")
    given = {"python": "system", "requirements": ["a"], field: "some.txt"}
    with pytest.raises(InputError) as caught:
        read_question(WheelsInput.model_validate(given), tmp_path)
    assert caught.value.reference == "text-invisible"
    assert caught.value.message == f"{path}:2:11: {name} cannot be seen in a review"


def test_ends_of_lines_of_windows_are_told(tmp_path: Path) -> None:
    path = tmp_path / "requirements.txt"
    path.write_bytes(b"a==1\r\nb\r\n")
    with pytest.raises(InputError) as caught:
        read_question(WheelsInput(python="system", requirements="requirements.txt"), tmp_path)
    assert caught.value.hint is not None
    assert "Windows" in caught.value.hint
    subprocess.run(["sh", "-c", caught.value.hint.split("`")[1]], check=True)
    given = WheelsInput(python="system", requirements="requirements.txt")
    assert read_question(given, tmp_path).requirements == ("a==1", "b")


def test_file_that_asks_for_nothing(tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text("# nothing\n")
    with pytest.raises(InputError, match="asks for nothing"):
        read_question(WheelsInput(python="system", requirements="requirements.txt"), tmp_path)


@pytest.mark.parametrize(
    "given",
    [
        {"python": "python"},
        {"python": "system/2.7"},
        {"platform": "win_amd64"},
        {"requirements": []},
        {"requirements": "../x.txt"},
        {"indexes": []},
        {"exclude_newer": "yesterday"},
    ],
)
def test_input_that_is_refused(given: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        WheelsInput.model_validate({"python": "python/3.11", "requirements": ["x"], **given})


def test_digest_is_of_what_the_lock_answers(tmp_path: Path) -> None:
    def digest(**fields: object) -> str:
        given = WheelsInput.model_validate({"python": "python/3.11", "requirements": ["numpy < 2"], **fields})
        return read_question(given, tmp_path).digest()

    assert digest() == digest(requirements=["numpy<2"])
    assert len({digest(), digest(constraints=["x"]), digest(indexes=["a"]), digest(exclude_newer="2026-01-01")}) == 4


@pytest.mark.parametrize(
    "given",
    [
        {"platform": "x86_64-manylinux_2_1000"},
        {"platform": f"x86_64-manylinux_2_{'9' * 5000}"},
        {"python": f"system/3.{'9' * 5000}"},
        {"build": [f"a{number}" for number in range(101)]},
        {"patches": [{"file": "a", "sha256": "0" * 64}] * 101, "build": ["a"]},
        {"requirements": ["a; os_name ~= 'x'"]},
        {"constraints": ["a; 'x' in extras"]},
    ],
    ids=["glibc", "digits", "python", "build", "patches", "marker", "marker of a constraint"],
)
def test_number_or_list_without_end_is_refused(given: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        WheelsInput.model_validate({"python": "system", "requirements": ["a"], **given})
