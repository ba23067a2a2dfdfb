"""An EasyBuild that is installed, and how its process is started.

It always runs as a process of its own: its start-up takes a second, and its licence is GPL-2.0-only. envmgr imports nothing of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from envmgr.backends.easybuild.contents import Places
from envmgr.errors import EnvmgrError
from envmgr.system.run import clean_env

_INSIDE = Path(__file__).resolve().parent / "inside"


@dataclass(frozen=True, slots=True)
class EasyBuild:
    """One that is installed: where, and the Python that runs it; `lmod_command` is what its `$LMOD_CMD` needs."""

    python: Path
    places: Places
    version: str
    lmod_command: Path

    @property
    def easyconfigs(self) -> Path:
        """The easyconfigs that come with it."""
        return self.places.home / "easybuild" / "easyconfigs"

    @property
    def inside(self) -> Path:
        """Our files that run in it."""
        return _INSIDE

    def argv(self, program: str | Path, *arguments: str | Path) -> list[str | Path]:
        """The command that runs a module of EasyBuild, or one of our files, with nothing else to import."""
        return [self.python, "-S", "-s", "-P", self.inside / "start.py", self.places.packages, program, *arguments]

    def require(self, framework: str, easyblocks: str) -> None:
        """Raises EnvmgrError `easybuild-differs` unless these are the versions that are installed in it."""
        for part, wanted in (("framework", framework), ("easyblocks", easyblocks)):
            if (found := self.places.version(part)) != wanted:
                raise EnvmgrError(
                    "easybuild-differs",
                    f"the lock wants {part} {wanted} of EasyBuild, its environment has another",
                    context=[str(self.places.home), f"{part} {found}" if found else f"no {part} is installed in it"],
                    hint="lock the entry again; if that environment was changed, install it anew",
                )

    def environment(self, **extra: str) -> dict[str, str]:
        """A scrubbed one: no loaded modules, no compiler flags, no user's configuration."""
        return clean_env(
            EB_SCRIPT_PATH=str(self.places.home / "bin" / "eb"),
            LMOD_CMD=str(self.lmod_command),
            PYTHONNOUSERSITE="1",
            PYTHONUNBUFFERED="1",
            PYTHONDONTWRITEBYTECODE="1",
            XDG_CONFIG_DIRS="/nonexistent",
            **extra,
        )
