"""What a node tells of its GPUs, whoever made them."""

from __future__ import annotations

from envmgr.system.models import FrozenModel


class Gpu(FrozenModel):
    """One GPU. `arch` is NVIDIA's compute capability (`7.5`) or AMD's target (`gfx90a`), empty where it was not told (hidden).

    `driver` is the version of the loaded kernel module that drives it; empty: nothing drives it; None: could not be read.
    """

    vendor: str
    arch: str = ""
    name: str = ""
    driver: str | None = None


class GpuFacts(FrozenModel):
    """`gpus` is None where nobody looked. `library` is the version of libcuda.so.1: empty where it is not there, None where nobody looked.
    `cuda` is the CUDA version that the driver itself names; empty where it was not asked.
    """

    gpus: tuple[Gpu, ...] | None = None
    library: str | None = None
    cuda: str = ""
