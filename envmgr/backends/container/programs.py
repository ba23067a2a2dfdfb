"""The programs of an image's install: what a user starts on PATH, which runs in the node's runtime."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from envmgr.backends.container.input import ContainerInput, ContainerSettings
from envmgr.backends.container.layers import FILES
from envmgr.backends.container.lock import ContainerLock
from envmgr.catalog.names import Entry
from envmgr.catalog.settings import backend_settings
from envmgr.catalog.site import Site
from envmgr.store.expected import NODE_CHECK
from envmgr.system.sandbox import mounting_script
from envmgr.system.shelltext import quote, script_text

_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"  # of an image that sets none
_USERS = ("/home", "/root", "/tmp")  # noqa: S108 - folders of the node that each image has a place for
# Where runtimes mount something of their own.
_POINTS = "/proc /sys /dev /var/tmp /run /run/secrets /etc /mnt/driver /mnt/host".split()


@dataclass(frozen=True, slots=True)
class Programs:
    """The facts that the programs of an install need: names -> paths in the image, its variables, and the node's part. `staged`
    is the folder of nodes' copies of images. With `user_site`, the image's Python sees the user's ~/.local.
    """

    commands: Mapping[str, str]
    variables: Mapping[str, str]
    gpu: bool
    binds: tuple[str, ...]
    runtime: str
    staged: str
    user_site: bool = False

    @classmethod
    def of(cls, lock: ContainerLock, wanted: ContainerInput, site: Site) -> Programs:
        own = backend_settings(site, "container", ContainerSettings)
        binds = tuple(sorted({*own.bind, *wanted.bind}))
        variables, folder = {"PATH": _PATH} | lock.variables, site.staging.folder
        user_site = site.policies.user_site
        return cls(wanted.commands, variables, wanted.gpu, binds, own.runtime or "", folder, user_site)

    @property
    def points(self) -> list[str]:
        """Return the paths that the image needs, for something to be mounted there."""
        return sorted({*_POINTS, *FILES, *_USERS, *self.binds})

    @property
    def identity(self) -> dict[str, object]:
        own = {"gpu": self.gpu, "bind": list(self.binds), "runtime": self.runtime, "staged": self.staged}
        return {"commands": dict(self.commands), **own, **({"user_site": True} if self.user_site else {})}

    def write(self, folder: Path, entry: Entry, final: Path) -> None:
        """Write them into the folder of an install that will lie at `final`."""
        own, programs = folder / "libexec", folder / "bin"
        own.mkdir()
        programs.mkdir()
        (own / "rootfs").mkdir()  # each command mounts the image here, for itself
        text = "#!/bin/sh\n" + script_text(__file__, "run.sh")
        values = {
            "root": str(final),
            "entry": str(entry),
            "gpu": "yes" if self.gpu else "no",
            "binds": " ".join(self.binds),
            "points": " ".join((*_USERS, *self.binds)),
            "runtime": self.runtime,
            "user_site": "yes" if self.user_site else "no",
            "staged": f"{self.staged}/.{'+'.join(final.parts[-2:])}",
        }
        for name, value in values.items():
            text = text.replace(f"'@{name}@'", quote(value))
        _program(own / "run", text)
        (folder / NODE_CHECK).symlink_to("run")
        (own / "mounted").write_text(mounting_script(), encoding="utf-8")
        rows = self.variables.items()
        (own / "env").write_text("".join(f"{name}={value}\n" for name, value in rows), encoding="utf-8")
        (own / "env.sh").write_text("".join(f"export {n}={quote(v)}\n" for n, v in rows), encoding="utf-8")
        for name, path in {**self.commands, "shell": "/bin/sh", "run": ""}.items():
            word = "" if name == "run" else f" {quote(path or name)}"
            _program(programs / name, f'#!/bin/sh\nexec {quote(str(final / "libexec/run"))}{word} "$@"\n')


def _program(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")
    path.chmod(0o755)
