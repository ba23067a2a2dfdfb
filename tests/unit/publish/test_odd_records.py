"""Records and history in whose place something else lies: told, and not waited for."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from envmgr.errors import EnvmgrError, InputError
from envmgr.publish.flips import flip, flips
from envmgr.publish.records import RECORD, SPECS, read_record, read_specs
from envmgr.store.jobtable import read_build_row
from envmgr.store.manifest import read_manifest
from envmgr.store.node_facts import facts_file, read_node_facts
from envmgr.store.prefix import Prefix, recorded_digest
from tests.helpers.kept_reporter import Told

SECRET = '{"digest": "a secret", "to": 1}\n'


def pipe(path: Path) -> None:
    os.mkfifo(path)


def link(path: Path) -> None:
    secret = path.parents[2] / "secret"
    secret.write_text(SECRET)
    path.symlink_to(secret)


@pytest.fixture
def prefix(tmp_path: Path) -> Prefix:
    for folder in ("generations/0001", "var/audit", "store/x"):
        (tmp_path / "prefix" / folder).mkdir(parents=True)
    return Prefix(tmp_path / "prefix")


def complete(prefix: Prefix) -> None:
    (prefix.generation(1) / RECORD).write_text("{}")


@pytest.mark.parametrize("make", [pipe, link])
def test_what_is_no_regular_file_of_the_prefix_is_an_error(prefix: Prefix, make: Callable[[Path], None]) -> None:
    manifest = prefix.store / "x/1-01234567.manifest.json"
    for path, read, reference in (
        (prefix.generation(1) / RECORD, lambda: read_record(prefix, 1), "generation-damaged"),
        (prefix.generation(1) / SPECS, lambda: read_specs(prefix, 1), "generation-damaged"),
        (manifest, lambda: read_manifest(manifest), "manifest-damaged"),
        (manifest, lambda: recorded_digest(manifest), "manifest-damaged"),
        (facts_file(prefix), lambda: read_node_facts(prefix), "node-facts-damaged"),
        (prefix.history, lambda: flips(prefix), "file-irregular"),
    ):
        make(path)
        with pytest.raises(EnvmgrError) as caught:
            read()
        assert caught.value.reference == reference
        assert "no regular file" in caught.value.render()
        assert "a secret" not in caught.value.render()
        path.unlink()


def test_a_row_that_is_a_pipe_is_as_one_that_cannot_be_read(prefix: Prefix) -> None:
    os.mkfifo(prefix.root / "row.json")
    assert read_build_row(prefix.root / "row.json") is None


def test_a_flip_is_done_also_where_the_disk_does_not_confirm_it(
    prefix: Prefix, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = Told()
    before = os.fsync

    def fails(descriptor: int) -> None:
        if prefix.current.is_symlink():
            raise OSError(5, "Input/output error")
        before(descriptor)

    monkeypatch.setattr(os, "fsync", fails)
    complete(prefix)
    flip(prefix, 1, None, "for a test", told, action="publish", signer=None)
    assert prefix.current.readlink() == Path("generations/0001")
    assert told.said[0] == (
        "warning: generation 1 is current; that it stays so after a crash of the host could not be made sure: Input/output error"
    )
    assert [each["to"] for each in flips(prefix)] == [1]


@pytest.mark.parametrize("make", [pipe, link])
def test_a_flip_is_done_also_where_it_cannot_be_written_down(prefix: Prefix, make: Callable[[Path], None]) -> None:
    make(prefix.history)
    told = Told()
    complete(prefix)
    flip(prefix, 1, None, "for a test", told, action="publish", signer=None)
    assert prefix.current.readlink() == Path("generations/0001")
    assert "could not be written" in told.said[0]
    if make is link:
        assert prefix.history.read_text() == SECRET
    with pytest.raises(InputError):
        flips(prefix)
