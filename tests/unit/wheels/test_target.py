"""What a lock of wheels tells without asking anybody: CUDA, glibc, the tags of its target."""

from __future__ import annotations

import pytest

from envmgr.wheels.target import cuda_majors, cuda_of_wheels, glibc_of, newer_than_cuda, target_tags


@pytest.mark.parametrize(
    ("versions", "cuda"),
    [
        ({"torch": "2.1.2", "nvidia-cuda-runtime-cu12": "12.1.105"}, "12.1"),
        ({"torch": "2.15.0", "nvidia-cuda-runtime": "13.2.86", "nvidia-nccl-cu13": "2.30.7"}, "13.2"),
        ({"torch": "2.1.2+cu118"}, "11.8"),
        ({"torch": "2.7.0+cpu"}, None),
        ({"flash": "1.0+pt2.cu121"}, "12.1"),
        ({"numpy": "1.26.4"}, None),
        ({"nvidia-cuda-runtime": "1!12.4"}, None),  # a version of PEP 440, and no number before its first dot
        ({"nvidia-cuda-runtime-cu12": "v12.4"}, None),
    ],
)
def test_cuda_of_an_environment(versions: dict[str, str], cuda: str | None) -> None:
    assert cuda_of_wheels(versions) == cuda


def test_cuda_majors_of_names_and_of_versions() -> None:
    versions = {
        "nvidia-cudnn-cu12": "9.1",
        "nvidia-cuda-runtime": "13.0.1",
        "nvidia-nvjitlink": "13.5",
        "torch": "2.1+cu118",
        "nvidia-ml-py": "12.5",
    }
    assert cuda_majors(versions) == {
        "12": ["nvidia-cudnn-cu12 9.1"],
        "13": ["nvidia-cuda-runtime 13.0.1", "nvidia-nvjitlink 13.5"],
        "11": ["torch 2.1+cu118"],
    }


@pytest.mark.parametrize(
    ("name", "version", "major"),
    [
        ("cupy-cuda12x", "13.4", "12"),
        ("cudf-cu12", "25.2", "12"),
        ("jax-cuda12-plugin", "0.5", "12"),
        ("tensorrt-cu12-libs", "10.3", "12"),
        ("torch-scatter", "2.1.2+pt25cu124", "12"),
        ("flash-attn", "2.7.4+cu12torch2.5cxx11abifalse", "12"),
        ("jaxlib", "0.4.25+cuda12.cudnn89", "12"),
        ("nvidia-cublas", "13.1.0", "13"),
        ("nvidia-nvtx", "13.0.85", "13"),
        ("cuda-toolkit", "13.0.2", "13"),
        ("nvidia-cufft", "12.0", ""),  # its own version
        ("nvidia-cudnn", "9.1", ""),
        ("nvidia-cuda-runtime", "0.0.1", ""),  # a place holder
        ("cuda-bindings", "12.9", ""),  # loads what is there
        ("torch", "2.1+cpu", ""),
        ("acute-cu", "12.1", ""),
    ],
)
def test_cuda_major_of_a_wheel(name: str, version: str, major: str) -> None:
    assert cuda_majors({name: version}) == ({major: [f"{name} {version}"]} if major else {})


def test_communication_library_alone_is_no_cuda() -> None:
    assert cuda_majors({"xgboost": "3.0", "nvidia-nccl-cu12": "2.27"}) == {}
    assert cuda_of_wheels({"nvidia-cuda-runtime": "0.0.1"}) is None
    both = {"nvidia-nccl-cu12": "2.27", "nvidia-cudnn-cu13": "9.1"}
    assert sorted(cuda_majors(both)) == ["12", "13"]


def test_libraries_of_a_later_cuda_than_the_runtime() -> None:
    base = {"nvidia-cuda-runtime-cu12": "12.1.105", "nvidia-cuda-nvrtc-cu12": "12.1.105", "nvidia-cudnn-cu12": "13.9"}
    assert newer_than_cuda(base) == []
    assert newer_than_cuda({**base, "nvidia-nvjitlink-cu12": "12.9.86"}) == ["nvidia-nvjitlink-cu12 12.9.86"]
    assert newer_than_cuda({"nvidia-nvjitlink-cu12": "12.9.86"}) == []


def test_glibc_of_a_platform() -> None:
    assert glibc_of("x86_64-manylinux_2_28") == "2.28"


def test_tags_of_a_target_do_not_ask_the_host() -> None:
    tags = [str(tag) for tag in target_tags("3.12.1", "x86_64-manylinux_2_17")]
    assert tags[:3] == [
        "cp312-cp312-manylinux_2_17_x86_64",
        "cp312-cp312-manylinux2014_x86_64",
        "cp312-cp312-manylinux_2_16_x86_64",
    ]
    assert "cp311-abi3-manylinux1_x86_64" in tags
    assert tags[-1] == "py30-none-any"
    assert not any("2_28" in tag or "2_36" in tag or "aarch64" in tag for tag in tags)
    arm = [str(tag) for tag in target_tags("3.11", "aarch64-manylinux_2_28")]
    assert "cp311-cp311-manylinux2014_aarch64" in arm
    assert not any("manylinux2010" in tag for tag in arm)
