"""conda-lock.yml and its sidecar: stable bytes, round trips, and what is wrong with a file told exactly."""

from __future__ import annotations

import dataclasses
import json
import random
import re
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from envmgr.backends.conda.lock import ChannelSource, CondaLock, LockedPackage
from envmgr.backends.conda.lockfile import LOCK_NAME, SIDECAR_NAME, _dependencies, lock_texts, read_lock
from envmgr.backends.conda.solve_worker import canonical
from envmgr.catalog.locks import LockChange, diff_packages
from envmgr.errors import EnvmgrError, InputError

URL = "https://example.org/channel"

# Texts that YAML readers like to take for something else are what matters here.
words = st.text("abcdefghijklmnopqrstuvwxyz0123456789_.", min_size=1, max_size=8)
texts = words | st.sampled_from(["1.10", "1e5", "0x1f", "1_000", "no", "null", "2024.01", "1!2.0", "12e03", ".5", "~"])
specs = st.builds(
    lambda n, s: f"{n} {s}".strip(), words, st.sampled_from(["", ">=1.2,<2.0a0", "1.0.*", "* h1_0", "1|2"])
)


@st.composite
def packages(draw: st.DrawFn, name: str) -> LockedPackage:
    version, build, subdir = draw(texts), draw(texts), draw(st.sampled_from(["linux-64", "noarch"]))
    return LockedPackage(
        name=name,
        version=version,
        build=build,
        url=f"{URL}/{subdir}/{name}-{version}-{build}{draw(st.sampled_from(['.conda', '.tar.bz2']))}",
        md5=draw(st.just("") | st.text("0123456789abcdef", min_size=32, max_size=32)),
        sha256=draw(st.text("0123456789abcdef", min_size=64, max_size=64)),
        depends=tuple(f"{of} {text}".strip() for of, text in _dependencies(draw(st.lists(specs, max_size=3))).items()),
        constrains=tuple(draw(st.lists(specs, max_size=2))),
        size=draw(st.none() | st.integers(0, 1 << 40)),
        timestamp=draw(st.none() | st.integers(0, 1 << 41)),
        license=draw(st.none() | st.sampled_from(["MIT", "Größe: ünfrei # 1"])),
    )


@st.composite
def locks(draw: st.DrawFn) -> CondaLock:
    names = sorted(draw(st.sets(words, min_size=1, max_size=5)))
    note = draw(st.sampled_from(["", "a snapshot: of 2026-11-20", "é # 'quoted'"]))
    source = ChannelSource("c", URL, {"linux-64": "a" * 64, "noarch": "b" * 64}, note)
    return CondaLock("linux-64", "d" * 64, tuple(draw(packages(n)) for n in names), (source,))


def write(folder: Path, lock: CondaLock) -> Path:
    for name, text in lock_texts(lock).items():
        (folder / name).write_text(text, encoding="utf-8")
    return folder / LOCK_NAME


def simple(**changes: Any) -> LockedPackage:
    base = {"name": "zlib", "version": "1.3", "build": "h1_5", "md5": "1" * 32}
    base |= {"url": f"{URL}/linux-64/zlib-1.3-h1_5.conda", "sha256": "2" * 64}
    return LockedPackage(**{**base, **changes})


def lock_with(*found: LockedPackage) -> CondaLock:
    return CondaLock("linux-64", "d" * 64, found, (ChannelSource("c", URL),))


@given(locks(), st.randoms())
def test_lock_text_is_the_same_for_any_order_of_its_input(lock: CondaLock, shuffle: random.Random) -> None:
    def mixed(values: Any) -> Any:
        return type(values)(shuffle.sample(list(values), len(values)))

    digests = lock.channels[0].snapshot or {}
    source = dataclasses.replace(lock.channels[0], snapshot=dict(mixed(list(digests.items()))))
    other = dataclasses.replace(lock, packages=mixed(lock.packages), channels=(source,))

    assert lock_texts(other) == lock_texts(lock)


@given(locks())
def test_lock_reads_back_as_it_was_written(lock: CondaLock) -> None:
    with TemporaryDirectory() as folder:
        write(Path(folder), lock)
        read = read_lock(Path(folder))[0]
    # The name of a channel and its snapshot are for people, and for the notes of `lock`.
    assert read == dataclasses.replace(lock, channels=(ChannelSource(URL, URL),))


@given(locks())
def test_lock_without_its_sidecar_has_the_same_identity(lock: CondaLock) -> None:
    with TemporaryDirectory() as name:
        folder = Path(name)
        write(folder, lock)
        full = read_lock(folder)
        (folder / SIDECAR_NAME).unlink()
        bare = read_lock(folder)

    assert bare[0].identity() == full[0].identity()
    assert bare[0].recipe_digest == full[0].recipe_digest
    assert bare[1] == full[1]  # the sha256 of the text


@given(locks())
def test_lock_has_no_plain_scalar_that_yaml_1_2_reads_as_a_number(lock: CondaLock) -> None:
    text = lock_texts(lock)[LOCK_NAME]

    number = r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|0x[0-9a-f]+|0o[0-7]+"
    plain = [v for v in re.findall(r"^ +[A-Za-z0-9_.-]+: (.+)$", text, re.MULTILINE) if re.fullmatch(number, v)]
    assert plain == []


def test_lock_is_written_after_its_sidecar() -> None:
    assert list(lock_texts(lock_with(simple()))) == [SIDECAR_NAME, LOCK_NAME]


def test_lock_text_is_conda_lock_version_1() -> None:
    data = yaml.safe_load(lock_texts(lock_with(simple(depends=("libgcc >=13", "mpi 1.0 mpich"))))[LOCK_NAME])

    assert data == {
        "version": 1,
        "metadata": {
            "content_hash": {"linux-64": "d" * 64},
            "channels": [{"url": URL, "used_env_vars": []}],
            "platforms": ["linux-64"],
            "sources": ["recipe.yaml"],
            "custom_metadata": {"envmgr_recipe_digest": "d" * 64},
        },
        "package": [
            {
                "name": "zlib",
                "version": "1.3",
                "manager": "conda",
                "platform": "linux-64",
                "dependencies": {"libgcc": ">=13", "mpi": "1.0 mpich"},
                "url": f"{URL}/linux-64/zlib-1.3-h1_5.conda",
                "hash": {"md5": "1" * 32, "sha256": "2" * 64},
                "build": "h1_5",
                "category": "main",
                "optional": False,
            }
        ],
    }


@pytest.mark.parametrize(
    ("depends", "expected"),
    [
        (["python", "a 1.0"], {"a": "1.0", "python": ""}),
        (["python >=3.9", "python <4"], {"python": ">=3.9,<4"}),
        (["python", "python <4", "python *"], {"python": "<4"}),
        (["python >=3.9 *_cpython", "python <4"], {"python": ">=3.9,<4 *_cpython"}),
        (["python 3.9|3.11", "python <4"], {"python": "(3.9|3.11),<4"}),
        (["libblas * *mkl"], {"libblas": "* *mkl"}),
        (["numpy>=1.2", "click >= 7, <9"], {"click": ">=7,<9", "numpy": ">=1.2"}),
    ],
)
def test_dependencies_of_one_name_are_folded(depends: list[str], expected: dict[str, str]) -> None:
    assert _dependencies(depends) == expected


def test_a_dependency_with_a_long_row_of_spaces_takes_no_longer_than_it_is_long() -> None:
    """A minute or more, if each space began a look at all that follow it."""
    assert _dependencies([f"a{' ' * 1_000_000}>=1 ,{' ' * 1_000_000}<2"]) == {"a": ">=1,<2"}


def test_edited_lock_is_read_without_its_sidecar(tmp_path: Path) -> None:
    path = write(tmp_path, lock_with(simple(size=5)))
    assert read_lock(tmp_path)[0].packages[0].size == 5

    path.write_text(path.read_text().replace("zlib-1.3-h1_5", "zlib-1.3-h2_6"))

    (package,) = read_lock(tmp_path)[0].packages
    assert (package.build, package.size) == ("h2_6", None)


def test_package_of_an_escaped_url_keeps_its_version_and_build(tmp_path: Path) -> None:
    write(tmp_path, lock_with(simple(version="1!2.0", url=f"{URL}/linux-64/zlib-1%212.0-h1_5.conda")))
    (tmp_path / SIDECAR_NAME).unlink()

    (package,) = read_lock(tmp_path)[0].packages
    assert (package.version, package.build) == ("1!2.0", "h1_5")


def test_lock_without_sha256_is_refused_with_its_place(tmp_path: Path) -> None:
    path = write(tmp_path, lock_with(simple(name="abc", url=f"{URL}/linux-64/abc-1.3-h1_5.conda"), simple()))
    path.write_text(path.read_text().replace(f"    sha256: '{'2' * 64}'\n", "", 2))
    line = path.read_text().splitlines().index(f"  url: {URL}/linux-64/abc-1.3-h1_5.conda") + 1

    with pytest.raises(InputError) as caught:
        read_lock(tmp_path)

    assert caught.value.render() == (
        f"error[lock-unhashed]: {path}:{line}: abc 1.3 has no sha256\n"
        f"  {URL}/linux-64/abc-1.3-h1_5.conda\n"
        "\n"
        "hint: lock again from a channel whose repodata has sha256 sums"
    )


def change(path: tuple[str | int, ...], value: Any) -> Callable[[dict[str, Any]], None]:
    def work(data: Any) -> None:
        for part in path[:-1]:
            data = data[part]
        data[path[-1]] = value

    return work


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (change(("version",), 2), "{path} is not a conda-lock v1 file\n  version: 2"),
        (change(("package",), {}), "{path}: `package` must be a list\n  found dict"),
        (
            change(("metadata", "platforms"), ["linux-64", "osx-64"]),
            "{path}: one platform is expected\n  platforms: ['linux-64', 'osx-64']",
        ),
        (change(("package", 0, "manager"), "npm"), "{path}: package[0]: manager `npm` is not supported\n  zlib"),
        (
            change(("package", 0, "manager"), "pip"),
            "{path}: package[0]: manager `pip` is not supported\n  zlib\n\nhint: `pip` in recipe.yaml asks for wheels, and `envmgr lock` writes them into wheels.lock",
        ),
        (
            change(("package", 0, "platform"), "osx-64"),
            "{path}: package[0]: platform `osx-64` in a lock for linux-64\n  zlib",
        ),
        (change(("package", 0, "version"), 1.3), "{path}: package[0]: `version` must be a str\n  found float"),
        (
            change(("package", 0, "name"), "xz"),
            f"{{path}}: package[0]: the URL does not name xz 1.3\n  {URL}/linux-64/zlib-1.3-h1_5.conda",
        ),
        (lambda data: data["package"].append(data["package"][0]), "{path}: zlib is locked twice\n  zlib"),
        (change(("package", 0), "zlib"), "{path}: package[0] is not a mapping"),
    ],
)
def test_faulty_lock_is_refused_with_the_fault(tmp_path: Path, edit: Callable[[Any], None], message: str) -> None:
    path = write(tmp_path, lock_with(simple()))
    data = yaml.safe_load(path.read_text())
    edit(data)
    path.write_text(json.dumps(data))

    with pytest.raises(InputError) as caught:
        read_lock(tmp_path)

    assert caught.value.render() == f"error[lock-invalid]: {message.format(path=path)}"


def test_faulty_sidecar_is_refused_when_it_claims_the_lock(tmp_path: Path) -> None:
    write(tmp_path, lock_with(simple(constrains=("xz >=5",), size=5)))
    sidecar = tmp_path / SIDECAR_NAME
    data = json.loads(sidecar.read_text())
    assert data["packages"] == {"zlib": {"constrains": ["xz >=5"], "size": 5}}

    for changed in (
        {**data, "packages": {"zlib": {"url": "https://evil.example/linux-64/zlib-1.3-h1_5.conda"}}},
        {**data, "packages": {"zlib": {"python_site_packages_path": "../../etc"}}},
        {k: v for k, v in data.items() if k != "packages"},
    ):
        sidecar.write_text(json.dumps(changed))
        with pytest.raises(InputError) as caught:
            read_lock(tmp_path)
        assert caught.value.message == f"{sidecar} lacks or misnames a field"
    sidecar.write_text("{")
    with pytest.raises(InputError, match="is not JSON"):
        read_lock(tmp_path)


def test_missing_lock_is_an_error_that_says_what_to_run(tmp_path: Path) -> None:
    folder = tmp_path / "demo" / "1"
    folder.mkdir(parents=True)

    with pytest.raises(EnvmgrError) as caught:
        read_lock(folder)

    assert caught.value.render() == (
        f"error[lock-missing]: demo/1 has no lock\n  {folder / LOCK_NAME}\n\n"
        "hint: run `envmgr lock demo/1` and commit the result"
    )


def test_changes_are_added_removed_and_changed_packages_by_name() -> None:
    old, new = {"a": "1 0", "b": "1 0", "c": "1 0"}, {"d": "1 0", "b": "1 1", "c": "1 0"}

    assert diff_packages(old, new) == (
        LockChange("a", "1 0", ""),
        LockChange("b", "1 0", "1 1"),
        LockChange("d", "", "1 0"),
    )


def test_url_is_canonical_when_one_place_lies_in_another() -> None:
    channels = [
        {"url": "https://example.org/main", "places": ["file:///mirror"]},
        {"url": "https://example.org/extra/", "places": ["http://m/x", "file:///mirror/extra/"]},
    ]
    request = {"channels": channels}

    assert canonical("file:///mirror/noarch/a-1-0.conda", request) == "https://example.org/main/noarch/a-1-0.conda"
    assert (
        canonical("file:///mirror/extra/noarch/a-1-0.conda", request) == "https://example.org/extra/noarch/a-1-0.conda"
    )
    assert canonical("file:///mirror2/noarch/a-1-0.conda", request) == "file:///mirror2/noarch/a-1-0.conda"
