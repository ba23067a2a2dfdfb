"""Catalogs that mean harm, each of one kind: what a stranger's pull request may bring. Made by the test, as git would not carry them all."""

from __future__ import annotations

import json
import os
import shutil
import socket
from collections.abc import Callable
from pathlib import Path

from tests.helpers.places import ROOT

SECRET = "root:$6$saltsalt$a-hash-that-nobody-should-see:19000:0:99999:7:::"
Kind = Callable[[Path, Path, str], None]
"""Gets the catalog, a folder outside of it in which the file `secret` lies, and the name of its entry."""

_SOFTWARE = json.dumps({"description": "for tests", "homepage": "", "licence": "MIT", "category": "test"})
_CONDA = {"schema": 1, "backend": "conda", "input": {"channels": ["standin"], "specs": ["hello"]}}
_WHEELS = {"schema": 1, "backend": "wheels", "input": {"python": "system", "requirements": "requirements.txt"}}
_EASYBUILD = {"schema": 1, "backend": "easybuild", "input": {"easybuild": "5.1.1", "easyconfig": "toy-1.0.eb"}}
_LINES = 300_000


def entry(catalog: Path, name: str = "evil", version: str = "1.0", recipe: object = _CONDA, **more: object) -> Path:
    """A sound recipe, or the text of one; returns its folder."""
    folder = catalog / name / version
    folder.mkdir(parents=True)
    (folder.parent / "software.yaml").write_text(_SOFTWARE)
    text = recipe if isinstance(recipe, str) else json.dumps({**recipe, **more})  # type: ignore[dict-item]
    (folder / "recipe.yaml").write_text(text)
    return folder


def _file(name: str, make: Callable[[Path, Path], None], recipe: object = _CONDA, **more: object) -> Kind:
    """An entry, one file of which is made by `make`."""

    def kind(catalog: Path, outside: Path, called: str) -> None:
        path = entry(catalog, called, recipe=recipe, **more) / name
        if recipe is _WHEELS and "lock" not in name:
            shutil.copyfile(ROOT / "recipes/accelerate/1.15/wheels.lock", path.parent / "wheels.lock")
        path.unlink(missing_ok=True)
        make(path, outside)

    return kind


def _to_secret(path: Path, outside: Path) -> None:
    path.symlink_to(outside / "secret")


def _pipe(path: Path, _: Path) -> None:
    os.mkfifo(path)


def _device(path: Path, _: Path) -> None:
    path.symlink_to("/dev/zero")


def _socket(path: Path, _: Path) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        here = Path.cwd()
        os.chdir(path.parent)  # the name of a socket is short
        try:
            made.bind(path.name)
        finally:
            os.chdir(here)


def _folder(path: Path, _: Path) -> None:
    path.mkdir()


def _loop(path: Path, _: Path) -> None:
    path.symlink_to(path.name)


def _nowhere(path: Path, _: Path) -> None:
    path.symlink_to("nowhere")


def _huge(path: Path, _: Path) -> None:
    with path.open("wb") as file:
        file.truncate(1 << 30)


def _says(text: str | bytes) -> Callable[[Path, Path], None]:
    def make(path: Path, _: Path) -> None:
        path.write_bytes(text if isinstance(text, bytes) else text.encode())

    return make


def _keys(count: int) -> str:
    return "".join(f"k{n}: 1\n" for n in range(count))


def _laughs() -> str:
    rows = ["a0: &a0 [lol, lol]\n"]
    rows += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 12)]
    return "".join(rows)


def _folder_out(catalog: Path, outside: Path, called: str) -> None:
    entry(outside / "other", "y").joinpath("recipe.yaml").write_text(f"{SECRET}: 1\n")
    catalog.joinpath(called).symlink_to(outside / "other/y")


def _version_out(catalog: Path, outside: Path, called: str) -> None:
    entry(outside / "more", "y").joinpath("recipe.yaml").write_text(f"{SECRET}: 1\n")
    entry(catalog, called)
    (catalog / called / "2.0").symlink_to(outside / "more/y/1.0")


def _folder_loops(catalog: Path, _: Path, called: str) -> None:
    entry(catalog, called).joinpath("recipe.yaml").write_text("nothing")
    (catalog / called / "2.0").symlink_to("2.0")
    (catalog / called / "3.0").symlink_to("..")
    (catalog / f"{called}up").symlink_to(".")


def _names(catalog: Path, _: Path, called: str) -> None:
    for name in ("\x1b[31mred", "two\nlines", "x" * 200, "\u202egnp"):
        entry(catalog, f"{called}{name}")
        entry(catalog, called, name)
    bad = os.fsencode(catalog) + b"/\xff\xfe/1.0"
    os.makedirs(bad)  # noqa: PTH103 - no text
    with open(bad + b"/recipe.yaml", "w") as file:  # noqa: PTH123
        file.write("{}")


def _shared_text(path: Path, _: Path) -> None:
    path.write_text("x" * 1_000_000)


def _circle(catalog: Path, _: Path, called: str) -> None:
    for number in range(100):
        entry(catalog, f"{called}{number}", depends=[f"{called}{(number + 1) % 100}/1.0"])
    entry(catalog, called, depends=[f"{called}0/1.0"])


def _long_chain(catalog: Path, _: Path, called: str) -> None:
    """Deeper than Python calls."""
    for number in range(1050):
        entry(catalog, f"{called}{number}", depends=[f"{called}{number + 1}/1.0"])
    entry(catalog, f"{called}1050", depends=[])
    entry(catalog, called, depends=[f"{called}0/1.0"])


def _empty_folders(catalog: Path, _: Path, called: str) -> None:
    for number in range(2000):
        (catalog / called / str(number)).mkdir(parents=True)
    entry(catalog, called, "x").joinpath("recipe.yaml").write_text("nothing")


def fill(catalog: Path) -> None:
    """More recipes than a catalog may have, which is 50 then."""
    for number in range(60):
        folder = catalog / "evil" / str(number)
        folder.mkdir(parents=True)
        (folder / "recipe.yaml").touch()


def _sidecar(text: str) -> Kind:
    def kind(catalog: Path, _: Path, called: str) -> None:
        folder = entry(catalog, called)
        shutil.copyfile(ROOT / "recipes/mpich/4.2/conda-lock.yml", folder / "conda-lock.yml")
        (folder / "conda-lock.records.json").write_text(text)

    return kind


_TESTED = {"tests": [{"name": "t", "run": "true", "files": ["data.txt"]}]}
_PATCHED = {
    "input": {
        "python": "system",
        "requirements": ["a"],
        "build": ["a"],
        "patches": [{"file": "a.patch", "sha256": "0" * 64}],
    }
}

KINDS: dict[str, Kind] = {
    "recipe is a link to a secret": _file("recipe.yaml", _to_secret),
    "recipe is a device": _file("recipe.yaml", _device),
    "recipe is a pipe": _file("recipe.yaml", _pipe),
    "recipe is a socket": _file("recipe.yaml", _socket),
    "recipe is a folder": _file("recipe.yaml", _folder),
    "recipe is a link to itself": _file("recipe.yaml", _loop),
    "recipe is a link to nothing": _file("recipe.yaml", _nowhere),
    "recipe of a gigabyte": _file("recipe.yaml", _huge),
    "recipe of many megabytes": _file("recipe.yaml", _says("# x\n" * 3_000_000)),
    "recipe of very many keys": _file("recipe.yaml", _says(_keys(100_000))),
    "recipe of a long flow list": _file("recipe.yaml", _says("[" + "1," * _LINES + "]")),
    "recipe of unknown fields": _file("recipe.yaml", _says(_keys(9_000))),
    "recipe nested deep": _file("recipe.yaml", _says("[" * 200_000)),
    "recipe of a billion laughs": _file("recipe.yaml", _says(_laughs())),
    "recipe of a number of sixties": _file("recipe.yaml", _says("a: 1" + ":1" * _LINES)),
    "recipe of colliding keys": _file("recipe.yaml", _says("".join(f"{(2**61 - 1) * n}: 1\n" for n in range(1, 5000)))),
    "recipe of objects": _file("recipe.yaml", _says("!!python/object/apply:os.system ['echo $((1+1))']")),
    "recipe that is not UTF-8": _file("recipe.yaml", _says(b"a: \xff\xfe\n")),
    "recipe with a null": _file("recipe.yaml", _says(b"a: \0\n")),
    "recipe that writes on the terminal": _file(
        "recipe.yaml", _says('"\\e[2J\\e]0;x\\a": "\\e[31m"\nbackend: "\\e[31m"\n')
    ),
    "recipe of an unknown backend with escapes": _file("recipe.yaml", _says('backend: "\\e[31m"\ninput: {}\n')),
    "recipe of very many families": _file("sub", _folder, families=[f"f{n}" for n in range(9000)] + ["F0"]),
    "recipe of very many missing dependencies": _file("sub", _folder, depends=[f"d{n}/1" for n in range(9000)]),
    "recipe that sets MODULEPATH": _file("sub", _folder, environment={"set": {"MODULEPATH": "/evil"}}),
    "software file is a link to a secret": _file("../software.yaml", _to_secret),
    "software file is a pipe": _file("../software.yaml", _pipe),
    "conda lock is a link to a secret": _file("conda-lock.yml", _to_secret),
    "conda lock is a pipe": _file("conda-lock.yml", _pipe),
    "conda lock of a gigabyte": _file("conda-lock.yml", _huge),
    "conda lock of very many keys": _file("conda-lock.yml", _says("- {a: 1, b: 2}\n" * 500_000)),
    "easybuild lock is a link to a secret": _file("easybuild-lock.yml", _to_secret, _EASYBUILD),
    "wheels lock is a device": _file("wheels.lock", _device, _WHEELS),
    "wheels lock of very many rows": _file("wheels.lock", _says(f"a==1 --hash=sha256:{'0' * 64}\n" * 60_000), _WHEELS),
    "sidecar nested deep": _sidecar("[" * 200_000),
    "sidecar of very many values": _sidecar(json.dumps({"schema": 1, "packages": [1] * 600_000})),
    "sidecar of a long number": _sidecar("1" * 100_000),
    "requirements are a link to a secret": _file("requirements.txt", _to_secret, _WHEELS),
    "requirements are a pipe": _file("requirements.txt", _pipe, _WHEELS),
    "patch is a pipe": _file("a.patch", _pipe, _WHEELS, **_PATCHED),
    "patch is a link to a secret": _file("a.patch", _to_secret, _WHEELS, **_PATCHED),
    "test's file is a link to a secret": _file("data.txt", _to_secret, **_TESTED),
    "test's file is a pipe": _file("data.txt", _pipe, **_TESTED),
    "test's file taken very often": _file(
        "data.txt", _shared_text, tests=[{"name": "t", "run": "true", "files": ["data.txt"] * 5000}]
    ),
    "folder is a link out": _folder_out,
    "version is a link out": _version_out,
    "folders that are links in a circle": _folder_loops,
    "names with control characters": _names,
    "dependencies in a long circle": _circle,
    "dependencies deeper than Python calls": _long_chain,
    "very many empty folders": _empty_folders,
}
