"""The shipped recipes: their locks are fresh, real, of packages that belong together, and conda-lock reads them."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
import yaml

from envmgr.backends import locked_packages
from envmgr.backends.conda.lock import LockedPackage
from envmgr.backends.conda.lockfile import LOCK_NAME, SIDECAR_NAME
from envmgr.backends.conda.models import CondaInput
from envmgr.catalog.names import parse_entry
from envmgr.catalog.recipe import Recipe, load_recipe
from envmgr.catalog.site import load_site
from tests.helpers.shipped import CONDA_FORGE, DRIVERS, ENTRIES, NOTE, ROOT, lock_of

every_entry = pytest.mark.parametrize("entry", ENTRIES)


def recipe_of(entry: str) -> Recipe:
    return load_recipe(ROOT / entry / "recipe.yaml")


def packages_of(entry: str) -> dict[str, LockedPackage]:
    return {p.name: p for p in lock_of(entry).packages}


def demands(entry: str, name: str) -> set[str]:
    """The versions that packages of an entry ask of `name`, as they write them."""
    found = [d.partition(" ") for p in lock_of(entry).packages for d in p.depends]
    return {rest for first, _, rest in found if first == name}


@every_entry
def test_shipped_lock_has_real_urls_and_says_where_its_records_come_from(entry: str) -> None:
    lock = lock_of(entry)

    assert [c.url for c in lock.channels] == [CONDA_FORGE]
    for package in lock.packages:
        assert re.fullmatch(rf"{CONDA_FORGE}/(linux-64|noarch)/{package.name}-[^/]+\.(conda|tar\.bz2)", package.url)
        assert re.fullmatch(r"[0-9a-f]{64} [0-9a-f]{32}", f"{package.sha256} {package.md5}")
    said = yaml.safe_load((ROOT / entry / LOCK_NAME).read_text())["metadata"]["custom_metadata"]
    assert said["envmgr_snapshot_conda-forge"].startswith(f"{NOTE}; linux-64 ")


@every_entry
def test_driver_requirement_is_nvidias_for_the_cuda_of_the_lock(entry: str) -> None:
    assert recipe_of(entry).requires.nvidia_driver == DRIVERS.get(entry)
    assert ("cuda-version" in packages_of(entry)) == (entry in DRIVERS)


@every_entry
def test_glibc_requirement_is_the_highest_of_the_lock(entry: str) -> None:
    asked = [m[1] for d in demands(entry, "__glibc") if (m := re.match(r">=([0-9.]+)", d))]

    assert recipe_of(entry).requires.glibc == max(asked or ["2.17"], key=numbers)


@every_entry
def test_smoke_tests_include_one_that_runs_anywhere(entry: str) -> None:
    needs = {t.name: t.needs for t in recipe_of(entry).tests}

    assert () in needs.values()
    assert (("gpu",) in needs.values()) == (entry in DRIVERS)


@pytest.mark.parametrize("entry", DRIVERS)
def test_cuda_packages_are_of_the_cuda_in_the_entrys_name(entry: str) -> None:
    cuda = entry.partition("-cuda")[2]
    packages = packages_of(entry)

    assert packages["cuda-version"].version == cuda
    own = {n: p.version for n, p in packages.items() if re.match(r"cuda-|cudatoolkit", n)}
    assert {n: v for n, v in own.items() if v.split(".")[:2] != cuda.split(".")} == {}
    here = numbers(cuda)
    for asked in demands(entry, "cuda-version"):
        low, high = re.search(r">=([0-9.]+)", asked), re.search(r"<([0-9.]+)", asked)
        assert low is None or numbers(low[1]) <= here, asked
        assert high is None or here < numbers(high[1]), asked


def numbers(version: str) -> list[int]:
    return [int(n) for n in version.strip(".").split(".")]


@every_entry
def test_python_packages_are_for_the_python_of_the_lock(entry: str) -> None:
    packages = packages_of(entry)
    tags = {m[1] for p in packages.values() if (m := re.search(r"(?:^|_|\d)py(3\d+)", p.build))}

    expected = "".join(packages["python"].version.split(".")[:2]) if "python" in packages else None
    assert tags <= {expected}
    assert {p.version for n, p in packages.items() if n == "python_abi"} <= {recipe_python(entry)}


def recipe_python(entry: str) -> str:
    specs = [s.split() for s in recipe_of(entry).input["specs"]]
    return next((s[1].removesuffix(".*") for s in specs if s[0] == "python"), "none")


@every_entry
def test_variants_that_belong_together_are_of_one_build(entry: str) -> None:
    packages = packages_of(entry)

    def of(names: str, part: Callable[[LockedPackage], str]) -> set[str]:
        return {part(packages[n]) for n in names.split() if n in packages}

    assert len(of("libblas libcblas liblapack", lambda p: re.sub(r"_h[0-9a-f]{7}", "", p.build))) <= 1
    assert (
        len(
            of("libgcc libgcc-ng libgomp libstdcxx libstdcxx-ng", lambda p: f"{p.version} {p.build.rpartition('_')[2]}")
        )
        == 1
    )
    assert len(of("libgfortran libgfortran-ng libgfortran5", lambda p: p.version)) <= 1
    assert len(of("cudnn libcudnn libcudnn-dev", lambda p: p.version)) <= 1
    openmp = packages["_openmp_mutex"].build
    assert ("libgomp" in packages, "llvm-openmp" in packages) == ((True, False) if "gnu" in openmp else (False, True))


@every_entry
def test_every_dependency_is_in_the_lock_or_declared(entry: str) -> None:
    lock = lock_of(entry)
    have = {p.name for p in lock.packages} | {*CondaInput.model_validate(recipe_of(entry).input).all_virtual_packages()}

    missing = {(p.name, d) for p in lock.packages for d in p.depends if re.split(r"[ <>=!~]", d)[0] not in have}
    assert missing == set()


def test_shipped_locks_name_no_place_of_the_machine_that_made_them() -> None:
    text = "".join(f.read_text() for e in ENTRIES for f in (ROOT / e / LOCK_NAME, ROOT / e / SIDECAR_NAME))

    assert set(re.findall(r"[a-z]+://[^/\s\"]+/[^/\s\"]+", text)) == {CONDA_FORGE}
    assert re.findall(r"(?<![\w/:.])/(?:home|root|tmp|work|opt|srv|mnt)\b", text) == []


def test_entries_that_become_kernels_by_jupyters_help_have_ipykernel() -> None:
    """Jupyter's help names them by software, so every version of these counts."""
    text = recipe_of("jupyter/4.6").help
    assert "`python -m ipykernel install --user --name NAME`" in text
    line = next(line for line in text.splitlines() if "have ipykernel" in line)
    named = sorted(folder.name for folder in ROOT.iterdir() if re.search(rf"\b{folder.name}\b", line))

    assert named == ["pytorch", "tensorflow"]
    for path in [path for name in named for path in sorted(ROOT.glob(f"{name}/*/recipe.yaml"))]:
        entry = parse_entry(f"{path.parent.parent.name}/{path.parent.name}")
        packages = locked_packages(entry, load_recipe(path), path.parent, load_site(None, {"HOME": "/nowhere"}))
        assert "ipykernel" in {name.partition(" ")[0] for name in packages}, path
