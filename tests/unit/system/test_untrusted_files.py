"""Files that others may have written: what is read, and what is not even opened."""

from __future__ import annotations

import ast
import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from envmgr.errors import InputError
from envmgr.system.untrusted_files import (
    ANYWHERE,
    Kind,
    append_line,
    copy_files,
    digest_of,
    read_bytes,
    read_json,
    stays_in,
)
from envmgr.wording import one_line, shortened
from tests.helpers.places import ROOT

NOTE = Kind("note", 1000)


def refusal(path: Path, tree: Path | None = None) -> str:
    """In the words of `read_bytes`; the others open as it does."""
    told = set()
    for read in (read_bytes, digest_of):
        with pytest.raises(InputError) as caught:
            read(path, NOTE, tree=tree)
        told.add(f"{caught.value.reference}: {caught.value.message}".replace(str(path.parent), "HERE"))
    assert len(told) == 1
    return told.pop()


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    (tmp_path / "secret").write_text("root:$6$")
    path = tmp_path / "tree"
    path.mkdir()
    (path / "file").write_text("content")
    return path


def test_a_regular_file_is_read(tree: Path) -> None:
    for below in (None, tree, tree.parent, ANYWHERE):
        assert read_bytes(tree / "file", NOTE, tree=below) == b"content"


def test_a_link_is_followed_inside_its_tree_alone(tree: Path) -> None:
    (tree / "folder").mkdir()
    (tree / "folder/beside").symlink_to("../file")
    (tree / "out").symlink_to(tree.parent / "secret")
    (tree / "other").symlink_to("..")
    (tree / "by-out").symlink_to("../tree/file")
    (tree / "loop").symlink_to("loop")
    assert read_bytes(tree / "folder/beside", NOTE, tree=tree) == b"content"
    assert read_bytes(tree / "by-out", NOTE, tree=tree) == b"content"
    assert refusal(tree / "out", tree) == "file-irregular: note HERE/out is a link out of HERE"
    assert refusal(tree / "other/secret", tree).endswith(f"is a link out of {tree}")
    assert refusal(tree / "folder/beside") == "file-irregular: note HERE/beside is a link, and no regular file"
    with pytest.raises(OSError, match="symbolic links"):
        read_bytes(tree / "loop", NOTE, tree=tree)
    assert read_bytes(tree / "out", NOTE, tree=ANYWHERE) == b"root:$6$"


def test_the_tree_itself_may_be_reached_by_a_link(tree: Path) -> None:
    (tree.parent / "name").symlink_to(tree)
    assert read_bytes(tree.parent / "name/file", NOTE, tree=tree.parent / "name") == b"content"


def test_a_tree_whose_name_begins_alike_is_another(tree: Path) -> None:
    (tree.parent / "tree2").mkdir()
    (tree.parent / "tree2/file").write_text("other")
    (tree / "link").symlink_to("../tree2/file")
    assert refusal(tree / "link", tree) == "file-irregular: note HERE/link is a link out of HERE"


@pytest.fixture
def irregular(tree: Path) -> Iterator[dict[str, Path]]:
    os.mkfifo(tree / "pipe")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tree / "socket"))
        (tree / "zero").symlink_to("/dev/zero")
        yield {"a pipe": tree / "pipe", "a socket": tree / "socket", "a folder": tree, "a device": tree / "zero"}


def test_what_is_no_regular_file_is_not_opened(irregular: dict[str, Path]) -> None:
    for kind, path in irregular.items():
        assert refusal(path, ANYWHERE) == f"file-irregular: note HERE/{path.name} is {kind}, and no regular file"


def test_a_pipe_that_takes_a_file_s_place_is_not_waited_for(tree: Path) -> None:
    """A file and a pipe change places under the reader, which never waits: nobody writes into the pipe."""
    os.mkfifo(tree / "pipe")
    done = threading.Event()

    def swap() -> None:
        while not done.is_set():
            (tree / "file").rename(tree / "kept")
            (tree / "pipe").rename(tree / "file")
            (tree / "file").rename(tree / "pipe")
            (tree / "kept").rename(tree / "file")

    thread = threading.Thread(target=swap)
    thread.start()
    try:
        for _ in range(2000):
            try:
                assert read_bytes(tree / "file", NOTE, tree=tree) == b"content"
            except (InputError, FileNotFoundError) as error:
                assert isinstance(error, FileNotFoundError) or "is a pipe" in error.message  # noqa: PT017
    finally:
        done.set()
        thread.join()


def test_a_file_may_be_as_large_as_its_kind_and_no_larger(tree: Path) -> None:
    (tree / "file").write_bytes(b"x" * 1000)
    assert len(read_bytes(tree / "file", NOTE)) == 1000
    (tree / "file").write_bytes(b"x" * 1001)
    assert refusal(tree / "file") == "file-too-large: note HERE/file is larger than 1000 bytes"


def test_a_file_without_a_size_is_read_no_further_than_its_kind() -> None:
    """Those of /proc say that they have no bytes."""
    assert Path("/proc/self/smaps").stat().st_size == 0
    assert refusal(Path("/proc/self/smaps"), ANYWHERE) == "file-too-large: note HERE/smaps is larger than 1000 bytes"


def test_json_that_is_nested_without_end_is_no_json(tree: Path) -> None:
    deep = Kind("note", 1 << 20)
    (tree / "file").write_text("[" * 200_000)
    with pytest.raises(ValueError, match="nested too deep"):
        read_json(tree / "file", deep)
    (tree / "file").write_text('{"a": [1, 2]}')
    assert read_json(tree / "file", deep, most=5) == {"a": [1, 2]}
    with pytest.raises(ValueError, match="more than 3 keys and values"):
        read_json(tree / "file", deep, most=3)


def test_a_folder_is_copied_with_what_stays_in_its_tree(tree: Path) -> None:
    (tree / "entry/sub").mkdir(parents=True)
    (tree / "entry/a").symlink_to("../file")
    (tree / "entry/sub/b").write_text("b")
    copy_files(tree / "entry", tree.parent / "copy", NOTE, tree=tree)
    assert {p.name: p.read_text() for p in (tree.parent / "copy").rglob("*") if p.is_file()} == {
        "a": "content",
        "b": "b",
    }
    assert not (tree.parent / "copy/a").is_symlink()
    for bad in (tree.parent / "secret", "/etc", "/dev/zero"):
        (tree / "entry/c").symlink_to(bad)
        with pytest.raises(InputError) as caught:
            copy_files(tree / "entry", tree.parent / "other", NOTE, tree=tree)
        assert caught.value.reference == "file-irregular"
        (tree / "entry/c").unlink()


def test_a_line_is_added_after_a_cut_one_and_to_a_regular_file_alone(tree: Path) -> None:
    for _ in range(2):
        append_line(tree / "new", "one")
    (tree / "new").write_text("one\ncut")
    append_line(tree / "new", "two")
    assert (tree / "new").read_text() == "one\ncut\ntwo\n"
    (tree / "link").symlink_to(tree.parent / "secret")
    os.mkfifo(tree / "pipe")
    for name in ("link", "pipe"):
        with pytest.raises(OSError, match=r"symbolic links|no regular file"):
            append_line(tree / name, "x")
    assert (tree.parent / "secret").read_text() == "root:$6$"


def test_stays_in_follows_links(tree: Path) -> None:
    (tree / "out").symlink_to("..")
    (tree / "loop").symlink_to("loop")
    assert stays_in(tree / "file", tree)
    assert not stays_in(tree / "out", tree)
    assert not stays_in(tree / "loop", tree)


def test_texts_of_others_are_one_short_line() -> None:
    assert one_line("plain é") == "plain é"
    assert one_line("\x1b[2J\n\udcff\u202e") == "\\x1b[2J\\n\\udcff\\u202e"
    assert one_line("x" * 301) == "x" * 300 + "… (301 characters)"
    assert shortened(["a"] * 20) == ["a"] * 20
    assert shortened(["a"] * 23) == [*["a"] * 20, "and 3 more"]


# Who may open files in another way, and which these are. None of them is of a catalog, a lock, a record or the history.
OTHERWISE = {
    "verbs/usage.py": "text of a log that the caller names: lines of a size",
    "steps/verb_run.py": "what a verb of ours printed just now",
    "steps/page_files.py": "files of a generation, by what opens no link and no pipe",
    "verbs/page.py": "files of a generation, by what opens no link and no pipe; what a copy writes",
    "page/render.py": "a style and a script that ship with envmgr",
    "publish/extras.py": "a generation that is being staged",
    "audit/checks/fitness.py": "a script that ships with envmgr",
    "audit/ask/expected_generation.py": "what a process of ours wrote just now",
    "audit/table.py": "tables that ship with envmgr",
    "backends/conda/activate.py": "scripts that an install brings, which are run",
    "modules/capture_run.py": "what such scripts wrote just now",
    "backends/conda/install.py": "an install that is being made",
    "backends/conda/install_worker.py": "an install that is being made",
    "images/make.py": "an image that was made just now",
    "images/node.py": "a script that ships with envmgr",
    "system/squashfs.py": "an image that was made just now",
    "wheels/destination.py": "an install that is being made",
    "backends/conda/solve.py": "what conda-lock wrote just now",
    "backends/conda/solve_worker.py": "repodata of a folder, for its sha256",
    "backends/conda/wheels_worker.py": "an install that is being made",
    "backends/container/layers.py": "layers, unpacked in a folder of this build's own",
    "backends/container/merge_worker.py": "layers of the cache, by their sha256; unpacked in a folder of this build's own",
    "backends/spack/install.py": "logs of a build",
    "backends/easybuild/build.py": "logs and events of a build",
    "backends/easybuild/failures.py": "logs of a build",
    "backends/easybuild/inside/envmgr_hooks.py": "runs in EasyBuild's process",
    "backends/easybuild/inside/envmgr_naming.py": "runs in EasyBuild's process",
    "backends/easybuild/choose_easybuild.py": "EasyBuild's own files",
    "backends/easybuild/installation.py": "EasyBuild's own files",
    "backends/easybuild/inside/gpu_settings.py": "EasyBuild's own easyconfigs, in its process",
    "backends/easybuild/resolve.py": "what EasyBuild resolved, by reading it itself, and sources in mirrors that are folders",
    "backends/wheels/build_child.py": "runs as the account that builds",
    "backends/wheels/install.py": "logs of a build",
    "wheels/install_worker.py": "an interpreter of the system, or of an install",
    "builds/again.py": "the output of a process of ours",
    "builds/install.py": "an install, and what was built, or built anew",
    "builds/slurm/ends.py": "logs of a job",
    "catalog/site.py": "/etc/os-release",
    "cli/app.py": "/dev/null",
    "steps/verb_words.py": "modules of envmgr",
    "cli/run.py": "/dev/null",
    "verbs/init.py": "a template that ships with envmgr",
    "steps/job_text.py": "a template that ships with envmgr",
    "verbs/shell_init.py": "/proc",
    "steps/verify_nodes.py": "what nodes are held against: the files of an install or a generation, hashed",
    "downloads/__init__.py": "the cache, and what an administrator names",
    "downloads/transfer.py": "the cache, held against a sha256",
    "downloads/logins.py": "the caller's own file of logins",
    "modules/lmod.py": "Lmod itself",
    "modules/nodesetup.py": "a script that ships with envmgr",
    "modules/render.py": "templates that ship with envmgr",
    "publish/records.py": "what a damaged generation mentions",
    "publish/verify.py": "a generation's own files, which are only hashed",
    "publish/staging.py": "a generation that is being made, and manifests of installs, which are only hashed",
    "report.py": "the log of this run",
    "smoke/here.py": "a program that ships with envmgr",
    "smoke/imports.py": "an install, as the user that tests it",
    "store/away.py": "files of /etc that name mounts",
    "store/gpu_code.py": "an install that is being made",
    "store/dead_builds.py": "/proc",
    "store/verify.py": "an install's own files, which are only hashed",
    "system/files.py": "writes; sums of what was built or downloaded",
    "system/locks.py": "locks of processes",
    "system/safe_paths.py": "folders, and what is changed or removed, by descriptors",
    "system/processes.py": "/proc, and files in memory",
    "system/pythons.py": "an install",
    "system/untrusted_files.py": "the one way",
    "system/scratch.py": "locks of folders",
    "system/shelltext.py": "a script that ships with envmgr",
    "wheels/metadata.py": "a member of a wheel that is open, up to a size",
    "wheels/unpack.py": "a wheel of the cache",
    "steps/site_policies.py": "the kernel's flags, and the public part of the key that site.yaml names",
}
OPENS = {
    "open",
    "read_text",
    "read_bytes",
    "copyfile",
    "copy",
    "copy2",
    "copytree",
    "fdopen",
    "sha256_file",
    "read_regular",
}


def opens(path: Path) -> set[str]:
    """The functions by which a module opens files itself."""
    text = path.read_text()
    if not any(name in text for name in OPENS):
        return set()
    names: set[str] = set()
    ours: set[str] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Call):
            names.add(node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", ""))
        elif isinstance(node, ast.ImportFrom) and node.module == "envmgr.system.untrusted_files":
            ours |= {name.asname or name.name for name in node.names}
    return names & OPENS - ours


def test_nothing_else_opens_what_others_may_write() -> None:
    package = ROOT / "envmgr"
    found = {str(path.relative_to(package)) for path in package.rglob("*.py") if opens(path)}
    assert found == set(OTHERWISE)
