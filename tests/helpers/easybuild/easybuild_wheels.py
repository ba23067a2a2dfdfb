"""EasyBuild as wheels in a folder, for uv without an index: what is installed beside envmgr, packed again, or something else."""

from __future__ import annotations

import csv
import os
import re
import zipfile
from collections.abc import Mapping
from pathlib import Path

from envmgr.backends.easybuild.installation import Places
from envmgr.backends.easybuild.settings import EASYBUILD
from tests.helpers.easybuild.workshop import easybuild_home

_PARTS = ("framework", "easyblocks", "easyconfigs")
_MOST = re.compile(r"/easybuild/easyconfigs/[a-y]/")
_WHEEL = "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n"


def write_wheels(folder: Path, *, change: Mapping[str, bytes] | None = None) -> Path:
    """The four wheels that `easybuild==VERSION` stands for. With `change`, files of packages that get another text, most easyconfigs
    are left out: it is another EasyBuild anyway, and soon installed.
    """
    home = easybuild_home()
    places = Places(next(home.glob("lib/python3*/site-packages")), home)
    folder.mkdir(parents=True)
    for part in _PARTS:
        mine = {name: text for name, text in (change or {}).items() if ("easyblocks" in name) == (part == "easyblocks")}
        _pack(
            folder,
            f"easybuild_{part}",
            _installed(places, part, few=bool(change)) | {name: (text, "") for name, text in mine.items()},
        )
    needs = "".join(f"Requires-Dist: easybuild-{part}=={EASYBUILD}\n" for part in _PARTS)
    _pack(folder, "easybuild", {}, needs)
    return folder


def environ_of(wheels: Path) -> dict[str, str]:
    """What uv gets to see: these wheels, and no index."""
    return {"UV_FIND_LINKS": str(wheels), "UV_NO_INDEX": "1", "UV_NO_CACHE": "1", "UV_OFFLINE": "1"}


def _installed(places: Places, part: str, *, few: bool) -> dict[str, tuple[bytes, str]]:
    """Path in the wheel -> content and digest, of all that EasyBuild runs, and easyconfigs.

    The digests are as in the list of files: of the file that two packages bring, only one is there.
    """
    info = f"easybuild_{part}-{EASYBUILD}.dist-info"
    found = {}
    with (places.packages / info / "RECORD").open(newline="", encoding="utf-8") as file:
        for name, digest, *_ in csv.reader(file):
            path = Path(os.path.normpath(places.packages / name))
            if path.suffix == ".pyc" or name.startswith(info) or (few and _MOST.search(str(path))):
                continue
            if path.is_relative_to(places.packages / "easybuild"):
                found[name] = (path.read_bytes(), digest)
            elif path.is_relative_to(places.home / "easybuild") or path.is_relative_to(places.home / "bin"):
                found[f"easybuild_{part}-{EASYBUILD}.data/data/{path.relative_to(places.home)}"] = (
                    path.read_bytes(),
                    digest,
                )
    return found


def _pack(folder: Path, name: str, files: Mapping[str, tuple[bytes, str]], needs: str = "") -> None:
    info = f"{name}-{EASYBUILD}.dist-info"
    metadata = f"Metadata-Version: 2.1\nName: {name.replace('_', '-')}\nVersion: {EASYBUILD}\n{needs}"
    content = {**files, f"{info}/METADATA": (metadata.encode(), ""), f"{info}/WHEEL": (_WHEEL.encode(), "")}
    record = "".join(f"{path},{digest},\n" for path, (_, digest) in content.items())
    with zipfile.ZipFile(folder / f"{name}-{EASYBUILD}-py3-none-any.whl", "w") as wheel:
        for path, (text, _) in content.items():
            wheel.writestr(path, text)
        wheel.writestr(f"{info}/RECORD", f"{record}{info}/RECORD,,\n")
