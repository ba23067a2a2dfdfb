"""What a verification asks of nodes: the listing by the node's own programs is the one that we make, and differences have words."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from envmgr.nodes.envelope import Reply
from envmgr.probe import hashing
from envmgr.probe.hashing import HashedFolder, HashOnNodes, _in_words
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
    assert listed(tree) == HashedFolder(str(tree), 0o555, scan_tree(tree)).listing()


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
        (["\tf 1  a"], ["a: could not be hashed"]),  # its mode is ours: it is there
        (["m 777 a", "\tf 1  a", "\tm 444 a"], ["a: mode changed, could not be hashed"]),
        (
            ["!! .", "m 777 b", "f 2  c", "\tf 1  a", "\tf 1  b", "\tm 444 b", "\tf 1  c", "\tf 1  d", "\tm 444 d"],
            [".: could not be hashed", "b: mode changed", "c: sha256 changed"],
        ),
        (["f 1  a", "\tf 2  a", "+ 3"], ["a: sha256 changed", "and 3 more paths"]),
        (["f 1  a", "\tf 2  a", "+ many"], ["a: sha256 changed"]),
        (["f 1  a", "\tf 2  a", f"+ {'9' * 5000}"], ["a: sha256 changed"]),
        (["l 777 .", "\td 555 ."], [".: kind changed"]),
        ([], []),
    ],
)
def test_differences_have_words(lines: list[str], words: list[str]) -> None:
    assert list(_in_words(lines)) == words


@pytest.mark.skipif(os.geteuid() != 0, reason="root alone can become another user")
def test_what_cannot_be_read_is_told_as_that(tree: Path, tmp_path: Path) -> None:
    """A node's own user, without rights on some of it: no file of these is missing, or of another kind."""
    open_to_all(tmp_path)
    place = HashedFolder(str(tree), 0o555, scan_tree(tree))
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
    place = HashedFolder(str(file), 0o444, sha256=sha256_bytes(b"{}\n"))
    assert listed(file) == place.listing()
    file.chmod(0o644)
    file.write_text("{} \n")
    assert len(set(place.listing()) - set(listed(file))) == 2


def answer(tmp_path: Path, *places: HashedFolder, before: str = "") -> dict[str, str]:
    """What the node's text says of places, in this machine's shell behind `before`."""
    library = "put() { printf '@%s=%s\\n' \"$1\" \"$2\"; }\nlines() { cat >/dev/null; }\nsum() { sha256sum | cut -d' ' -f1; }\n"
    listing = script_text(hashing.__file__, "list.sh")
    given = assign(build_user="", verify_end=60, verify_most=40, verify_list=listing)
    chosen = " ".join(f"{n} {place.folder}" for n, place in enumerate(places))
    script = tmp_path / "verify.sh"
    script.write_text(f"{library}{given}{before}\nset -- {chosen}\n{script_text(hashing.__file__, 'node.sh')}")
    said = subprocess.run(["/bin/sh", script], capture_output=True, text=True, check=True).stdout
    return dict(line.removeprefix("@").split("=", 1) for line in said.splitlines())


def test_node_that_cannot_hash_says_so_and_compares_nothing(tree: Path, tmp_path: Path) -> None:
    place = HashedFolder(str(tree), 0o555, scan_tree(tree))
    well = answer(tmp_path, place)
    assert well == {"verify.sum.0": sha256_bytes(b"".join(record + b"\0" for record in place.listing()))}
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/sha256sum").write_text("#!/bin/sh\necho 'sha256sum: cannot load libcrypto' >&2\nexit 127\n")
    (tmp_path / "bin/sha256sum").chmod(0o755)
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


def asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: HashedFolder, *, before: str = ""
) -> tuple[list[str], set[str]]:
    """What is found in a place, by the whole script of a node in this machine's shell behind `before`; and the nodes that told not all."""
    (tmp_path / "generations/0001/modules").mkdir(parents=True)
    (tmp_path / "generations/0001/generation.json").write_text("{}")
    (tmp_path / "current").symlink_to("generations/0001")

    def run(nodes: list[str], script: str, *, on_reply: Callable[[Reply], None], **_: Any) -> None:
        text = script.replace("\nverify_mine() {", f"\n{before}\nverify_mine() {{", 1)
        assert before in text
        (tmp_path / "script").write_text(text)
        done = subprocess.run(["/bin/sh", tmp_path / "script"], capture_output=True, text=True, check=True)
        on_reply(Reply(nodes[0], "answered", done.stdout, "", 0, 1))

    monkeypatch.setattr(hashing, "ask_nodes", run)
    where = site().model_copy(update={"prefix": tmp_path})
    asking = HashOnNodes(where, Runner(), SilentReporter(), "ssh", 60)
    faults = asking.ask(["c1"], [place])
    assert {fault.folder for fault in faults} <= {place.folder, ""}
    return [fault.found for fault in faults], asking.unseen


def store_of(tmp_path: Path, files: int) -> tuple[Path, HashedFolder]:
    store = tmp_path / "store"
    (store / "d").mkdir(parents=True)
    for n in range(files):
        (store / f"d/f{n:02d}").write_text(f"{n}\n")
    make_read_only(store)
    return store, HashedFolder(str(store), 0o555, scan_tree(store))


def test_what_one_node_tells_is_cut_by_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two records belong to a changed file: neither is told without the other."""
    store, place = store_of(tmp_path, 60)
    for path in (store / "d").iterdir():
        path.chmod(0o644)
        path.write_text("other")
    (store / "d/f00").chmod(0o444)
    found, unseen = asked(tmp_path, monkeypatch, place)
    told = [line.partition(": ")[2] for line in found[:-1]]
    assert len(told) == 40
    assert set(told) <= {"mode, sha256 changed", "sha256 changed"}
    assert found[-1] == "and 20 more paths"
    assert unseen == set()


def test_files_with_another_mode_are_not_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store, place = store_of(tmp_path, 41)
    for path in (store / "d").iterdir():
        path.chmod(0o644)
    found, _ = asked(tmp_path, monkeypatch, place)
    assert found == [*(f"d/f{n:02d}: mode changed" for n in range(40)), "and 1 more path"]


IN_THE_STORE = "case $PWD in */store) kill -9 $$ ;; esac"


@pytest.mark.parametrize(
    ("program", "when"),
    [("sha256sum", IN_THE_STORE), ("find", IN_THE_STORE), ("xargs", IN_THE_STORE), ("sort", "kill -9 $$")],
)
def test_program_that_is_killed_makes_no_file_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: str, when: str
) -> None:
    store, place = store_of(tmp_path, 60)
    (store / "d/f00").chmod(0o644)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / program).write_text(f'#!/bin/sh\n{when}\nexec /usr/bin/{program} "$@"\n')
    (tmp_path / "bin" / program).chmod(0o755)
    found, unseen = asked(tmp_path, monkeypatch, place, before=f"PATH={tmp_path}/bin:$PATH; export PATH")
    assert found[0] == ".: could not be hashed"
    assert not [line for line in found if "missing" in line]
    assert unseen == {"c1"}


def test_shell_that_is_killed_makes_no_file_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By its memory, for example: what it had told is not all."""
    _, place = store_of(tmp_path, 3)
    dies = """verify_list='case $1 in */store) kill -9 $$ ;; esac
'"$verify_list\""""
    found, unseen = asked(tmp_path, monkeypatch, place, before=dies)
    assert (found, unseen) == ([".: could not be hashed"], {"c1"})


def test_place_that_was_not_well_at_the_first_look_alone_is_not_verified(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, place = store_of(tmp_path, 3)
    once = f"""[ -e {tmp_path}/asked ] || verify_list='case $1 in */store) exit 1 ;; esac
'"$verify_list"; touch {tmp_path}/asked"""
    found, unseen = asked(tmp_path, monkeypatch, place, before=once)
    assert found == [
        "it differed, and did not when it was looked at again: does it change, or are programs killed there?"
    ]
    assert unseen == {"c1"}


def test_node_that_can_hash_no_more_when_it_is_asked_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store, place = store_of(tmp_path, 3)
    (store / "d/f00").chmod(0o644)
    gone = f"[ ! -e {tmp_path}/asked ] || sha256sum() {{ echo broken; return 1; }}; touch {tmp_path}/asked"
    found, unseen = asked(tmp_path, monkeypatch, place, before=gone)
    assert found == ["could not look: broken"]
    assert unseen == {"c1"}
