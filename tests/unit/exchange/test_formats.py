"""Files of other tools: recognised, read by line, and written so that the tools themselves read them."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packaging.pylock import Pylock
from rattler import LockFile

from envmgr.backends.conda.lock import ChannelSource, CondaLock, LockedPackage
from envmgr.errors import EnvmgrError, InputError
from envmgr.exchange import ExactPackages, Parsed, read_file, writers
from envmgr.system.run import Runner
from envmgr.wheels.index import ListedFile
from envmgr.wheels.lockfile import LockedRow
from tests.helpers.places import ROOT

FORGE = "https://conda.anaconda.org/conda-forge"
ZERO, ONE = "a" * 64, "b" * 64
PYLOCK = f"""\
lock-version = "1.0"
created-by = "x"
[[packages]]
name = "einops"
version = "0.7"
wheels = [{{ name = "einops-0.7-py3-none-any.whl", url = "https://h/einops-0.7-py3-none-any.whl", hashes = {{ sha256 = "{ZERO}" }} }}]
"""
PIXI = f"""\
version: 6
environments:
  default:
    channels:
    - url: {FORGE}/
    packages:
      linux-64:
      - conda: {FORGE}/noarch/tzdata-2024a-h0c530f3_0.conda
      - pypi: https://h/einops-0.7.0-py3-none-any.whl
      osx-64:
      - conda: {FORGE}/noarch/tzdata-2024a-h0c530f3_0.conda
  docs:
    channels:
    - url: {FORGE}/
    packages: {{}}
packages:
- conda: {FORGE}/noarch/tzdata-2024a-h0c530f3_0.conda
  sha256: {ZERO}
  md5: {"c" * 32}
- pypi: https://h/einops-0.7.0-py3-none-any.whl
  name: einops
  version: 0.7.0
  sha256: {ONE}
"""
CONDA_LOCK = f"""\
version: 1
metadata: {{content_hash: {{}}, channels: [{{url: conda-forge}}], platforms: [linux-64, osx-64], sources: []}}
package:
- {{name: zlib, version: '1.2', manager: conda, platform: linux-64, dependencies: {{libc: '1'}}, category: main, optional: false,
    url: {FORGE}/linux-64/zlib-1.2-h0_3.conda, hash: {{md5: {"c" * 32}, sha256: {ZERO}}}}}
- {{name: zlib, version: '1.2', manager: conda, platform: osx-64, dependencies: {{}}, category: main, optional: false,
    url: {FORGE}/osx-64/zlib-1.2-h0_3.conda, hash: {{md5: {"c" * 32}, sha256: {ZERO}}}}}
- {{name: tool, version: '3', manager: conda, platform: linux-64, dependencies: {{}}, category: dev, optional: true,
    url: {FORGE}/linux-64/tool-3-h0_3.conda, hash: {{md5: {"c" * 32}, sha256: {ZERO}}}}}
"""
EXPLICIT = f"# platform: linux-64\n@EXPLICIT\n{FORGE}/linux-64/zlib-1.2-h0_3.conda#{ZERO}\n"
ENVIRONMENT = (
    "name: plots\nchannels: [conda-forge, nodefaults]\ndependencies:\n- python=3.11\n- pip:\n  - einops==0.7\n"
)
PROJECT = '[project]\nname = "proj"\nversion = "2.1"\nrequires-python = ">=3.11"\ndependencies = ["einops>=0.5"]\n'
EASYSTACK = "easyconfigs:\n- zlib-1.3.1.eb\n- PyTorch-2.1.2-foss-2023a:\n    options: {rpath: true, parallel: 4}\n"
FILES = {
    "requirements.txt": ("requirements", "einops==0.7\n"),
    "pyproject.toml": ("pyproject", PROJECT),
    "pylock.toml": ("pylock", PYLOCK),
    "pylock.gpu.toml": ("pylock", PYLOCK),
    "environment.yml": ("environment", ENVIRONMENT),
    "conda-lock.yml": ("conda-lock", CONDA_LOCK),
    "any.txt": ("explicit", EXPLICIT),
    "pixi.lock": ("pixi", PIXI),
    "stack.yaml": ("easystack", EASYSTACK),
    "mine-wheels.lock": ("wheels-lock", "# python: 3.11\n# platform: x86_64-manylinux_2_28\n"),
}


def read(folder: Path, text: str, name: str = "file", format_: str | None = None) -> Parsed:
    (folder / name).write_text(text)
    return read_file(folder / name, Runner(), format_)[1]


def refused(folder: Path, text: str, name: str = "file", format_: str | None = None) -> str:
    with pytest.raises(InputError) as caught:
        read(folder, text, name, format_)
    return caught.value.render().replace(f"{folder}/", "")


def rows(contents: Parsed) -> list[str]:
    return [*contents.rows]


@pytest.mark.parametrize("name", FILES)
def test_format_is_known_by_text_or_name(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text(FILES[name][1])
    assert read_file(tmp_path / name, Runner())[0] == FILES[name][0]


def test_unclear_format_asks_for_its_name(tmp_path: Path) -> None:
    assert refused(tmp_path, "hello: 1\n", "a.yml").startswith(
        "error[format-unclear]: a.yml is of no format that is known by its name or its text\n\nhint: name it by `envmgr import --from`:"
    )
    both = ENVIRONMENT + "easyconfigs: []\n"
    assert "a.yaml may be easystack" not in refused(tmp_path, both, "a.toml")
    assert "may be easystack or environment" in refused(tmp_path, both, "a.toml")
    assert rows(read(tmp_path, both, "a.toml", "environment")) == ["einops==0.7"]
    assert refused(tmp_path, "", "a.yml", "pixy").splitlines()[-1] == "hint: did you mean pixi?"


def test_lock_of_poetry_is_no_other_tools(tmp_path: Path) -> None:
    text = '[[package]]\nname = "six"\n[metadata]\nlock-version = "2.1"\npython-versions = "*"\n'
    assert "is of no format" in refused(tmp_path, text, "poetry.lock")
    with pytest.raises(InputError) as caught:
        read_file(tmp_path / "poetry.lock", Runner(), way="rename it")
    assert caught.value.hint.startswith("rename it: ")


def test_tabs_are_read_and_a_byte_order_mark_is_told_with_what_takes_it_out(tmp_path: Path) -> None:
    assert rows(read(tmp_path, PROJECT + "\t# tab\n", "pyproject.toml")) == ["einops>=0.5"]
    told = refused(tmp_path, f"\ufeff{PROJECT}", "pyproject.toml")
    assert told.startswith("error[text-invisible]")
    subprocess.run(["bash", "-c", told.split("`")[1]], cwd=tmp_path, check=True)
    assert rows(read_file(tmp_path / "pyproject.toml", Runner())[1]) == ["einops>=0.5"]


def test_line_of_what_is_left_has_it_as_a_word(tmp_path: Path) -> None:
    text = "# not-prefix: x\nname: env\ndependencies: [pkg::six-extra, pkg::six]\nprefix: /x\n"
    assert next((row.line, row.text) for row in read(tmp_path, text, "environment.yml").left) == (4, "prefix:")
    text = "dependencies:\n- pkg::six-extra\n- pkg::six\n"
    assert [row.line for row in read(tmp_path, text, "environment.yml").left] == [2, 3]


def test_environment_keeps_specs_and_rows_and_lists_the_rest(tmp_path: Path) -> None:
    text = """\
name: plots
channels:
- conda-forge
- https://me:secret@host/channel
- https://host/t/tk-secret/channel
dependencies:
- numpy >=1.2,<2
- bioconda::samtools=1.19
- ./local.conda
- 7
- pip:
  - einops
  - -e .
  - git+https://me:secret@host/x
prefix: /home/me/envs/plots
variables: {A: b}
"""
    found = read(tmp_path, text, "environment.yml")
    assert (found.name, found.channels, found.specs) == ("plots", ("conda-forge",), ("numpy >=1.2,<2", "samtools=1.19"))
    assert rows(found) == ["einops"]
    assert [(row.line, row.text) for row in found.left] == [
        (15, "prefix:"),
        (16, "variables:"),
        (4, "https://***@host/channel"),
        (5, "https://host/t/***/channel"),
        (8, "bioconda::samtools=1.19"),
        (9, "./local.conda"),
        (10, "7"),
        (13, "-e ."),
        (14, "git+https://***@host/x"),
    ]
    assert "secret" not in str(found)


def test_requirements_are_kept_and_what_a_recipe_cannot_say_is_listed(tmp_path: Path) -> None:
    text = "six==1.16\n-r other.txt\n--index-url https://a:b@h/simple\n../x\n"
    found = read(tmp_path, text, "requirements.txt")
    assert (found.rows, found.wheels, found.lacks) == (("six==1.16",), (), "")
    assert [row.line for row in found.left] == [2, 3, 4]
    assert found.left[1].text == "--index-url https://***@h/simple"


@pytest.mark.parametrize(
    ("row", "kept"),
    [
        (f"Six[x]==1.16 --hash=sha256:{ZERO}", [LockedRow(name="six", version="1.16", sha256=ZERO)]),
        (f"six==1.16 --hash=sha256:{ZERO} --hash=sha256:{ONE}", []),
        (f"six==1.* --hash=sha256:{ZERO}", []),
        (f"six>1 --hash=sha256:{ZERO}", []),
        ("six==1.16", []),
    ],
)
def test_requirements_with_one_version_and_one_sum_each_are_exact(
    tmp_path: Path, row: str, kept: list[LockedRow]
) -> None:
    more = LockedRow(name="einops", version="0.7", sha256=ONE)
    found = read(tmp_path, f"einops==0.7 --hash=sha256:{ONE}\n{row}\n", "requirements.txt")
    assert [*found.wheels] == [more, *kept]
    why = f"{row.partition(' --')[0]} is not one version with one sum: the lock gets that of the index"
    assert found.lacks == ("" if kept else why)


WHEELS = f"""\
# python: 3.11.7
# platform: x86_64-manylinux_2_28
# indexes: house, pypi
einops==0.7 --hash=sha256:{ZERO}
own @ https://h/own-1.0-py3-none-any.whl --hash=sha256:{ONE}
"""


def test_wheels_lock_has_exact_wheels_their_python_and_indexes(tmp_path: Path) -> None:
    found = read(tmp_path, WHEELS, "mine.lock")
    own = "https://h/own-1.0-py3-none-any.whl"
    assert [(row.name, row.version, row.sha256, row.url) for row in found.wheels] == [
        ("einops", "0.7", ZERO, None),
        ("own", "1.0", ONE, own),
    ]
    assert (found.python, found.indexes, found.left) == ("==3.11.*", ("house", "pypi"), ())
    assert found.rows == ("einops==0.7", f"own @ {own}#sha256={ONE}")
    (left,) = read(tmp_path, f"# envmgr: {{}}\n{WHEELS}", "mine.lock").left
    why = "what the entry below the environment has, and folders of its user: `envmgr user export` names another way"
    assert (left.line, left.text, left.why) == (1, "# envmgr:", why)


def test_pyproject_has_name_version_and_what_it_asks_for(tmp_path: Path) -> None:
    more = '[project.optional-dependencies]\nx = ["a"]\n[dependency-groups]\ndev = ["b"]\n[tool.uv]\n[tool.black]\n'
    found = read(tmp_path, PROJECT + more, "pyproject.toml")
    assert (found.name, found.version, found.python, rows(found)) == ("proj", "2.1", ">=3.11", ["einops>=0.5"])
    assert [row.text for row in found.left] == [
        "optional-dependencies",
        "dependency-groups",
        "tool.uv",
        "the project itself",
    ]
    assert "import the lock that belongs to it" in refused(tmp_path, "[tool.poetry]\n", "pyproject.toml")


def test_pylock_gives_each_package(tmp_path: Path) -> None:
    more = '[[packages]]\nname = "own"\ndirectory = { path = "." }\n'
    marked = f"""[[packages]]
name = "dev-tool"
version = "1"
marker = "'dev' in dependency_groups"
wheels = [{{ url = "https://h/dev_tool-1-py3-none-any.whl", hashes = {{ sha256 = "{ONE}" }} }}]
"""
    found = read(tmp_path, PYLOCK + more + marked, "pylock.toml")
    assert found.rows == ("einops==0.7",)
    assert [(row.text, row.why) for row in found.left] == [
        ('name = "own"', "it comes from no index"),
        ('name = "dev-tool"', "it belongs to an extra or a group of dependencies"),
    ]


def test_default_groups_of_a_pylock_are_kept_and_not_listed(tmp_path: Path) -> None:
    head = 'dependency-groups = ["dev", "docs"]\ndefault-groups = ["dev"]\n'
    packages = "".join(
        f'[[packages]]\nname = "of-{group}"\nversion = "1"\nmarker = "\'{group}\' in dependency_groups"\n'
        f'wheels = [{{ url = "https://h/of_{group}-1-py3-none-any.whl", hashes = {{ sha256 = "{ONE}" }} }}]\n'
        for group in ("dev", "docs")
    )
    found = read(tmp_path, PYLOCK.replace("[[packages]]", f"{head}[[packages]]") + packages, "pylock.toml")
    assert rows(found) == ["einops==0.7", "of-dev==1"]
    assert [row.text for row in found.left] == ['name = "of-docs"', "dependency-groups"]


def pip_item(name: str, url: str, manager: str = "pip") -> str:
    sums = f"hash: {{sha256: {ONE}}}"
    return f"- {{name: {name}, version: '1', manager: {manager}, platform: linux-64, dependencies: {{}}, url: '{url}', {sums}}}\n"


def test_conda_lock_gives_wheels_with_their_sums_and_no_row_to_what_no_index_has(tmp_path: Path) -> None:
    wheel = pip_item("six", "https://h/six-1-py3-none-any.whl")
    found = read(tmp_path, CONDA_LOCK + wheel, "conda-lock.yml")
    assert (found.rows, [(each.name, each.sha256) for each in found.wheels]) == (("six==1",), [("six", ONE)])
    assert found.lacks == ""
    others = (("git", "git+https://h/git"), ("src", "https://h/src-1.tar.gz"), ("dir", "file:///x/dir"))
    text = CONDA_LOCK + wheel + "".join(pip_item(*each) for each in others)
    found = read(tmp_path, text + pip_item("node", "https://h/node-1-py3-none-any.whl", "npm"), "conda-lock.yml")
    assert rows(found) == ["six==1"]
    assert [(row.text, row.why) for row in found.left[1:]] == [
        *((url, f"{name}: it comes from no index") for name, url in others),
        ("https://h/node-1-py3-none-any.whl", "node 1 is a package of npm"),
    ]
    assert found.lacks == "node 1 is a package of npm"
    told = refused(tmp_path, CONDA_LOCK.replace("dependencies: {libc: '1'}", "dependencies: [libc]"), "conda-lock.yml")
    assert "`dependencies` must be a dict" in told


def test_conda_lock_gives_packages_of_this_platform_and_of_main(tmp_path: Path) -> None:
    found = read(tmp_path, CONDA_LOCK, "conda-lock.yml")
    assert [(p.name, p.sha256, p.depends) for p in found.packages] == [("zlib", ZERO, ("libc 1",))]
    assert (found.specs, found.lacks) == (("zlib 1.2 h0_3",), "")
    assert [row.why for row in found.left] == ["tool 3 is of the category `dev`"]


def test_explicit_list_with_md5_or_secrets_cannot_be_kept_exactly(tmp_path: Path) -> None:
    text = EXPLICIT + f"{FORGE}/noarch/tz-1-0.conda#{'0' * 32}\n{FORGE}/osx-64/mac-1-0.conda\n../x.conda\n"
    found = read(tmp_path, text, "explicit.txt")
    assert found.lacks == "there is no sha256 of tz"
    assert [(row.line, row.why) for row in found.left] == [
        (5, "it is for osx-64"),
        (6, "it is no URL of a package of conda"),
    ]
    found = read(tmp_path, EXPLICIT + f"https://me:pw@h/c/noarch/tz-1-0.conda#sha256:{ZERO}\n", "explicit.txt")
    assert found.lacks == "the URL of tz holds a name, a password or a token"
    assert (found.specs, found.channels) == (("tz 1 0", "zlib 1.2 h0_3"), (FORGE,))
    assert [row.text for row in found.left] == ["https://***@h/c/noarch/tz-1-0.conda"]


def as_version_7(folder: Path, text: str) -> str:
    (folder / "six.lock").write_text(text)
    LockFile.from_path(folder / "six.lock").to_path(folder / "seven.lock")
    return (folder / "seven.lock").read_text()


@pytest.mark.parametrize("version", [6, 7])
def test_pixi_lock_gives_conda_packages_and_wheels(tmp_path: Path, version: int) -> None:
    text = PIXI if version == 6 else as_version_7(tmp_path, PIXI)
    assert f"version: {version}" in text
    found = read(tmp_path, text, "pixi.lock")
    assert [(p.name, p.build, p.sha256) for p in found.packages] == [("tzdata", "h0c530f3_0", ZERO)]
    assert [(w.name, w.version, w.sha256) for w in found.wheels] == [("einops", "0.7.0", ONE)]
    assert rows(found) == ["einops==0.7.0"]
    assert [row.text for row in found.left] == ["docs:"]


def test_pixi_lock_gives_no_row_to_what_no_index_has(tmp_path: Path) -> None:
    for place in (f"git+https://h/einops.git#{'0' * 40}", "https://h/einops-0.7.0.tar.gz", "./einops"):
        found = read(tmp_path, PIXI.replace("https://h/einops-0.7.0-py3-none-any.whl", place), "pixi.lock")
        assert (rows(found), found.lacks) == ([], "einops is no wheel with a sha256")
        assert [row.why for row in found.left[1:]] == ["einops: it comes from no index"]
    source = f"- conda: ./own\n  name: own\n  version: '1'\n  build: h\n  subdir: linux-64\n  input: {{hash: '{ZERO}', globs: []}}\n"
    text = PIXI.replace("      osx-64:", "      - conda: ./own\n      osx-64:") + source
    assert read(tmp_path, text, "pixi.lock").lacks == "own is built from its source"


def uv_lock(folder: Path, sources: Mapping[str, str]) -> Parsed:
    (folder / "pyproject.toml").write_text('[project]\nname = "zapp"\nversion = "1"\nrequires-python = ">=3.11"\n')
    parts = [f'[[package]]\nname = "{name}"\nversion = "1"\nsource = {{ {each} }}\n' for name, each in sources.items()]
    return read(folder, 'version = 1\nrequires-python = ">=3.11"\n' + "".join(parts), "uv.lock")


def test_uv_lock_has_the_name_of_the_project_itself_and_lists_it_and_its_members(tmp_path: Path) -> None:
    found = uv_lock(tmp_path, {"aaa": 'editable = "../aaa"', "zapp": 'virtual = "."'})
    assert found.name == "zapp"
    assert [row.text for row in found.left] == ['name = "aaa"', 'name = "zapp"']


def test_uv_lock_alone_says_which_file_can_be_imported(tmp_path: Path) -> None:
    told = refused(tmp_path, 'requires-python = ">=3.11"\n[[package]]\n', "uv.lock")
    assert "error[file-missing]" in told
    assert "uv export --format pylock.toml" in told


def test_easystack_gives_an_entry_for_each_easyconfig(tmp_path: Path) -> None:
    text = EASYSTACK + "- ../evil.eb\n- zlib-1.3.1.eb\n- {a.eb: null, b.eb: null}\n"
    found = read(tmp_path, text, "stack.yml")
    assert [(each.name, each.version, each.input) for each in found.entries] == [
        ("zlib", "1.3.1", {"easyconfig": "zlib-1.3.1.eb"}),
        ("pytorch", "2.1.2-foss-2023a", {"easyconfig": "PyTorch-2.1.2-foss-2023a.eb", "rpath": True}),
    ]
    assert [row.text for row in found.left] == [
        "parallel:",
        "../evil.eb",
        "zlib-1.3.1.eb",
        "{'a.eb': None, 'b.eb': None}",
    ]


def test_easystack_is_read_as_easybuild_reads_it(tmp_path: Path) -> None:
    (tmp_path / "stack.yml").write_text(EASYSTACK)
    code = (
        "import json, sys\n"
        "from easybuild.framework.easystack import parse_easystack\n"
        "print(json.dumps([name for name, _ in parse_easystack(sys.argv[1]).ec_opt_tuples]))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "stack.yml")], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    found = read(tmp_path, EASYSTACK, "stack.yml")
    assert json.loads(done.stdout) == [each.input["easyconfig"] for each in found.entries]


BOMB = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{new}: &{new} [{','.join([f'*{old}'] * 9)}]\n" for old, new in zip("abcdef", "bcdefg", strict=True)
)


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("environment.yml", BOMB + "dependencies: *g\n", "more than 2,000,000 values"),
        ("pixi.lock", BOMB + "version: 6\nenvironments:\n  default: *g\n", "repetition limit"),
        ("pixi.lock", "version: 6\nenvironments:\n  a: " + "[" * 50_000, "limit"),
        (
            "pixi.lock",
            "version: 6\nenvironments:\n  x: {channels: [], packages: {}}\npackages: []\n",
            "no environment `default`",
        ),
        ("stack.yml", "easyconfigs: 7\n", "it has no list `easyconfigs`"),
        ("environment.yml", "dependencies: {a: b}\n", "it has no list `dependencies`"),
        ("conda-lock.yml", CONDA_LOCK.replace("version: 1\n", "version: 2\n", 1), "no conda-lock v1 file"),
        ("pylock.toml", 'lock-version = "9.0"\n', "created-by"),
        ("pylock.toml", "lock-version = [", "import-invalid"),
        ("pyproject.toml", "[project]\nname = " + "[" * 5_000, "import-invalid"),
        ("uv.lock", "requires-python = ''\n[[package]]\n", "project file pyproject.toml does not exist"),
        ("any.txt", "@EXPLICIT\n", "no packages of conda for linux-64"),
        ("any.txt", EXPLICIT + EXPLICIT, "zlib is in it twice"),
        ("any.txt", EXPLICIT.replace("linux-64", "osx-64"), "error[platform-missing]"),
        ("requirements.txt", "six\n" * 6_000, "more than 5000 requirements"),
        ("environment.yml", "x" * (17 << 20), "error[file-too-large]"),
        ("environment.yml", "dependencies: [a\u202eb]\n", "error[text-invisible]"),
        # Each of these took hours: a look through the whole text for each of its lines.
        ("uv.lock", "[x]\n" + "requires-python = 1\n" * 100_000, "error[format-unclear]"),
        ("any.toml", "[tool.a\n" * 250_000, "error[format-unclear]"),
        (
            "pyproject.toml",
            "[project]\ndependencies=[\n" + "'a b !',\n" * 100_000 + "]\n",
            "more than 5000 parts of it",
        ),
    ],
)
def test_hostile_files_are_refused(tmp_path: Path, name: str, text: str, said: str) -> None:
    assert said in refused(tmp_path, text, name)


PIECES = st.sampled_from(
    ["", "[", "{", ": 7", "- x\n", "null", "''", "\n", "=", "[[packages]]\n", "#", "1e9", "x" * 300]
)


@given(st.sampled_from(sorted(FILES)), st.integers(0, 900), st.integers(0, 60), PIECES)
def test_damaged_files_are_read_or_refused(name: str, place: int, length: int, piece: str) -> None:
    format_, text = FILES[name]
    with TemporaryDirectory() as folder, suppress(EnvmgrError):
        read(Path(folder), text[:place] + piece + text[place + length :], name, format_)


def test_missing_file_pipe_and_folder_are_refused(tmp_path: Path) -> None:
    for path in (tmp_path / "no", tmp_path, Path("/dev/zero")):
        with pytest.raises(InputError):
            read_file(path, Runner())


PACKAGES = (
    LockedPackage(
        "python", "3.11.7", "h0_0_cpython", f"{FORGE}/linux-64/python-3.11.7-h0_0_cpython.conda", "0" * 32, ZERO,
        depends=("tzdata",), constrains=("abi 3.11.* *_cp311",), size=5, timestamp=1706886945727, license="MIT",
    ),
    LockedPackage("tzdata", "2024a", "1e5", f"{FORGE}/noarch/tzdata-2024a-1e5.conda", "1" * 32, ONE),
)  # fmt: skip
WHEEL = LockedRow(name="einops", version="0.7", sha256="2" * 64)
URL = "https://house.example/einops-0.7-py3-none-any.whl"


def exact(*, wheels: bool = True) -> ExactPackages:
    lock = CondaLock("linux-64", "3" * 64, PACKAGES, (ChannelSource(FORGE, FORGE),))
    file = ListedFile("einops-0.7-py3-none-any.whl", URL, WHEEL.sha256, 7)
    return ExactPackages(
        "sci/1.0",
        "3.11.7",
        lock,
        (WHEEL,) if wheels else (),
        lambda: {WHEEL.sha256: file},
        lambda: ["https://house.example/simple"],
    )


def test_pixi_lock_that_is_written_says_the_same_to_rattler_and_comes_back(tmp_path: Path) -> None:
    text, left = writers()["pixi"].write(exact())
    assert (text.partition("\n")[0], left) == ("version: 6", [])
    (tmp_path / "pixi.lock").write_text(text)
    own = dict(LockFile.from_path(tmp_path / "pixi.lock").environments())["default"]
    (platform,) = own.platforms()
    found = {each.name: (each.location, each.hashes.sha256.hex()) for each in own.packages(platform) or ()}
    assert found == {**{p.name: (p.url, p.sha256) for p in PACKAGES}, "einops": (URL, WHEEL.sha256)}
    back = read(tmp_path, text, "pixi.lock")
    assert [*back.packages] == [*PACKAGES]
    assert [(w.url, w.sha256) for w in back.wheels] == [(URL, WHEEL.sha256)]


def test_conda_lock_that_is_written_is_read_by_conda_lock(tmp_path: Path) -> None:
    text, left = writers()["conda-lock"].write(exact())
    assert left == []
    (tmp_path / "conda-lock.yml").write_text(text)
    code = (
        "import json, pathlib, sys\n"
        "from conda_lock.lockfile import parse_conda_lock_file\n"
        "found = parse_conda_lock_file(pathlib.Path(sys.argv[1])).package\n"
        "print(json.dumps(sorted([p.name, p.version, p.manager, p.url, p.hash.sha256] for p in found)))\n"
    )
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code, str(tmp_path / "conda-lock.yml")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    conda = [[p.name, p.version, "conda", p.url, p.sha256] for p in PACKAGES]
    assert json.loads(done.stdout) == sorted([*conda, ["einops", "0.7", "pip", URL, WHEEL.sha256]])
    assert [p.name for p in read(tmp_path, text, "conda-lock.yml").packages] == ["python", "tzdata"]


def test_explicit_list_that_is_written_comes_back_and_lists_wheels(tmp_path: Path) -> None:
    text, left = writers()["explicit"].write(exact())
    assert [(row.text, row.why) for row in left] == [("einops 0.7", "a wheel: the format has only packages of conda")]
    back = read(tmp_path, text, "explicit.txt")
    assert [(p.name, p.url, p.sha256) for p in back.packages] == [(p.name, p.url, p.sha256) for p in PACKAGES]


def test_pylock_that_is_written_is_read_by_packaging() -> None:
    text, left = writers()["pylock"].write(exact())
    (package,) = Pylock.from_dict(tomllib.loads(text)).packages
    assert package.wheels is not None
    assert [(w.url, w.size, dict(w.hashes)) for w in package.wheels] == [(URL, 7, {"sha256": WHEEL.sha256})]
    assert [row.text for row in left] == ["python 3.11.7", "tzdata 2024a"]


def test_environment_that_is_written_comes_back(tmp_path: Path) -> None:
    found = read(tmp_path, writers()["environment"].write(exact())[0], "environment.yml")
    assert found.specs == ("python=3.11.7=h0_0_cpython", "tzdata=2024a=1e5")
    assert (found.channels, rows(found)) == ((FORGE,), ["einops==0.7"])


@pytest.mark.parametrize("to", ["requirements", "pylock"])
def test_entry_without_wheels_cannot_become_a_file_of_wheels(to: str) -> None:
    with pytest.raises(InputError, match=r"sci/1\.0 is made of packages of conda") as caught:
        writers()[to].write(exact(wheels=False))
    assert caught.value.hint == "`--to` takes conda-lock, environment, explicit, pixi for it"


def test_each_format_has_a_row_on_its_page() -> None:
    page = (ROOT / "docs/exchange.md").read_text()
    names: Mapping[str, object] = {
        path.stem.replace("_", "-"): path for path in (ROOT / "envmgr/exchange/formats").glob("[a-z]*.py")
    }
    assert [name for name in names if f"| `{name}` |" not in page] == []
