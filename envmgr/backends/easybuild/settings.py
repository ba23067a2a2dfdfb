"""What the site says of EasyBuild, under `backends.easybuild`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from pydantic import Field

from envmgr.backends.easybuild.capabilities import AmdCapabilities, CudaCapabilities
from envmgr.catalog.settings import SiteFact, backend_settings
from envmgr.catalog.site import Site
from envmgr.system.models import FrozenModel
from envmgr.system.resources import shipped


class EasyBuildSettings(FrozenModel):
    """`backends.easybuild` of the site."""

    easyconfigs: tuple[Path, ...] = Field(
        default=(),
        description="folders of easyconfigs, searched before those that ship with envmgr and EasyBuild's own",
    )
    cuda_compute_capabilities: CudaCapabilities = Field(
        default=(), description="of the NVIDIA GPUs to compile for, where a recipe does not say its own"
    )
    amdgcn_capabilities: AmdCapabilities = Field(
        default=(), description="the architectures of the AMD GPUs to compile for, where a recipe does not say its own"
    )


def easybuild_settings(site: Site) -> EasyBuildSettings:
    return backend_settings(site, "easybuild", EasyBuildSettings)


def own_easyconfigs(site: Site) -> tuple[Path, ...]:
    """The site's own folders of easyconfigs."""
    return tuple(site.absolute(path) for path in easybuild_settings(site).easyconfigs)


def easyconfig_folders(site: Site) -> tuple[Path, ...]:
    """Where easyconfigs are looked for, in this order, before EasyBuild's own: the site's, then those that ship with envmgr."""
    return (*own_easyconfigs(site), shipped("easyconfigs"))


def explain_settings(site: Site) -> Iterator[SiteFact]:
    field = "backends.easybuild.easyconfigs"
    for folder in own_easyconfigs(site):
        if folder.is_dir():
            count = sum(1 for _ in folder.glob("[a-z0-9]/*/*.eb"))
            yield SiteFact(field, "ok", f"{folder}, {count} files")
        else:
            yield SiteFact(field, "error", f"{folder} does not exist", "make it, or take it out")
