"""What an audit copies of the prefix, as root: no link is followed, no pipe waited for, and nothing written beside the copy."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from envmgr.audit.ask.expected_generation import read_published
from envmgr.errors import EnvmgrError
from envmgr.store.prefix import Prefix
from envmgr.system.run import Runner
from tests.helpers.waiting import HANGS


@pytest.fixture
def prefix(tmp_path: Path) -> Prefix:
    folder = tmp_path / "prefix/generations/0001"
    folder.mkdir(parents=True)
    (folder / "modules.json").write_text("{}")
    (tmp_path / "prefix/current").symlink_to("generations/0001")
    return Prefix(tmp_path / "prefix")


def refusal(prefix: Prefix) -> str:
    with pytest.raises(EnvmgrError) as caught:
        read_published(prefix, Runner(), HANGS)
    return caught.value.render()


def test_record_that_is_a_link_is_not_followed(prefix: Prefix, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text('{"token": "a secret"}')
    (prefix.generation(1) / "generation.json").symlink_to(secret)
    told = refusal(prefix)
    assert told.startswith(f"error[generation-damaged]: {prefix.generation(1)}/generation.json cannot be read\n")
    assert "is a link, and no regular file" in told
    assert "a secret" not in told


def test_record_that_is_a_pipe_is_not_waited_for(prefix: Prefix) -> None:
    os.mkfifo(prefix.generation(1) / "generation.json")
    assert refusal(prefix).startswith(f"error[current-damaged]: {prefix.current} names no complete generation\n")


def test_link_elsewhere_writes_nothing_there(prefix: Prefix, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Seen from the copy, the same way may lead into another folder of this host."""
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(scratch))
    planted = tmp_path / "planted"
    planted.mkdir()
    for name in ("generation.json", "modules.json"):
        (planted / name).write_text("{}")
    for target in ("../planted", "generations/../../planted", str(planted), "generations/", "planted"):
        prefix.current.unlink()
        prefix.current.symlink_to(target)
        before = sorted(tmp_path.rglob("*"))
        read = refusal(prefix)
        assert "error[current-damaged]" in read, read
        assert f"it points to {target.rstrip('/')}" in read
        assert [path for path in sorted(tmp_path.rglob("*")) if path not in before] == []
