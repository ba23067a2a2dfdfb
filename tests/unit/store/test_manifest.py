from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envmgr.catalog.names import Entry
from envmgr.errors import EnvmgrError
from envmgr.modules.spec import EnvOp
from envmgr.store.manifest import (
    InstallFacts,
    Manifest,
    make_manifest,
    read_manifest,
    read_provenance,
    remove_install,
    write_manifest,
)
from envmgr.store.prefix import Install, Prefix, recorded_digest
from envmgr.store.tree import TreePath, make_read_only
from envmgr.store.verify import differences
from envmgr.system.files import remove_tree, sha256_bytes

DIGEST = "ab" * 32
FACTS = InstallFacts(environment=(EnvOp(kind="prepend", name="PATH", value="/p/bin"),), python="3.12")


@pytest.fixture
def root(tmp_path: Path) -> Iterator[Path]:
    root = tmp_path / "install"
    (root / "bin").mkdir(parents=True)
    (root / "bin" / "tool").write_text("#!/bin/sh\n")
    (root / "bin" / "tool").chmod(0o755)
    (root / "data").write_text("data")
    (root / "link").symlink_to("data")
    make_read_only(root)
    yield root
    remove_tree(root)


def manifest_of(root: Path, mask: int = 0o022) -> Manifest:
    return make_manifest(root, DIGEST, FACTS, {"by": "tests", "ä": [1]}, mask=mask, workers=2)


def test_manifest_round_trips(root: Path, tmp_path: Path) -> None:
    manifest = manifest_of(root)
    write_manifest(tmp_path / "m.json", manifest)
    assert read_manifest(tmp_path / "m.json") == manifest
    assert stat.S_IMODE((tmp_path / "m.json").stat().st_mode) == 0o444


def test_manifest_has_one_path_per_line_and_the_digest_first(root: Path, tmp_path: Path) -> None:
    manifest = manifest_of(root)
    write_manifest(tmp_path / "m.json", manifest)
    head, *rows, end = (tmp_path / "m.json").read_text().splitlines()
    assert head.startswith(f'{{"digest": "{DIGEST}", "schema": 1, "tree": "{manifest.tree}", "mask": "022", "facts": ')
    assert head.endswith(', "provenance": {"by": "tests", "ä": [1]},')
    assert rows == [
        '"paths": [',
        '["bin", "dir", "0555", 0, ""],',
        f'["bin/tool", "file", "0555", 10, "{sha256_bytes(b"#!/bin/sh" + bytes([10]))}"],',
        f'["data", "file", "0444", 4, "{sha256_bytes(b"data")}"],',
        '["link", "link", "0777", 0, "data"]',
    ]
    assert end == "]}"
    assert manifest.size == 14


def test_manifest_of_an_empty_install_round_trips(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir(mode=0o555)
    manifest = make_manifest(tmp_path / "empty", DIGEST, InstallFacts(), {}, mask=0o022, workers=1)
    write_manifest(tmp_path / "m.json", manifest)
    assert read_manifest(tmp_path / "m.json") == manifest
    assert differences(tmp_path / "empty", manifest) == []


NAMES = st.text('ab\n\udcff\u2028"\\', min_size=1, max_size=6) | st.text(
    st.characters(exclude_characters="\0/", exclude_categories=["Cs"]), min_size=1, max_size=6
)


FILES = st.builds(TreePath, NAMES, st.just("file"), st.just(0o444), st.integers(0, 9), NAMES, st.just(""))


@given(st.lists(FILES, max_size=4))
def test_manifest_round_trips_with_every_name(tmp_path_factory: pytest.TempPathFactory, paths: list[TreePath]) -> None:
    file = tmp_path_factory.getbasetemp() / "round-trip.json"
    manifest = Manifest(DIGEST, "t" * 64, 0o027, FACTS, {}, tuple(paths))
    write_manifest(file, manifest)
    assert read_manifest(file) == manifest
    text = file.read_bytes().decode()  # valid UTF-8, whatever the names are
    assert len(text.split("\n")) == 4 + max(1, len(paths))
    assert recorded_digest(file) == DIGEST


def test_read_provenance_reads_only_the_head(root: Path, tmp_path: Path) -> None:
    path = tmp_path / "m.json"
    write_manifest(path, manifest_of(root))
    head = path.read_text().splitlines()[0]
    path.chmod(0o644)
    path.write_text(head + "\nthe rows are not read")
    assert read_provenance(path) == {"by": "tests", "ä": [1]}
    path.write_text(head.replace('"schema": 1', '"schema": 99') + "\n")
    with pytest.raises(EnvmgrError) as caught:
        read_provenance(path)
    assert caught.value.reference == "format-unknown"
    path.write_text(head[:-9])
    with pytest.raises(EnvmgrError) as caught:
        read_provenance(path)
    assert caught.value.reference == "manifest-damaged"


def test_recorded_digest_reads_only_the_head(root: Path, tmp_path: Path) -> None:
    write_manifest(tmp_path / "m.json", manifest_of(root))
    with (tmp_path / "m.json").open("rb") as file:
        head = file.read(100)
    (tmp_path / "cut.json").write_bytes(head + b"\xff\xff no JSON")
    assert recorded_digest(tmp_path / "cut.json") == DIGEST


@pytest.mark.parametrize("content", ["", "{}", '{"digest": "short"}', '{"schema": 1, "digest": "' + DIGEST + '"}'])
def test_recorded_digest_tells_a_damaged_manifest(tmp_path: Path, content: str) -> None:
    (tmp_path / "m.json").write_text(content)
    with pytest.raises(EnvmgrError) as caught:
        recorded_digest(tmp_path / "m.json")
    assert caught.value.render() == (
        f"error[manifest-damaged]: {tmp_path / 'm.json'} does not begin with a digest\n\nhint: remove it, and build again"
    )


def test_differences_is_empty_for_what_was_recorded(root: Path) -> None:
    assert differences(root, manifest_of(root)) == []


CHANGES: dict[str, tuple[Callable[[Path], object], list[str]]] = {
    "added": (lambda root: (root / "new").write_text("x"), ["new: not in the manifest"]),
    "added-folder": (
        lambda root: (root / "d" / "e").mkdir(parents=True),
        ["d: not in the manifest", "d/e: not in the manifest"],
    ),
    "missing": (lambda root: (root / "data").unlink(), ["data: missing"]),
    "content": (lambda root: write(root / "data", "DATA"), ["data: sha256 changed"]),
    "size": (lambda root: write(root / "data", "data+"), ["data: size, sha256 changed"]),
    "executable": (lambda root: (root / "data").chmod(0o555), ["data: mode changed"]),
    "writable": (lambda root: (root / "data").chmod(0o644), ["data: mode changed"]),
    "writable-by-all": (lambda root: (root / "bin").chmod(0o777), ["bin: mode changed"]),
    "setuid": (lambda root: (root / "bin" / "tool").chmod(0o4555), ["bin/tool: mode changed"]),
    "not-executable": (lambda root: (root / "bin" / "tool").chmod(0o444), ["bin/tool: mode changed"]),
    "target": (lambda root: link(root / "link", "bin"), ["link: target changed"]),
    "file-for-link": (
        lambda root: (root / "link").unlink() or write(root / "link", "data"),
        ["link: kind, mode, size, sha256, target changed"],
    ),
    "two": (
        lambda root: (root / "link").unlink() or write(root / "data", "DATA"),
        ["data: sha256 changed", "link: missing"],
    ),
    "odd-name": (lambda root: (root / os.fsdecode(b"a\n\xff")).write_text(""), [r"a\n\udcff: not in the manifest"]),
}


def write(path: Path, text: str) -> None:
    if path.exists():
        path.chmod(0o644)
    path.write_text(text)
    path.chmod(0o444)


def link(path: Path, target: str) -> None:
    path.unlink()
    path.symlink_to(target)


@pytest.mark.parametrize("change", CHANGES)
def test_differences_tells_what_changed(root: Path, change: str) -> None:
    manifest = manifest_of(root)
    root.chmod(0o755)
    act, lines = CHANGES[change]
    act(root)
    root.chmod(0o555)
    found = differences(root, manifest)
    assert found == lines


@pytest.mark.parametrize(
    ("mode", "mask", "told"),
    [
        (0o755, 0o022, [".: mode changed to 0755"]),
        (0o777, 0o022, [".: mode changed to 0777"]),
        (0o500, 0o022, [".: mode changed to 0500"]),
        (0o555, 0o027, [".: mode changed to 0555"]),
        (0o550, 0o027, []),
    ],
)
def test_differences_tells_the_mode_of_the_root_itself(root: Path, mode: int, mask: int, told: list[str]) -> None:
    """Who may write there can replace everything below it."""
    make_read_only(root, mask=mask)
    manifest = manifest_of(root, mask)
    root.chmod(mode)
    assert differences(root, manifest) == told


def test_differences_tells_a_missing_install(root: Path, tmp_path: Path) -> None:
    assert differences(tmp_path / "gone", manifest_of(root)) == [f"{tmp_path / 'gone'} is missing"]


@pytest.mark.parametrize("mask", [0o027, 0o077, 0o002])
def test_manifest_of_another_mask_has_the_same_tree_digest(root: Path, mask: int, tmp_path: Path) -> None:
    before = manifest_of(root)
    make_read_only(root, mask=mask)
    after = manifest_of(root, mask)
    assert (after.tree, after.paths, after.mask) == (before.tree, before.paths, mask)
    assert differences(root, after) == []
    write_manifest(tmp_path / "m.json", after)
    assert read_manifest(tmp_path / "m.json").mask == mask


@pytest.mark.parametrize(
    ("made", "told"),
    [
        ([], ()),
        ([{"path": "/var/tmp"}], ()),
        ([{"path": "/var/tmp"}, {"path": "/scratch/b"}, {"path": "/scratch/a"}], ("/scratch/a", "/scratch/b")),
        ([{"name": "without a path"}], ()),
        ([1, None, {"path": 2}], ("2",)),
        ("/scratch", ()),
    ],
)
def test_manifest_tells_where_its_install_was_built_if_not_where_all_are(
    root: Path, tmp_path: Path, made: Any, told: tuple[str, ...]
) -> None:
    write_manifest(tmp_path / "m.json", make_manifest(root, DIGEST, FACTS, {"made": made}, mask=0o022, workers=1))
    assert read_manifest(tmp_path / "m.json").made_at == told


DAMAGED = {
    "empty": lambda _: "",
    "cut": lambda text: text[: len(text) // 2],
    "not-utf-8": lambda text: text.encode() + b"\xff",
    "list": lambda _: "[]",
    "no-tree": lambda text: text.replace('"tree"', '"three"'),
    "bad-mask": lambda text: text.replace('"mask": "022"', '"mask": "9"'),
    "number-mask": lambda text: text.replace('"mask": "022"', '"mask": 18'),
    "bad-facts": lambda text: text.replace('"python": "3.12"', '"python": 3'),
    "unknown-fact": lambda text: text.replace('"python": "3.12"', '"perl": "5"'),
    "bad-row": lambda text: text.replace('["bin", "dir", "0555", 0, ""]', '["bin", "dir"]'),
    "row-is-null": lambda text: text.replace('["bin", "dir", "0555", 0, ""]', "null"),
    "bad-mode": lambda text: text.replace('["bin", "dir", "0555"', '["bin", "dir", "rwx"'),
    "provenance-is-a-word": lambda text: json.dumps({**json.loads(text), "provenance": "x"}),
    "paths-is-null": lambda text: json.dumps({**json.loads(text), "paths": None}),
}


@pytest.mark.parametrize("damage", DAMAGED)
def test_read_manifest_tells_a_damaged_file(root: Path, tmp_path: Path, damage: str) -> None:
    path = tmp_path / "m.json"
    write_manifest(path, manifest_of(root))
    text = path.read_text()
    new = DAMAGED[damage](text)
    path.chmod(0o644)
    path.write_bytes(new if isinstance(new, bytes) else new.encode())
    assert path.read_bytes() != text.encode()
    with pytest.raises(EnvmgrError) as caught:
        read_manifest(path)
    assert caught.value.reference == "manifest-damaged"
    assert caught.value.message == f"{path} cannot be read"
    assert caught.value.context


def test_read_manifest_tells_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(EnvmgrError, match="manifest-damaged") as caught:
        read_manifest(tmp_path / "m.json")
    assert caught.value.context == (f"[Errno 2] No such file or directory: '{tmp_path / 'm.json'}'",)


@pytest.mark.parametrize("extra", [{}, {"a/b": "cd" * 32}])
def test_read_manifest_knows_its_extra_files(tmp_path: Path, extra: dict[str, str]) -> None:
    write_manifest(tmp_path / "m.json", Manifest("0" * 64, "1" * 64, 0o022, InstallFacts(), {}, (), extra))
    assert read_manifest(tmp_path / "m.json").extra == extra


@pytest.mark.parametrize("path", ["/etc/passwd", "../other", "a/../../b"])
def test_read_manifest_refuses_extra_files_outside_of_the_prefix(tmp_path: Path, path: str) -> None:
    """They are removed with the install."""
    manifest = tmp_path / "1.0-01234567.manifest.json"
    write_manifest(manifest, Manifest("0" * 64, "1" * 64, 0o022, InstallFacts(), {}, (), {path: "2" * 64}))
    with pytest.raises(EnvmgrError) as caught:
        read_manifest(manifest)
    assert (caught.value.reference, caught.value.context) == (
        "manifest-damaged",
        (f"extra: {path} does not lie below the prefix",),
    )


def test_remove_install_takes_its_extra_files_along(tmp_path: Path) -> None:
    install = Install(Prefix(tmp_path), Entry("toy", "1.0"), "0" * 64)
    (install.path / "bin").mkdir(parents=True)
    extra, other = tmp_path / "own" / "toy.lua", tmp_path / "own" / "other.lua"
    extra.parent.mkdir()
    extra.touch()
    other.touch()
    manifest = Manifest(install.digest, "1" * 64, 0o022, InstallFacts(), {}, (), {"own/toy.lua": "2" * 64, "gone": ""})
    write_manifest(install.manifest, manifest)
    remove_install(install)
    assert [p.exists() for p in (install.path, install.manifest, extra, other)] == [False, False, False, True]
