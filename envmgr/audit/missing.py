"""What nodes lack of an entry's shared libraries: for the check of them, and for the matrix of what can run where."""

from __future__ import annotations

import re

from envmgr.probe.model import Facts

# Come with NVIDIA's driver, never with an install. Source: NVIDIA, Linux driver's README, "Installed Components".
_OF_THE_DRIVER = re.compile(
    r"lib(cuda|cudadebugger|nvcuvid|nvidia-[a-z0-9-]+|nvoptix|vdpau_nvidia|EGL_nvidia|GLX_nvidia|GLESv[0-9](_CM)?_nvidia)\.so(\..*)?"
)


def missing_libraries(entry: str, facts: Facts) -> dict[str, str]:
    """library -> files of the entry that need it; without the driver's where there is no driver."""
    found: dict[str, list[str]] = {}
    for line in facts.get(f"libraries.missing.{entry}", "").splitlines():
        library, _, needed_by = line.partition(" ")
        if facts.get("libraries.driver") == "yes" or not _OF_THE_DRIVER.fullmatch(library):
            found.setdefault(library, []).append(needed_by)
    return {library: " ".join(files) for library, files in found.items()}
