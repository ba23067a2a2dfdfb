"""A prefix of links over a base's Python."""

from __future__ import annotations

from pathlib import Path

import pytest

from envmgr.wheels.install_worker import NoPython, make_environment, make_interpreter


@pytest.fixture
def base(tmp_path: Path) -> Path:
    """One that starts with a `sitecustomize` of its own, as a Python of Debian's needs."""
    library = tmp_path / "base/lib/python3.11"
    for folder in ("site-packages/other", "json", "__pycache__"):
        (library / folder).mkdir(parents=True)
    for name in ("os.py", "sitecustomize.py", "EXTERNALLY-MANAGED"):
        (library / name).write_text(name)
    (tmp_path / "base/bin").mkdir()
    (tmp_path / "base/bin/python3.11").write_text("program")
    (tmp_path / "base/lib/libpython3.11.so.1.0").write_text("library")
    (tmp_path / "base/include/python3.11").mkdir(parents=True)
    return tmp_path / "base"


def test_all_of_the_standard_library_is_the_bases_and_the_packages_are_not(base: Path, tmp_path: Path) -> None:
    made = tmp_path / "made"
    make_interpreter(made, base, "3.11")
    library = made / "lib/python3.11"
    links = {path.name: path.readlink() for path in library.iterdir() if path.is_symlink()}
    own = base / "lib/python3.11"
    assert links == {name: own / name for name in ("os.py", "sitecustomize.py", "json", "__pycache__")}
    assert list((library / "site-packages").iterdir()) == []
    program = made / "bin/python3.11"
    assert (program.is_symlink(), program.read_text(), (made / "bin/python").readlink()) == (
        False,
        "program",
        Path("python3.11"),
    )
    assert (made / "lib/libpython3.11.so.1.0").readlink() == base / "lib/libpython3.11.so.1.0"
    assert (made / "include/python3.11").readlink() == base / "include/python3.11"


def test_base_of_another_version_or_none_is_told(base: Path, tmp_path: Path) -> None:
    with pytest.raises(NoPython, match=r"has no Python 3\.12"):
        make_interpreter(tmp_path / "made", base, "3.12")
    with pytest.raises(NoPython, match=r"there is no .*python3\.12"):
        make_environment(tmp_path / "other", "3.12", base / "bin")
