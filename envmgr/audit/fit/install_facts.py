"""Facts that nodes report about installs, for the checks of software and libraries and for the table of entries and
nodes.
"""

from __future__ import annotations

import re

from envmgr.audit.plan import ExpectedInstall
from envmgr.errors import signal_text
from envmgr.probe.model import Facts, grouped

_LEFT = ("124", "137")  # from timeout(1): the program was terminated, or killed
_LOAD = "200"  # from software.login.sh: the entry could not be loaded, which another check reports


def installed_program(install: ExpectedInstall) -> str:
    return f"{install.root}/{install.program}".replace("/./", "/")


def start_fault(status: str, said: str = "") -> str:
    """Return why a program did not start, by its status in a shell; empty if it did, even if it rejects `--version`."""
    number = int(status) if status.isdecimal() else 0
    if status in _LEFT:
        return "no end of `--version`"
    if number < 126 or status == _LOAD:
        return ""
    what = signal_text(number - 128) if number > 128 else f"exit status {number}"
    return f"does not start, {what}{f': {said}' if said else ''}"


def program_fault(install: ExpectedInstall, facts: Facts) -> str | None:
    """Return the fault of its program in a clean environment; empty if it starts, None if it was not tried."""
    status = facts.get(f"software.status.{install.entry}")
    if status is None or status == _LOAD:
        return None
    found = facts.get(f"software.found.{install.entry}", "")
    if found != installed_program(install):
        return f"`{install.program.rpartition('/')[2]}` is {found or 'not in PATH'}"
    return start_fault(status, facts.get(f"software.said.{install.entry}", ""))


# Libraries of NVIDIA's driver, never of an install. Source: NVIDIA, Linux driver's README, "Installed Components".
_OF_THE_DRIVER = re.compile(
    r"lib(cuda|cudadebugger|nvcuvid|nvidia-[a-z0-9-]+|nvoptix|vdpau_nvidia|EGL_nvidia|GLX_nvidia|GLESv[0-9](_CM)?_nvidia)\.so(\..*)?"
)


def missing_libraries(entry: str, facts: Facts) -> dict[str, list[str]]:
    """Return library -> files of the entry that need it; without the driver's libraries if there is no driver."""
    lines = (line.partition(" ")[::2] for line in facts.get(f"libraries.missing.{entry}", "").splitlines())
    has_driver = facts.get("libraries.driver") == "yes"
    return grouped((lib, file) for lib, file in lines if has_driver or not _OF_THE_DRIVER.fullmatch(lib))
