"""Exit codes as docs/errors.md has them: of requests that are wrong as they are typed, and of those that lack something."""

from __future__ import annotations

import re
import shlex

import pytest

from tests.helpers.places import ROOT
from tests.helpers.sandbox import Sandbox

WRONG = """
nosuch
--nosuch
list --format xml
list --site /nosuch
build
build --nosuch
build nosuch/1.0
build 'two words'
lock
lock nosuch/1.0
fetch nosuch/1.0
copy nosuch/1.0
find
list nosuch/1.0
list 'two words'
diff one
rollback one
publish --remove
verify --all hello/1.0
build --again --no-publish hello/1.0
test -N 0 hello/1.0
test --nodes 'c[1'
test --nodes c1 --user root
audit
audit --nodes 'c[1'
audit --nodes '@nosuch'
audit --nodes c1 --check nosuch
audit --nodes c1 --via nosuch
audit --nodes c1 --baseline nosuch
audit --nodes c1 --baseline site.yaml --reference c1
adopt --nodes 'c[1-99999999]'
node-setup --nodes c1 --here
node-setup --apply
node-setup --undo
node-setup --undo --apply
export
export --to nosuch
sign
shell-init nosuch
init . --prefix /x
init new --prefix relative
check nosuch/1.0
"""

LACKING = """
build hello/1.0
rollback
rollback 7
publish --remove hello/1.0
diff
verify
test hello/1.0
job hello/1.0
audit --nodes c1 --output nosuch/file
adopt --nodes c1 --output nosuch/file
"""


@pytest.fixture(scope="module")
def box(tmp_path_factory: pytest.TempPathFactory) -> Sandbox:
    made = Sandbox(tmp_path_factory.mktemp("codes"), "")
    made.write_site()
    made.recipe("hello/1.0", ["hello"])
    return made


def code_of(box: Sandbox, line: str) -> tuple[int, str]:
    done = box.run(*shlex.split(line))
    found = re.search(r"error\[([a-z-]+)\]", done.stderr)
    return done.code, found[1] if found else ""


def pages_codes() -> dict[str, int]:
    rows = re.findall(r"^\| `([a-z-]+)` \| (\d+) \|", (ROOT / "docs/errors.md").read_text(), re.MULTILINE)
    return {reference: int(code) for reference, code in rows}


@pytest.mark.parametrize("line", WRONG.strip().splitlines())
def test_what_cannot_be_done_as_it_is_typed_ends_with_2(box: Sandbox, line: str) -> None:
    code, reference = code_of(box, line)
    assert (code, pages_codes().get(reference, 2)) == (2, 2), reference


@pytest.mark.parametrize("line", LACKING.strip().splitlines())
def test_what_lacks_something_ends_with_3(box: Sandbox, line: str) -> None:
    code, reference = code_of(box, line)
    assert (code, pages_codes().get(reference)) == (3, 3), reference


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("prefix: [", 2),
        ("prefix: relative", 2),
        ("prefix: /x\nnosuch: 1", 2),
        ("prefix: /x\ngroups: {g: {nodes: 'c[1'}}", 1),
        ("prefix: /x\nbuild_user: nosuch", 1),
        ("prefix: /x\npolicies: {group: nosuch}", 1),
    ],
)
def test_site_check_tells_a_site_that_cannot_be_read_from_one_with_faults(box: Sandbox, text: str, code: int) -> None:
    file = box.root / "other.yaml"
    file.write_text(f"{text}\n")
    assert box.run("check", "--site", str(file)).code == code


def test_users_and_groups_that_do_not_exist_are_one_kind_of_error(box: Sandbox) -> None:
    codes = pages_codes()
    assert {
        codes[each] for each in ("unknown-user", "unknown-group", "unknown-entry", "spec-invalid", "two-defaults")
    } == {2}
