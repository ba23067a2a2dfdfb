"""What a verification asks of nodes: the listing by the node's own programs is the one that we make, and differences have words."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from envmgr.audit import hashing
from envmgr.audit.hashing import Place, _in_words
from envmgr.store.tree import make_read_only, scan_tree
from envmgr.system.shelltext import script_text

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
        (["f 1  a", "m 777 a", "\tf 2  a", "\tm 444 a"], ["a: mode, sha256 changed"]),
        (["f 1  a b", "m 444 a b"], ["a b: not among what it must have"]),
        (["\tf 1  a", "\\x09m 444 a"], ["a: missing"]),
        (["l a x", "\tl a y"], ["a: target changed"]),
        (["d 777 .", "\td 555 ."], [".: mode changed"]),
        (["p 444 a", "\tf 1  a", "\tm 444 a"], ["a: kind changed"]),
        ([], []),
    ],
)
def test_differences_have_words(lines: list[str], words: list[str]) -> None:
    assert list(_in_words(lines)) == words
