"""What a verification asks of nodes: the listing by the node's own programs is the one that we make, and differences have words."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from envmgr.audit import hashing
from envmgr.audit.hashing import _TRY, HashOnNodes, Place, _in_words
from envmgr.nodes import Reply
from envmgr.probe.shell import read_lines
from envmgr.report import SilentReporter
from envmgr.store.tree import make_read_only, scan_tree
from envmgr.system.files import sha256_bytes
from envmgr.system.run import Runner
from envmgr.system.shelltext import assign, script_text
from tests.helpers.evidence import site
from tests.helpers.open_folders import open_to_all

ODD = ["a b", "back\\slash", "new\nline", os.fsdecode(b"\xff"), "-n", "'quote'", "*"]


def listed(folder: Path) -> list[bytes]:
    done = subprocess.run(
        ["/bin/sh", "-c", script_text(hashing.__file__, "list.sh"), "sh", str(folder)], capture_output=True, check=True
    )
    return done.stdout.split(b"\0")[:-1]


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    root = tmp_path / "tree"
    (root / "sub").mkdir(parents=True)
    (root / "empty").mkdir()
    for name in ODD:
        (root / "sub" / name).write_text(name.encode(errors="surrogateescape").hex())
    (root / "program").write_text("#!/bin/sh\n")
    (root / "program").chmod(0o755)
    (root / "link").symlink_to("sub/a b")
    make_read_only(root)
    return root


def test_a_node_s_listing_is_ours(tree: Path) -> None:
    assert listed(tree) == Place(str(tree), 0o555, scan_tree(tree)).listing()


def test_a_pipe_is_listed_and_not_read(tree: Path) -> None:
    tree.chmod(0o755)
    os.mkfifo(tree / "pipe", 0o444)
    assert b"p 444 pipe" in listed(tree)


def test_a_link_in_its_place_is_not_followed(tree: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tree)
    assert listed(tmp_path / "link") == [b"l 777 ."]


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        (["f 1  a", "\tf 2  a"], ["a: sha256 changed"]),
        (read_lines(["@k|f 1  a", "@k|\tf 2  a"])["k"].splitlines(), ["a: sha256 changed"]),
        (["f 1  a", "m 777 a", "\tf 2  a", "\tm 444 a"], ["a: mode, sha256 changed"]),
        (["f 1  a b", "m 444 a b"], ["a b: not among what it must have"]),
        (["\tf 1  a", "\\x09m 444 a"], ["a: missing"]),
        (["l a x", "\tl a y"], ["a: target changed"]),
        (["d 777 .", "\td 555 ."], [".: mode changed"]),
        (["p 444 a", "\tf 1  a", "\tm 444 a"], ["a: kind changed"]),
        (["! a", "\tf 1  a"], ["a: cannot be read"]),
        (["! a", "m 0 a", "\tf 1  a", "\tm 444 a"], ["a: cannot be read"]),
        (
            ["! sub", "d 0 sub", "\td 555 sub", "\tf 1  sub/a", "\tm 444 sub/a", "\tf 1  b", "\tm 444 b"],
            ["b: missing", "sub: cannot be read"],
        ),
        (["! .", "\tf 1  sub/a"], [".: cannot be read"]),
        ([], []),
    ],
)
def test_differences_have_words(lines: list[str], words: list[str]) -> None:
    assert list(_in_words(lines)) == words


@pytest.mark.skipif(os.geteuid() != 0, reason="root alone can become another user")
def test_what_cannot_be_read_is_told_as_that(tree: Path, tmp_path: Path) -> None:
    """A node's own user, without rights on some of it: no file of these is missing, or of another kind."""
    open_to_all(tmp_path)
    place = Place(str(tree), 0o555, scan_tree(tree))
    (tree / "program").chmod(0)
    (tree / "sub").chmod(0)
    script = script_text(hashing.__file__, "list.sh")
    argv = [
        "setpriv",
        "--reuid",
        "65534",
        "--regid",
        "65534",
        "--clear-groups",
        "/bin/sh",
        "-c",
        script,
        "sh",
        str(tree),
    ]
    have = {line for line in subprocess.run(argv, capture_output=True, check=True).stdout.split(b"\0") if line}
    want = set(place.listing())
    only = [*map(os.fsdecode, sorted(have - want)), *(f"\t{os.fsdecode(line)}" for line in sorted(want - have))]
    assert list(_in_words(only)) == ["program: cannot be read", "sub: cannot be read"]


def test_file_is_a_place_too(tmp_path: Path) -> None:
    file = tmp_path / "a-1.manifest.json"
    file.write_text("{}\n")
    file.chmod(0o444)
    place = Place(str(file), 0o444, sha256=sha256_bytes(b"{}\n"))
    assert listed(file) == place.listing()
    file.chmod(0o644)
    file.write_text("{} \n")
    assert len(set(place.listing()) - set(listed(file))) == 2


def answer(tmp_path: Path, *places: Place, before: str = "") -> dict[str, str]:
    """What the node's text says of places, in this machine's shell behind `before`."""
    library = "put() { printf '@%s=%s\\n' \"$1\" \"$2\"; }\nlines() { cat >/dev/null; }\nsum() { sha256sum | cut -d' ' -f1; }\n"
    listing = script_text(hashing.__file__, "list.sh")
    given = assign(build_user="", verify_end=60, verify_most=40, verify_try=_TRY, verify_list=listing)
    chosen = " ".join(f"{n} {place.folder}" for n, place in enumerate(places))
    script = tmp_path / "verify.sh"
    script.write_text(f"{library}{given}{before}\nset -- {chosen}\n{script_text(hashing.__file__, 'node.sh')}")
    said = subprocess.run(["/bin/sh", script], capture_output=True, text=True, check=True).stdout
    return dict(line.removeprefix("@").split("=", 1) for line in said.splitlines())


def test_node_that_cannot_hash_says_so_and_compares_nothing(tree: Path, tmp_path: Path) -> None:
    place = Place(str(tree), 0o555, scan_tree(tree))
    well = answer(tmp_path, place)
    assert well == {"verify.sum.0": sha256_bytes(b"".join(record + b"\0" for record in place.listing()))}
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/sha256sum").write_text("#!/bin/sh\necho 'sha256sum: cannot load libcrypto' >&2\nexit 127\n")
    (tmp_path / "bin/sha256sum").chmod(0o755)
    subprocess.run(["rm", "-r", tmp_path / "verify.sh.try"], check=True)
    ill = answer(tmp_path, place, before=f"PATH={tmp_path}/bin:$PATH; export PATH")
    assert ill == {"verify.unable": "sha256sum: cannot load libcrypto"}


class Counting(SilentReporter):
    """Keeps the counts of progress."""

    def __init__(self) -> None:
        self.counts: list[float] = []

    @contextmanager
    def stage(self, label: str, *, total: float | None = None, unit: str = "") -> Iterator[Any]:
        with super().stage(label, total=total, unit=unit):
            yield SimpleNamespace(update=lambda count, **_: self.counts.append(count))


def test_progress_counts_each_reply_once_and_silent_nodes_are_not_verified(monkeypatch: pytest.MonkeyPatch) -> None:
    replies = [
        Reply("c1", "answered", "@gate=ok\n", "", 0, 1),
        Reply("c2", "unreachable", "", "no route", 0, 1),
        Reply("c3", "answered", "@gate=hung\n", "", 0, 1),
        Reply("c4", "answered", "@gate=ok\n@verify.unable=sha256sum: not found\n", "", 0, 1),
    ]
    monkeypatch.setattr(hashing, "ask_nodes", lambda *_, on_reply, **__: [on_reply(reply) for reply in replies])
    reporter = Counting()
    asking = HashOnNodes(site(), Runner(), reporter, "ssh", 60)
    faults = asking.ask(["c1", "c2", "c3", "c4"], [])
    assert reporter.counts == [1, 2, 3, 4]
    assert asking.unseen == {"c2", "c3", "c4"}
    assert [(fault.node, fault.found) for fault in faults] == [
        ("c2", "unreachable: no route"),
        ("c3", "the prefix does not answer"),
        ("c4", "could not look: sha256sum: not found"),
    ]
