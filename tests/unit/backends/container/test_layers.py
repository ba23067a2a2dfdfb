"""Layers, merged as a runtime would lay them over each other."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Sequence

import pytest

from envmgr.backends.container.layers import Tree, write_tree
from tests.helpers.registry import Layer, files


def merged(*layers: Layer) -> tuple[dict[str, tarfile.TarInfo], dict[str, bytes], Tree]:
    """The headers and contents of the tar that the layers become."""
    opened = []
    tree = Tree()
    for number, layer in enumerate(layers):
        out = io.BytesIO()
        with tarfile.open(fileobj=out, mode="w") as archive:
            layer(archive)
        out.seek(0)
        opened.append(tarfile.open(fileobj=out, mode="r:"))  # noqa: SIM115
        tree.add_layer(number, opened[-1].getmembers())
    out = io.BytesIO()
    write_tree(tree, opened, out)
    out.seek(0)
    with tarfile.open(fileobj=out) as archive:
        infos = {info.name: info for info in archive}
        content = {n: archive.extractfile(i).read() for n, i in infos.items() if i.isreg() or i.islnk()}  # type: ignore[union-attr]
    return infos, content, tree


def both(*layers: Layer) -> Layer:
    def add(archive: tarfile.TarFile) -> None:
        for layer in layers:
            layer(archive)

    return add


def hard(path: str, target: str) -> Layer:
    def add(archive: tarfile.TarFile) -> None:
        info = tarfile.TarInfo(path)
        info.type, info.linkname = tarfile.LNKTYPE, target
        archive.addfile(info)

    return add


def special(path: str, kind: bytes) -> Layer:
    def add(archive: tarfile.TarFile) -> None:
        info = tarfile.TarInfo(path)
        info.type = kind
        archive.addfile(info)

    return add


def test_upper_layer_wins_and_whiteouts_remove() -> None:
    lower = files({"a": None, "a/one": b"1", "a/two": b"2", "b": None, "b/x": b"x", "c": b"c"})
    upper = files({"a/one": b"11", "a/.wh.two": b"", "b/.wh..wh..opq": b"", "b/y": b"y", ".wh.c": b""})
    infos, content, _ = merged(lower, upper)
    assert content == {"a/one": b"11", "b/y": b"y"}
    assert [*infos] == ["a", "b", "a/one", "b/y"]


def test_whiteout_does_not_remove_what_its_own_layer_brings() -> None:
    """Its order in the layer does not count."""
    _, content, _ = merged(
        files({"d": None, "d/old": b"o"}), files({"d/new": b"n", "d/.wh..wh..opq": b"", "d/.wh.new": b""})
    )
    assert content == {"d/new": b"n"}


def test_file_takes_the_place_of_a_folder_and_a_folder_that_of_a_file() -> None:
    infos, content, _ = merged(files({"p": None, "p/q": b"q", "r": b"r"}), files({"p": b"p", "r": None, "r/s": b"s"}))
    assert content == {"p": b"p", "r/s": b"s"}
    assert infos["r"].isdir()


def test_paths_go_through_links_of_lower_layers_and_stay_inside() -> None:
    """Debian's /bin is a link to usr/bin."""
    lower = files({"usr": None, "usr/bin": None, "bin": "usr/bin", "up": "../../usr", "abs": "/usr", "loop": "loop"})
    _, content, tree = merged(lower, files({"bin/tool": b"t", "up/u": b"u", "abs/bin/v": b"v", "loop/w": b"w"}))
    assert content == {"usr/bin/tool": b"t", "usr/u": b"u", "usr/bin/v": b"v"}
    assert tree.dropped == [("loop/w", "its folder is no folder")]


@pytest.mark.parametrize("path", ["../escape", "a/../../escape"])
def test_path_that_leads_out_is_dropped_and_told(path: str) -> None:
    _, content, tree = merged(files({path: b"x", "/abs": b"a"}))
    assert content == {"abs": b"a"}
    assert tree.dropped == [(path, "its path leads out of the image")]


def test_hard_link_keeps_the_content_of_its_time() -> None:
    lower = both(files({"f": b"old"}), hard("g", "f"))
    _, content, _ = merged(lower, files({"f": b"new"}))
    assert content == {"f": b"new", "g": b"old"}
    _, content, _ = merged(files({"f": b"low"}), hard("h", "/f"))
    assert content == {"f": b"low", "h": b"low"}
    infos, content, _ = merged(files({"b": b"x", "c": b"x"}), hard("a", "b"))
    assert (infos["b"].linkname, infos["c"].isreg(), content) == ("a", True, {"a": b"x", "b": b"x", "c": b"x"})


def test_hard_link_to_nothing_is_told() -> None:
    _, content, tree = merged(hard("g", "f"))
    assert content == {}
    assert tree.dropped == [("g", "a hard link to f, which is not there")]


@pytest.mark.parametrize("kind", [tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE])
def test_devices_and_pipes_are_left_out(kind: bytes) -> None:
    infos, _, tree = merged(special("dev/x", kind))
    assert "dev/x" not in infos
    assert tree.dropped == [("dev/x", "no file, folder or link")]


def test_modes_are_for_all_users_and_never_setuid() -> None:
    infos, _, tree = merged(both(files({"su": b"x"}, mode=0o4711), files({"secret": b"s"}, mode=0o600)))
    assert (oct(infos["su"].mode), oct(infos["secret"].mode)) == ("0o755", "0o644")
    assert tree.dropped == [("su", "its setuid or setgid bit")]
    assert {(i.uid, i.gid, i.uname) for i in infos.values()} == {(0, 0, "")}


def test_times_stay() -> None:
    """The image's bytecode has them of its sources."""
    infos, _, _ = merged(both(files({"a": b"a"}, mtime=5), files({"b": b"b"}, mtime=50)))
    assert (infos["a"].mtime, infos["b"].mtime) == (5, 50)


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("/bin/tool", True),
        ("/usr/bin/tool", True),
        ("/bin/data", False),
        ("/bin", False),
        ("/x", False),
        ("/loop", False),
    ],
)
def test_programs_are_found_through_links(path: str, found: bool) -> None:
    layers: Sequence[Layer] = (
        files({"usr": None, "usr/bin": None, "bin": "usr/bin", "usr/bin/real": b"r"}, mode=0o755),
        files({"usr/bin/tool": "real", "usr/bin/data": b"d", "loop": "loop"}),
    )
    assert bool(merged(*layers)[2].program(path)) is found


@pytest.mark.parametrize(
    ("python", "place", "found"),
    [
        ("/opt/conda/bin/python3", "opt/conda/lib/python3.11/site-packages", True),
        ("/usr/bin/python3", "usr/local/lib/python3.11/dist-packages", True),  # NVIDIA's, on Ubuntu
        ("/usr/bin/python3", "usr/lib/python3/dist-packages", True),
        ("/opt/venv/bin/python3", "opt/venv/lib/python3.11/site-packages", True),  # a link to /usr/bin
        ("/opt/conda/bin/python3", "opt/conda/lib/python3.10/site-packages", False),
        ("/usr/bin/python3", "opt/conda/lib/python3.11/site-packages", False),
        ("/nothing", "usr/lib/python3/dist-packages", False),
    ],
)
def test_packages_are_those_of_the_python(python: str, place: str, found: bool) -> None:
    programs = files({f"{folder}/bin/python3.11": b"p" for folder in ("usr", "opt/conda")}, mode=0o755)
    links = files(
        {
            "usr/bin/python3": "python3.11",
            "opt/conda/bin/python3": "python3.11",
            "opt/venv/bin/python3": "/usr/bin/python3",
            f"{place}/ipykernel": None,
        }
    )
    assert merged(programs, links)[2].has_package(python, "ipykernel") is found
