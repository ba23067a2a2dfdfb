"""The program that imports what distributions have: which modules, and what it says of those that fail."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from envmgr.catalog.recipe_parts import SmokeTest
from envmgr.modules.spec import ModuleSpec
from envmgr.smoke import here, imports
from envmgr.smoke.imports import modules_of

ABI = "cpython-311-x86_64-linux-gnu.so"


@pytest.mark.parametrize(
    ("files", "modules"),
    [
        (["pkg/__init__.py", "pkg/inner/__init__.py", "pkg-1.0.dist-info/METADATA"], ["pkg"]),
        (["one.py", f"_one.{ABI}", "two/__init__.py"], ["one", "two", "_one"]),
        ([f"two_cuda.{ABI}", "two/__init__.py"], ["two", "two_cuda"]),
        ([f"pkg/__init__.{ABI}"], ["pkg"]),
        (["google/cloud/storage/__init__.py", "google/cloud/plain.py"], ["google.cloud.plain", "google.cloud.storage"]),
        (["pkg/__init__.py", "../../../bin/run", "../../../share/x.py", "__pycache__/a.cpython-311.pyc"], ["pkg"]),
        (["my-data/__init__.py", "pkg/__init__.py", "pkg.libs/libz.so", "data/table.csv"], ["pkg"]),
        ([f"hash__mypyc.{ABI}", "__main__.py"], ["hash__mypyc"]),
        (["pkg/__init__.py", "tests/__init__.py", "setup.py", "examples/plain.py"], ["pkg"]),
        (["test/__init__.py"], ["test"]),
    ],
)
def test_modules_that_a_user_imports(files: list[str], modules: list[str]) -> None:
    assert modules_of(files) == modules


def ran(folder: Path, *words: str) -> tuple[int, str]:
    """The exit status and the words of the program, with distributions in `folder`; its Python has a record of conda there."""
    text = f"import sys; sys.prefix = {str(folder)!r}\n{Path(imports.__file__).read_text()}".replace(
        "from __future__ import annotations", "", 1
    )
    argv = [sys.executable, "-", *words]
    it = subprocess.run(argv, input=text, env={"PYTHONPATH": str(folder)}, capture_output=True, text=True, check=False)
    return it.returncode, it.stdout + it.stderr


def distribution(folder: Path, name: str, files: dict[str, str], record: bool = True) -> None:
    info = folder / f"{name}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Name: {name}\nVersion: 1.0\n")
    if record:
        (info / "RECORD").write_text("".join(f"{file},,\n" for file in files))
    for file, text in files.items():
        (folder / file).write_text(text)


def test_modules_are_those_of_record_and_a_name_may_be_written_in_another_way(tmp_path: Path) -> None:
    distribution(tmp_path, "Py_Thing", {"thing.py": "print('thing')\n", "_late.py": "print('late')\n"})
    assert ran(tmp_path, "py-thing") == (0, "thing\nlate\n")
    assert ran(tmp_path, "py-thing", "-thing") == (0, "late\n")


def test_package_of_conda_has_the_distribution_under_its_own_name(tmp_path: Path) -> None:
    distribution(tmp_path, "torch", {"torch.py": "print('torch')\n"}, record=False)
    (tmp_path / "conda-meta").mkdir()
    for name, files in (("pytorch", ["bin/x", "lib/python3.11/site-packages/torch.py"]), ("pytorch-gpu", [])):
        (tmp_path / f"conda-meta/{name}-2.7-0.json").write_text(json.dumps({"name": name, "files": files}))
    assert ran(tmp_path, "pytorch") == (0, "torch\n")
    assert ran(tmp_path, "pytorch-gpu") == (0, "")
    assert ran(tmp_path, "torch") == (1, "no distribution in the install is called torch\n")


def test_all_that_fails_is_said_at_once(tmp_path: Path) -> None:
    distribution(tmp_path, "ends", {"ends.py": "raise SystemExit('no')\n", "works.py": "print('works')\n"})
    status, said = ran(tmp_path, "absent", "ends")
    assert (status, said.splitlines()) == (
        1,
        [
            "works",
            "no distribution in the install is called absent",
            f"`import ends` failed: {tmp_path}/ends.py, line 1:",
            "SystemExit: no",
            'where users do not import it, or not so: `accept: {not-imported: "ends: why"}` in the recipe',
        ],
    )


def test_recipe_says_what_is_imported_and_what_is_left_out() -> None:
    given = SmokeTest(name="imports", imports=("one", "two"))
    spec = ModuleSpec(
        name="a", version="1", root="/p/store/a", digest="", description="", tests=(given,), imports=("made",),
        not_imported=("one.gui",),
    )  # fmt: skip
    program = f"{Path(imports.__file__).read_text()}ENVMGR_IMPORTS\n"
    assert [(test.name, test.run, test.imports) for test in here.tests_of(spec)] == [
        ("imports", f"python - one two -one.gui <<'ENVMGR_IMPORTS'\n{program}", ()),
        ("built", f"python - made -one.gui <<'ENVMGR_IMPORTS'\n{program}", ()),
    ]
