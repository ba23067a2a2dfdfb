"""What an entry needs of a GPU: from its lock, its recipe, and what was measured in its install."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from envmgr.catalog.gpu.codes import Code, parse_code
from envmgr.catalog.gpu.tables import SHIPPED
from envmgr.system.models import FrozenModel

if TYPE_CHECKING:
    from envmgr.catalog.recipe import Requires


class GpuNeeds(FrozenModel):
    """An entry's part. `cuda` is the version of its lock (`12.1`), empty where that is not known, None where the lock has no CUDA.

    `codes` (`8.6`, `9.0+PTX`) are None where not known; without CUDA nobody asks for them. `compat` is the version of `cuda-compat`
    in the lock, `driver` a minimum that the recipe names.
    """

    cuda: str | None = ""
    codes: tuple[str, ...] | None = None
    compat: str = ""
    driver: str = ""

    def parsed(self) -> tuple[Code, ...] | None:
        return None if self.codes is None else tuple(map(parse_code, self.codes))


def gpu_needs(
    requires: Requires, cuda: str | None = None, compat: str = "", measured: Sequence[str] | None = None
) -> GpuNeeds | None:
    """None for an entry that needs no GPU. What was measured in the install wins over what the recipe says; an empty list is nothing measured."""
    codes = tuple(measured or requires.compute_capability) or None
    driver = requires.nvidia_driver or ""
    if cuda is None and codes is None and not driver:
        return None
    return GpuNeeds(cuda="" if cuda is None and codes else cuda, codes=codes, compat=compat, driver=driver)


def short_cuda(version: str | None) -> str | None:
    """`12.1` of `12.1.105`; None stays None."""
    return None if version is None else ".".join(version.split(".")[:2])


def toolkit_driver(cuda: str) -> str:
    """The driver that the toolkit brings; empty where no table tells."""
    return SHIPPED.get(cuda, "")
