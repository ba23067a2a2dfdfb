"""The environment of a tree: by its folders, from its own module through the real Lmod, and from a command."""

from __future__ import annotations

from pathlib import Path

import pytest

from envmgr.backends.existing.environment import take_environment
from envmgr.backends.existing.models import ExistingInput
from envmgr.catalog.site import load_site
from envmgr.errors import EnvmgrError
from envmgr.report import SilentReporter
from envmgr.system.run import Runner
from tests.helpers.spack_tree import recorded
from tests.helpers.vendor_tree import make_module, make_tree


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    return make_tree(tmp_path / "vendor")


def take(tree: Path, *more: str, **fields: object) -> list[tuple[str, str, str]]:
    wanted = ExistingInput.model_validate({"path": str(tree), **fields})
    found = take_environment(wanted, (wanted.path, *more), load_site(None, {}), Runner(), SilentReporter())
    return [(op.kind, op.name, op.value.replace(str(tree), "T")) for op in found]


def fault(tree: Path, **fields: object) -> EnvmgrError:
    with pytest.raises(EnvmgrError) as caught:
        take(tree, **fields)
    return caught.value


def test_folders_are_the_default(tree: Path) -> None:
    assert take(tree) == [("prepend", "MANPATH", "T/share/man"), ("prepend", "PATH", "T/bin")]


def test_module_of_its_own_is_taken(tree: Path, tmp_path: Path) -> None:
    file = make_module(tmp_path / "modules", tree)
    right = [("set", "HELLO_HOME", "T"), ("prepend", "LD_LIBRARY_PATH", "T/lib"), ("prepend", "PATH", "T/bin")]
    assert take(tree, module="vendor/1.0", modulepath=[str(tmp_path / "modules")]) == right
    assert take(tree, module=str(file)) == right


def test_modules_that_it_loads_are_taken_with_it(tree: Path, tmp_path: Path) -> None:
    make_module(tmp_path / "modules", tree)
    (tmp_path / "modules/base").mkdir()
    (tmp_path / "modules/base/2.lua").write_text('append_path("XDG_DATA_DIRS", "/opt/base/share")\n')
    file = tmp_path / "modules/vendor/1.0.lua"
    file.write_text('load("base/2")\n' + file.read_text())
    found = take(tree, module="vendor/1.0", modulepath=[str(tmp_path / "modules")])
    assert ("append", "XDG_DATA_DIRS", "/opt/base/share") in found


def test_modules_that_spack_wrote_are_taken(tree: Path, tmp_path: Path) -> None:
    for name in ("bzip2/1.0.8", "gcc-runtime/12.2.0"):
        path = tmp_path / f"Core/{name}.lua"
        path.parent.mkdir(parents=True)
        path.write_text(recorded(f"{name.replace('/', '-')}.lua", str(tree)).replace('depends_on("glibc/2.36")', ""))
    found = take(tree, module="bzip2/1.0.8", modulepath=[str(tmp_path / "Core")])
    assert ("prepend", "PATH", "T/bzip2/1.0.8-arnmn6tr/bin") in found
    assert {name for _, name, _ in found} == {"CMAKE_PREFIX_PATH", "MANPATH", "PATH", "PKG_CONFIG_PATH"}


def test_command_is_run_where_it_can_add_to_what_is_there(tree: Path, tmp_path: Path) -> None:
    (tmp_path / "load.sh").write_text(
        f'echo "export PATH={tree}/bin:$PATH; export MANPATH={tree}/share/man:/usr/share/man:$MANPATH;"\n'
        "echo 'export SPACK_LOADED_HASHES=x;'\n"
    )
    found = take(tree, command=f"sh {tmp_path}/load.sh")
    assert found == [("prepend", "MANPATH", "T/share/man"), ("prepend", "PATH", "T/bin")], "none of the system's places"


def test_recorded_text_of_spack_cannot_stand_for_the_command(tree: Path, tmp_path: Path) -> None:
    """It has the PATH of the shell in which it was printed, and would replace the user's."""
    (tmp_path / "load.sh").write_text(recorded("load.sh", str(tree)))
    assert fault(tree, command=f"cat {tmp_path}/load.sh").reference == "activation-unclear"


def test_module_and_command_that_fail_are_told(tree: Path, tmp_path: Path) -> None:
    error = fault(tree, module="nope/1.0", modulepath=[str(tmp_path)])
    assert error.head == "error[activation-failed]: `module nope/1.0` failed, status 1"
    assert "unknown" in error.context[0] + error.context[1], "what is wrong comes first, and advice last"
    assert error.hint.startswith("it is run in an empty environment")
    assert any("nope/1.0" in line for line in error.context)
    error = fault(tree, command="echo no licence >&2; exit 3")
    assert error.head == "error[activation-failed]: `echo no licence >&2; exit 3` failed, status 3"
    assert error.context == ("output: no licence",)
    error = fault(tree, command="seq 40 >&2; exit 1")
    assert error.context == (
        *(f"output: {n}" for n in range(1, 9)),
        "output: (24 lines left out)",
        *(f"output: {n}" for n in range(33, 41)),
    )


def test_module_that_defines_functions_is_refused(tree: Path, tmp_path: Path) -> None:
    file = make_module(tmp_path / "modules", tree)
    file.write_text('set_shell_function("vend", "echo 1", "echo 1")\n')
    error = fault(tree, module=str(file))
    assert error.reference == "activation-changes-shell"
    assert "the recipe's `environment`" in error.hint


@pytest.mark.parametrize(
    "line",
    ['prepend_path("LD_LIBRARY_PATH", "/opt/other/lib")', 'setenv("PYTHONPATH", "TREE")', 'setenv("LD_PRELOAD", "/x")'],
)
def test_libraries_of_others_are_refused(tree: Path, tmp_path: Path, line: str) -> None:
    file = make_module(tmp_path / "modules", tree)
    file.write_text(line.replace("TREE", str(tree)) + "\n")
    error = fault(tree, module=str(file))
    assert error.head == f"error[activation-forbidden]: `module {file}` changes {line.split(chr(34))[1]}"
    only = ", and may get only folders of the software itself" * ("PRELOAD" not in line)
    assert error.hint.startswith(f"no module may do so: it reaches into other programs{only}; say in the recipe's")


@pytest.mark.parametrize(
    "fields",
    [
        {"path": "relative"},
        {"path": "/a b"},
        {"path": "/a/../b"},
        {"path": "/a", "module": "m/1", "command": "true"},
        {"path": "/a", "modulepath": ["/m"]},
        {"path": "/a", "module": "-x"},
        {"path": "/a", "module": "/m/1.lua"},
        {"path": "/a", "module": "/x/m/1.lua", "modulepath": ["/x"]},
        {"path": "/a", "ignore": ["a/b"]},
        {"path": "/a", "ignore": ["*"]},
        {"path": "/a", "manifest": "none"},
        {"path": "/a", "spack": {"tree": "/t", "hash": "short"}},
    ],
)
def test_input_that_is_wrong_is_refused(fields: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="validation error"):
        ExistingInput.model_validate(fields)


def test_file_of_a_module_that_is_not_there_is_told_at_once(tree: Path, tmp_path: Path) -> None:
    file = make_module(tmp_path / "modules", tree)
    assert take(tree, module=str(file).removesuffix(".lua")) == take(tree, module=str(file))
    for name in (file.with_name("2.0.lua"), file / "below/1.0"):
        error = fault(tree, module=str(name))
        assert error.head == f"error[file-missing]: input.module: {name} does not exist"
