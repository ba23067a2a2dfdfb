"""pip and uv at a loaded module: they refuse and say what to do, and all that is a user's own works as it did."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from uv import find_uv_bin

from envmgr.system.files import remove_tree
from tests.helpers.places import CACHE
from tests.helpers.sandbox import PYTHON, Sandbox
from tests.helpers.scenes import locked
from tests.helpers.standin.channel import Channel
from tests.helpers.standin.rattle import rattle
from tests.helpers.waiting import HANGS
from tests.helpers.wheel_scene import make_wheel_box

ENTRY, SPECS = "sci/1.0", [f"python {PYTHON}.*", "pip", "six"]
SENTENCE = "This Python belongs to a module. For your own packages see `module help`"
WAY_OUT = [
    "For Python packages of your own:",
    "  envmgr user create NAME --on sci/1.0 PACKAGE",
    "Without envmgr, until the cluster removes this install, while this module is loaded:",
    "  python -m venv --system-site-packages ~/venvs/sci-1.0",
    "  ~/venvs/sci-1.0/bin/python -m pip install PACKAGE",
]
UV = f"{shlex.quote(find_uv_bin())} --quiet --no-config --offline"
MARK = f"lib/python{PYTHON}/EXTERNALLY-MANAGED"


@pytest.fixture(scope="module")
def box(tmp_path_factory: pytest.TempPathFactory, channel: Channel) -> Iterator[Sandbox]:
    """One entry with Python, pip and six; pip and uv take wheels of the stand-in's cache, and ask no network.

    At the end the install is what its manifest says, for root, too, whom its modes do not keep from writing.
    """
    made = Sandbox(tmp_path_factory.mktemp("pip"), str(channel.folder))
    made.write_site()
    locked(made, ENTRY, SPECS)
    made.ok("build", ENTRY)
    settings = made.root / ".config/pip/pip.conf"
    settings.parent.mkdir(parents=True)
    settings.write_text(
        f"[global]\nno-index = true\nfind-links = {CACHE / 'wheels'}\ndisable-pip-version-check = true\n"
    )
    yield made
    verified = made.run("verify").stdout
    made.clear()
    assert verified.endswith("\n1 install verified, 0 differ from their manifest\n")
    assert verified.startswith("1 generation verified, 0 differ from their record\n")


def root(box: Sandbox) -> Path:
    return Path(box.ok("list", ENTRY, "--format", "json").data["install"])


def loaded(box: Sandbox, script: str) -> subprocess.CompletedProcess[str]:
    setting = f"export UV_FIND_LINKS={shlex.quote(str(CACHE / 'wheels'))} UV_NO_INDEX=1 UV_CACHE_DIR=$HOME/uv"
    return box.shell(f"module load {ENTRY}; {setting}; cd; {script}", timeout=HANGS)


@pytest.mark.parametrize(
    "command",
    [
        "pip install tabulate",
        "pip install --user tabulate",
        "pip uninstall --yes six",
        f"{UV} pip install --system tabulate",
        "python -m ensurepip",
    ],
    ids=["install", "user", "uninstall", "uv", "ensurepip"],
)
def test_own_packages_are_refused_with_the_way_out(box: Sandbox, command: str) -> None:
    done = loaded(box, command)
    assert done.returncode != 0
    if command.startswith("pip"):
        assert done.stderr.splitlines()[1:] == ["", *WAY_OUT]
        assert done.stderr.startswith("error: pip cannot ")
    elif (
        "ensurepip is disabled in Debian" not in done.stdout
    ):  # the operating system's own Python has that in its place
        assert SENTENCE in " ".join(done.stderr.split())
    assert "ermission denied" not in done.stderr


@pytest.mark.parametrize("program", ["pip", "pip3", f"pip{PYTHON}"])
@pytest.mark.parametrize(
    "arguments",
    [
        "install tabulate",
        "install --upgrade six",
        "install -r needs.txt",
        "--quiet install tabulate",
        "uninstall -y six",
        "--log x install tabulate",
        "install --root-user-action ignore tabulate",
        "install --break-system-packages tabulate",
    ],
)
def test_pip_of_every_name_changes_nothing_in_a_module(box: Sandbox, program: str, arguments: str) -> None:
    done = loaded(box, f"{program} {arguments}")
    assert (done.returncode, done.stderr.splitlines()[2:]) == (1, WAY_OUT)


@pytest.mark.parametrize(
    "arguments",
    ["list", "freeze", "show six", "show install", "--version", "check", "install --help", "help install", ""],
)
def test_pip_that_only_looks_is_the_install_s_own(box: Sandbox, arguments: str) -> None:
    done = loaded(box, f"pip {arguments}")
    own = loaded(box, f"{root(box)}/bin/pip {arguments}")
    assert (done.returncode, done.stdout, done.stderr) == (own.returncode, own.stdout, own.stderr)


def test_virtual_environment_that_is_activated_has_its_own_pip(box: Sandbox) -> None:
    remove_tree(box.root / "own")
    done = loaded(
        box,
        "python -m venv own; pip --python own/bin/python list >/dev/null && echo other; . own/bin/activate; which pip; pip install -q tabulate",
    )
    assert (done.returncode, done.stdout) == (0, f"other\n{box.root}/own/bin/pip\n"), done.stderr


def test_entry_of_wheels_refuses_as_well(sandbox: Sandbox) -> None:
    """It has a Python and no pip: without the shim, `pip` would be the node's, and write into another Python."""
    made = make_wheel_box(sandbox)
    made.house.wheel("one")
    made.entry("w/1.0", "one", python=made.base())
    made.lock("w/1.0")
    sandbox.ok("build", "w/1.0")
    way_out = [line.replace("sci-1.0", "w-1.0").replace("sci/1.0", "w/1.0") for line in WAY_OUT]
    for command, said in (
        ("install six", "pip cannot install packages in the module w/1.0"),
        ("list", "the module w/1.0 has no pip"),
    ):
        done = sandbox.shell(f"module load w/1.0; pip {command}")
        assert (done.returncode, done.stderr.splitlines()[2:]) == (1, way_out)
        assert done.stderr.startswith(f"error: {said}")
    program = "~/venvs/w-1.0/bin/python -c 'import one, pip; print(one.VERSION)'"
    done = sandbox.shell(f"module load w/1.0; {way_out[3]} && {program}", timeout=HANGS)
    assert done.stdout == "1.0\n", done.stderr
    made.house.wheel("two", "2.0", requires=["one"])
    made.index(pypi=made.house.simple.as_uri(), house=made.house.simple.as_uri())
    typed = way_out[1].replace("NAME", "mine").replace("PACKAGE", "two")
    there = f"export PATH={Path(sys.executable).parent}:$PATH ENVMGR_SITE={sandbox.root}/site.yaml; module load w/1.0"
    done = sandbox.shell(f"{there}; {typed}")
    assert done.returncode == 0, done.stderr
    done = sandbox.shell("module load user/mine; python -c 'import one, two; print(two.VERSION)'")
    assert done.stdout == "2.0\n", done.stderr
    remove_tree(sandbox.root / ".local")


@pytest.mark.parametrize("shell", ["bash", "csh", "zsh"])
def test_module_unloads_without_a_trace_of_the_shim(box: Sandbox, shell: str) -> None:
    assigned = "set before=$PATH" if shell == "csh" else "before=$PATH"
    done = box.shell(
        f"module load {ENTRY}; module unload {ENTRY}; {assigned}; module load {ENTRY}; which pip; module unload {ENTRY}; "
        'test "$before" = "$PATH" && echo clean; env | grep -c -e shims -e PIP_ || true',
        shell,
        timeout=HANGS,
    )
    assert done.stdout.splitlines() == [f"{box.prefix}/generations/0001/shims/{ENTRY}/pip", "clean", "0"], done.stderr


@pytest.mark.parametrize("shell", ["bash", "csh"])
def test_two_lines_of_module_help_make_a_place_for_them(box: Sandbox, shell: str) -> None:
    said = box.shell(f"module help {ENTRY}").stderr.splitlines()
    first = said.index(WAY_OUT[2])
    lines = [line.strip().replace("PACKAGE", "tabulate") for line in said[first + 1 : first + 3]]
    assert lines[0] == "python -m venv --system-site-packages ~/venvs/sci-1.0"
    own = box.root / "venvs/sci-1.0"
    remove_tree(own)
    show = "import sys, six, tabulate; print(six.__file__, tabulate.__file__)"
    script = "\n".join([f"module load {ENTRY}", *lines, f"~/venvs/sci-1.0/bin/python -c '{show}'"])
    done = box.shell(script, shell, timeout=HANGS)
    assert done.returncode == 0, done.stderr
    site = f"lib/python{PYTHON}/site-packages"
    assert done.stdout.splitlines()[-1] == f"{root(box)}/{site}/six.py {own}/{site}/tabulate/__init__.py"


OWN = "import sys, tabulate; print(sys.prefix)"


@pytest.mark.parametrize(
    ("make", "put", "program"),
    [
        ("python -m venv own", "own/bin/pip install tabulate", f"own/bin/python -c '{OWN}'"),
        (f"{UV} venv own", f"VIRTUAL_ENV=own {UV} pip install tabulate", f"own/bin/python -c '{OWN}'"),
        (
            f"{UV} venv --system-site-packages own",
            f"VIRTUAL_ENV=own {UV} pip install tabulate",
            f"own/bin/python -c '{OWN}; import six'",
        ),
    ],
    ids=["venv", "uv", "uv-system"],
)
def test_virtual_environment_on_top_takes_packages(box: Sandbox, make: str, put: str, program: str) -> None:
    """Plain ones, too; `python -m venv` has ensurepip put pip there."""
    remove_tree(box.root / "own")
    done = loaded(box, f"set -e; {make} >/dev/null; {put} >/dev/null; {program}")
    assert (done.returncode, done.stdout) == (0, f"{box.root}/own\n"), done.stderr


@pytest.mark.parametrize("program", ["pip install", f"{UV} pip install --system"], ids=["pip", "uv"])
@pytest.mark.parametrize("option", ["--target", "--prefix"])
def test_packages_go_elsewhere_as_before(box: Sandbox, program: str, option: str) -> None:
    remove_tree(box.root / "elsewhere")
    done = loaded(box, f"{program} {option} elsewhere tabulate")
    assert done.returncode == 0, done.stderr
    assert len([*(box.root / "elsewhere").rglob("tabulate/__init__.py")]) == 1


# conda's own answer to what `conda create --clone` copies; conda-lock brings this part of conda along, without what it draws bars with.
UNTRACKED = """\
import sys, types
sys.modules["tqdm"] = types.SimpleNamespace(tqdm=None)
from conda_lock._vendor.conda.misc import untracked
print(*(path for path in untracked(sys.argv[1]) if not path.endswith(".pyc")))
"""


def test_no_package_has_the_mark_and_no_clone_gets_it(box: Sandbox, channel: Channel, tmp_path: Path) -> None:
    """A user's own conda environment: made of the same packages, or by `conda create --clone`, which copies what no record names."""
    install = root(box)
    assert (install / MARK).is_file()
    records = [json.loads(path.read_bytes()) for path in (install / "conda-meta").glob("*.json")]
    assert [r["name"] for r in records if MARK in r["files"]] == ["python"]
    assert [r["name"] for r in records if MARK in {p["_path"] for p in r["paths_data"]["paths"]}] == []
    done = subprocess.run([sys.executable, "-c", UNTRACKED, install], capture_output=True, text=True, check=True)
    assert done.stdout == "\n"
    own = tmp_path / "own"
    rattle(channel.url, SPECS, tmp_path / "cache", stage=own, final=own)
    assert (own / MARK).parent.is_dir()
    assert [*tmp_path.rglob("EXTERNALLY-MANAGED")] == []
    link = tmp_path / "wheels"
    link.symlink_to(CACHE / "wheels")
    done = subprocess.run(
        [own / "bin/python", "-m", "pip", "install", "--no-index", "--find-links", link, "tabulate"],
        capture_output=True,
        text=True,
        check=False,
        timeout=HANGS,
        env={"HOME": str(tmp_path)},
    )
    assert done.returncode == 0, done.stderr
