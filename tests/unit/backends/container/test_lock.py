"""The CUDA of an image, by the variables of NVIDIA's images."""

from __future__ import annotations

import pytest

from envmgr.backends.container.lock import ContainerLock, LockedBlob
from envmgr.catalog.lock_checks import LockFacts, judge_lock
from envmgr.catalog.recipe import load_recipe
from envmgr.system.files import shipped

# Of nvcr.io/nvidia/pytorch:24.08-py3 by its release notes (CUDA 12.6), and of docker.io/nvidia/cuda:12.4.1 by its Dockerfile.
NGC = ("CUDA_VERSION=12.6.0.022", "CUDA_DRIVER_VERSION=560.35.03", "NVIDIA_REQUIRE_CUDA=cuda>=9.0")
CUDA = ("NVIDIA_REQUIRE_CUDA=cuda>=12.4 brand=tesla,driver>=470,driver<471 brand=unknown,driver>=470,driver<471",)


def lock(*environment: str) -> ContainerLock:
    blob = LockedBlob(sha256="0" * 64, size=1, media_type="x")
    facts = {"recipe_digest": "0" * 64, "image": "r/x:1", "platform": "linux/amd64", "manifest": "0" * 64}
    return ContainerLock(**facts, config=blob, layers=(blob,), environment=environment)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("environment", "cuda"),
    [
        (NGC, "12.6"),
        (CUDA, "12.4"),
        (("CUDA_VERSION=11.8", *CUDA), "11.8"),
        (("NVIDIA_REQUIRE_CUDA=brand=tesla,cuda>=11.2",), "11.2"),
        (("NVIDIA_REQUIRE_CUDA=driver>=470",), None),
        (("CUDA_VERSION=latest",), None),
        (("CUDA_VERSION=",), None),
        ((), None),
    ],
)
def test_cuda_of_an_image(environment: tuple[str, ...], cuda: str | None) -> None:
    assert lock(*environment).cuda() == cuda


@pytest.mark.parametrize("entry", ["pytorch-ngc/24.08", "tensorflow-ngc/24.08"])
def test_shipped_recipe_of_an_image_can_be_locked(entry: str) -> None:
    recipe = load_recipe(shipped("recipes") / entry / "recipe.yaml")
    assert judge_lock(LockFacts(lock(*NGC).cuda()), recipe).faults == ()
