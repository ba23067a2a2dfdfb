"""What packages say is written anew, or refused, before any of it gets into a file or a command line."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from envmgr.errors import InputError
from envmgr.system.run import Runner
from envmgr.system.users import find_account
from envmgr.wheels.index import IndexPlace
from envmgr.wheels.metadata import Metadata, read_metadata
from envmgr.wheels.requirements import Question
from envmgr.wheels.uv import compile_requirements
from tests.helpers.open_folders import open_to_all

WANTED = Question(requirements=("one",), indexes=("x",), platform="x86_64-manylinux_2_28")
PLACES = [IndexPlace("x", "http://127.0.0.1:1")]
HOSTILE = [
    "one\n--extra-index-url http://127.0.0.1:1/simple",
    "one\u2028--index-url http://127.0.0.1:1",
    "-r /etc/shadow",
    "one @ http://127.0.0.1:1/one.whl",
    "/etc/shadow",
    'one; os_name == "${HOME}"',
    'one; os_name == "\n-r /etc/shadow\n"',
    "",
    "one" * 200_000,
]


@pytest.mark.parametrize("row", HOSTILE)
def test_row_that_is_no_plain_requirement_gets_into_no_file_of_uv(row: str, tmp_path: Path) -> None:
    """Whoever asks the one function that writes them."""
    for asked, limits in (((row,), ()), (("one",), (row,))):
        wanted = WANTED.model_copy(update={"requirements": asked, "constraints": limits})
        with pytest.raises(InputError) as caught:
            compile_requirements(wanted, "3.11", PLACES, Runner(), tmp_path)
        assert caught.value.reference == "requirement-invalid"
        assert caught.value.message.isprintable()
        assert len(caught.value.message) < 1000


@pytest.mark.parametrize(
    ("head", "told"),
    [
        ("Name: one\nVersion: 1.0 --x\n", "`1.0 --x` is no version"),
        ("Name: one\n", "`None` is no version"),
        ("Name: ../one\nVersion: 1\n", "`../one` is no name"),
        ("Name: one\nVersion: 1\nRequires-Dist: two\n\t--index-url http://x\n", "is no requirement"),
        ("Name: one\nVersion: 1\nRequires-Dist: two @ http://x\n", "names a place"),
        ("Name: one\nVersion: 1\nProvides-Extra: a b\n", "`a b` is no name"),
    ],
)
def test_metadata_that_is_refused(head: str, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        read_metadata(f"Metadata-Version: 2.1\n{head}")


def test_metadata_is_written_anew() -> None:
    text = "Metadata-Version: 2.4\nName: Dep_One\nVersion: 1.0-1\nX: y\nProvides-Extra: Q_A\nRequires-Dist: two>1 ;extra=='Q_A'\n\nwords"
    found = read_metadata(text)
    assert found.text == (
        "Metadata-Version: 2.1\nName: dep-one\nVersion: 1.0.post1\nProvides-Extra: q-a\n"
        'Requires-Dist: two>1; extra == "q-a"\n'
    )
    assert read_metadata(found.text) == found
    assert found == Metadata(name="dep-one", version="1.0.post1", requires=('two>1; extra == "q-a"',), extras=("q-a",))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")
def test_uv_of_root_runs_as_the_other_user_who_writes_its_cache_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the login that root's `.netrc` has."""
    open_to_all(tmp_path)
    account = find_account("nobody")
    assert account is not None
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login root password secret\n")
    (tmp_path / "netrc").chmod(0o600)
    program = tmp_path / "uv"
    monkeypatch.setattr("uv.find_uv_bin", lambda: str(program))
    program.write_text(
        '#!/bin/sh\nid -u\necho "$HOME $UV_INDEX_X_USERNAME $UV_INDEX_X_PASSWORD"\ncat requirements.in\ncat netrc\n'
        "echo x >requirements.in\necho x >constraints.in\necho x >new\necho x >cache/new\nls cache\n"
    )
    program.chmod(0o755)
    before = os.umask(0o077)
    try:
        environ = {"NETRC": str(tmp_path / "netrc")}
        found = compile_requirements(WANTED, "3.11", PLACES, Runner(), tmp_path, account=account, environ=environ)
    finally:
        os.umask(before)
    assert found.splitlines() == [str(account.uid), f"{account.home} root secret", "one", "new"]
    assert (tmp_path / "requirements.in").read_text() == "one\n"
