from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from envmgr.backends.conda.cuda import conda_majors, cuda_of, cuda_version
from envmgr.backends.conda.lock import CondaLock, LockedPackage
from envmgr.backends.conda.lock_checks import facts_of, notes_of
from envmgr.backends.conda.models import CondaInput
from envmgr.catalog.lock_checks import UNANSWERED


def package(text: str, *depends: str, constrains: Sequence[str] = ()) -> LockedPackage:
    name, version, build = text.split()
    return LockedPackage(
        name=name,
        version=version,
        build=build,
        url="",
        md5="",
        sha256="",
        depends=depends,
        constrains=tuple(constrains),
    )


def lock(*packages: LockedPackage) -> CondaLock:
    return CondaLock("linux-64", "", packages, ())


def wanted(*specs: str, **virtual: str) -> CondaInput:
    return CondaInput(channels=("c",), specs=specs or ("s",), virtual_packages=virtual)


def faults(*packages: LockedPackage, virtual: Mapping[str, str] | None = None) -> list[tuple[str, str]]:
    said = {"__cuda": "12.9"} if virtual is None else virtual
    found = facts_of(lock(*packages), wanted(**said)).own
    return [(fault.rule, fault.text) for fault in found if fault.rule != UNANSWERED]


@pytest.mark.parametrize(
    ("text", "depends", "majors"),
    [
        ("cuda-version 12.9 h4f385c5_3", (), ["12"]),
        ("cudatoolkit 11.8.0 h4ba93d1_13", (), ["11"]),
        ("libcufft 10.9.0.58 0", (), []),  # its version is its own
        ("libcufft 11.4.1.4 h5888daf_0", ("cuda-version >=12.9,<12.10.0a0",), ["12"]),
        ("cudnn 8.9.7.29 hbc23b4c_3", ("cuda-version >=11.0,<12.0a0", "cudatoolkit 11.*"), ["11"]),
        ("cudnn 8.9.2.26 cuda11_0", (), ["11"]),
        ("pytorch 2.1.0 py3.10_cuda11.8_cudnn8.7.0_0", ("pytorch-cuda >=11.8,<11.9",), ["11"]),
        ("pytorch 2.7.1 cuda126_mkl_py312_h30b5a27_300", (), ["12"]),
        ("pytorch 1.0 cuda92py36h65efead_0", (), ["9"]),
        ("tensorflow 2.4.1 gpu_cuda118py310h1", (), ["11"]),
        ("magma-cuda121 2.6.1 1", (), ["12"]),
        ("faiss 1.7 py39cuda112h3_0_cuda", (), ["11"]),
        ("cuda-pathfinder 1.2.3 pyhd8ed1ab_0", (), []),
        ("cuda-compat 12.9.1 h1_0", (), []),  # may be newer than the rest
        ("ucx 1.18 h1_0", ("cuda-version >=12",), []),  # any later one would do
        ("ucx 1.18 h1_0", ("cuda-version >=11.2,<13",), []),
        ("pytorch 2.1 cpu_py310_0", (), []),
        ("pytorch-cuda 11.8 h7e8668a_5", ("libcublas >=11.11.3.6,<12.0.1.189",), ["11"]),
        ("some 1.0 h1_0", ("conda-forge::cuda-version 12.*|13.*",), []),
        ("some 1.0 h1_0", ("cuda-version=12.4",), ["12"]),
        ("some 1.0 h1_0", ("cuda-version",), []),
        ("dgl-cuda11.3 0.9.1 py39_0", (), ["11"]),
        ("dgl 2.1.0.cu118 py311_0", ("python",), ["11"]),
        ("cuda-nvprof 12.4.127 0", (), ["12"]),
        ("cuda-cudart_linux-64 12.9.79 h3_0", (), ["12"]),
        ("cuda-compat-impl 13.0 h1_0", ("cuda-version >=13,<13.1.0a0",), []),
        ("py-xgboost 2.0.3 cuda120_py311h0_0", ("__cuda", "libxgboost 2.0.3"), ["12"]),  # where nothing else tells
    ],
)
def test_major_of_a_package(text: str, depends: tuple[str, ...], majors: list[str]) -> None:
    assert sorted(conda_majors([package(text, *depends)])) == majors


def test_what_leaves_majors_open_must_allow_the_one_that_is_there() -> None:
    own = package("cuda-version 11.8 h1_0")
    newer = package("ucx 1.18 h1_0", "cuda-version >=12")
    between = package("ucx 1.18 h1_0", "cuda-version >=11.2,<13")
    only_limits = package("libhwloc 2.11 h1_0", constrains=["cuda-version >=12,<13"])
    of_another = package("libhwloc 2.11 h1_0", constrains=["cudatoolkit >=12,<13"])
    told = "ucx 1.18 is for `cuda-version >=12`; CUDA 11: cuda-version 11.8"
    assert faults(own, newer, virtual={"__cuda": "11.8"}) == [("cuda-majors", told)]
    assert faults(own, between, virtual={"__cuda": "11.8"}) == []
    assert [rule for rule, _ in faults(own, only_limits, virtual={"__cuda": "11.8"})] == ["cuda-majors"]
    assert faults(only_limits, virtual={}) == []  # without CUDA it limits nothing
    assert faults(own, of_another, virtual={"__cuda": "11.8"}) == []  # nor what is not there


def nvidias() -> list[LockedPackage]:
    """As nvidia's and pytorch's channels solve CUDA 11.8: libraries that are newer, with a newer cuda-version. Seen in public locks."""
    return [
        package("pytorch-cuda 11.8 h7e8668a_6", "cuda-libraries >=11.8,<12.0"),
        package("pytorch 2.3.1 py3.10_cuda11.8_cudnn8.7.0_0", "pytorch-cuda >=11.8,<11.9"),
        package("cuda-libraries 11.8.0 0", "libcurand >=10.3.0.86", "libcufile >=1.4.0.31"),
        package("libcurand 10.3.9.55 0", "cuda-version >=12.8,<12.9.0a0"),
        package("libcufile 1.13.0.11 0", "cuda-version >=12.8,<12.9.0a0"),
        package("cuda-version 12.8 3", constrains=["__cuda >=12"]),
    ]


def test_libraries_beside_cuda_may_be_newer() -> None:
    made = lock(*nvidias())
    facts = facts_of(made, wanted("pytorch", __cuda="11.8"))
    assert (facts.cuda, list(facts.majors or ()), facts.own) == ("11.8", ["11"], ())
    asked = facts_of(made, wanted("cuda-version 12.8", __cuda="12.8"))  # a recipe that names it means it
    assert list(asked.majors or ()) == ["11", "12"]


def test_build_string_of_what_needs_no_cuda_does_not_decide() -> None:
    found = conda_majors(
        [
            package("cuda-version 11.8 h1_0"),
            package("libxgboost 2.0.3 cuda118_h1_0", "__cuda", "cuda-version >=11.2,<12"),
            package("py-xgboost 2.0.3 cuda120_py311h0_0", "__cuda", "libxgboost 2.0.3"),
        ]
    )
    assert list(found) == ["11"]


def test_cuda_version_is_that_of_the_most_telling_package() -> None:
    rows = ["cuda-version 12.9 h1_0", "pytorch-cuda 12.1 h1_0", "cudatoolkit 11.8.0 h1_0", "cuda-cudart 12.1.105 h1_0"]
    packages = [package(row) for row in rows]
    for at, telling in enumerate(packages):
        assert cuda_version(packages[at:][::-1]) == telling.version
    assert cuda_version([package("python 3.12.1 h1_0"), package("cuda-python 12.0 py_0")]) is None


def test_cuda_of_an_unknown_version_is_cuda() -> None:
    assert cuda_of(lock(package("cudnn 8.9.2.26 cuda11_0")), wanted()) == ""
    assert cuda_of(lock(package("cuda-version 12.9 h1_0")), wanted()) == "12.9"
    assert cuda_of(lock(package("zlib 1.3 h1_0")), wanted()) is None


@pytest.mark.parametrize(
    ("virtual", "told"),
    [
        ({}, "the lock has CUDA 12.9, and `__cuda` is not asked for"),
        ({"__glibc": "2.28"}, "the lock has CUDA 12.9, and `__cuda` is not asked for"),
        ({"__cuda": "11.8"}, "the lock has CUDA 12.9, the recipe says `__cuda` 11.8"),
        ({"__cuda": "12.0"}, ""),  # one major is compatible
        ({"__cuda": "12.9 0"}, ""),
        ({"__cuda": "13.0"}, ""),
    ],
)
def test_cuda_is_asked_for_in_its_major_or_a_later_one(virtual: dict[str, str], told: str) -> None:
    found = faults(package("cuda-version 12.9 h1_0"), virtual=virtual)
    assert found == ([("cuda-virtual", f"input.virtual_packages: {told}")] if told else [])


def test_cuda_that_is_asked_for_and_not_there() -> None:
    assert notes_of(lock(package("zlib 1.3 h1_0")), wanted(__cuda="12.4")) != ()
    assert notes_of(lock(package("zlib 1.3 h1_0")), wanted()) == ()
    assert notes_of(lock(package("cudnn 8.9.2.26 cuda11_0")), wanted(__cuda="12.4")) == ()


@pytest.mark.parametrize(
    ("builds", "variants"),
    [
        (("20_linux64_mkl", "20_linux64_mkl", "20_linux64_mkl"), ""),
        (("35_h5875eb1_mkl", "35_hfef963f_mkl", "35_h5e43f62_mkl"), ""),
        (("20_linux64_mkl", "20_linux64_openblas", "20_linux64_mkl"), "mkl openblas"),
        (("20_linux64_blis", "20_linux64_blis", "8_h372d94f_netlib"), "blis netlib"),
        (("0_unknown", "20_linux64_mkl", "1"), ""),  # what is not known contradicts nothing
    ],
)
def test_blas_is_of_one_variant(builds: Sequence[str], variants: str) -> None:
    names = ("libblas", "libcblas", "liblapack")
    found = faults(*(package(f"{name} 3.9.0 {build}") for name, build in zip(names, builds, strict=True)))
    assert [rule for rule, _ in found] == (["blas-variants"] if variants else [])
    assert all(f"{variant}: " in found[0][1] for variant in variants.split())


def test_name_for_blas_of_an_older_channel_is_no_variant() -> None:
    names = ("libblas", "libcblas", "liblapack")
    assert faults(*(package(f"{name} 3.9.0 20_linux64_openblas") for name in names), package("blas 1.0 mkl")) == []


def test_mkl_and_openblas_side_by_side_are_no_contradiction() -> None:
    assert faults(package("mkl 2023.2.0 h1_0"), package("libopenblas 0.3.30 pthreads_h1_0")) == []
