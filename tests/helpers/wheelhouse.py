"""Synthetic wheels, sdists and the index that lists them: an index in files, or served by `standin.server.serve`."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import shutil
import tarfile
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

DATE = (2020, 1, 1, 0, 0, 0)
SOURCE_DATE = 1609459200  # 2021-01-01
UPLOADED = "2024-01-01T00:00:00.000000Z"


@dataclass
class Wheelhouse:
    """`folder/files` has the files, `folder/simple` the index. Without `rich`, it tells neither sizes nor upload times."""

    folder: Path
    rich: bool = True
    hashes: bool = True
    uploaded: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.files.mkdir(parents=True, exist_ok=True)

    @property
    def files(self) -> Path:
        return self.folder / "files"

    @property
    def simple(self) -> Path:
        return self.folder / "simple"

    def wheel(
        self,
        name: str,
        version: str = "1.0",
        files: Mapping[str, str | bytes] | None = None,
        *,
        requires: Sequence[str] = (),
        scripts: Mapping[str, str] | None = None,
        tag: str = "py3-none-any",
        build: str = "",
        uploaded: str = UPLOADED,
    ) -> Path:
        """A module `<name>.py` and `files` (path in the wheel -> text), console `scripts` (name -> `module:function`)."""
        module = name.replace("-", "_")
        info = f"{module}-{version}.dist-info"
        content: dict[str, str | bytes] = {
            f"{module}.py": f"VERSION = {version!r}\n\ndef main():\n    print({name!r}, VERSION)\n",
            **(files or {}),
        }
        rows = [f"Requires-Dist: {text}" for text in requires]
        content[f"{info}/METADATA"] = "\n".join(
            ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}", *rows, ""]
        )
        content[f"{info}/WHEEL"] = f"Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: {tag}\n"
        if scripts:
            points = "".join(f"{key} = {value}\n" for key, value in scripts.items())
            content[f"{info}/entry_points.txt"] = f"[console_scripts]\n{points}"
        record = "".join(f"{path},{_digest(text)},{len(_bytes(text))}\n" for path, text in content.items())
        content[f"{info}/RECORD"] = f"{record}{info}/RECORD,,\n"
        place = self.files / f"{module}-{version}{f'-{build}' if build else ''}-{tag}.whl"
        with zipfile.ZipFile(place, "w") as archive:
            for path, text in content.items():
                archive.writestr(zipfile.ZipInfo(path, DATE), text)
        self.uploaded[place.name] = uploaded
        self.write()
        return place

    def sdist(
        self, name: str, version: str, files: Mapping[str, str] | None = None, *, uploaded: str = UPLOADED
    ) -> Path:
        """`files` (path -> text), and PKG-INFO; without any there is nothing to build. A path with `..` stays one."""
        place = self.files / f"{name.replace('-', '_')}-{version}.tar.gz"
        info = f"Metadata-Version: 2.2\nName: {name}\nVersion: {version}\n"
        with tarfile.open(place, "w:gz") as archive:
            for path, text in {"PKG-INFO": info, **(files or {})}.items():
                head = tarfile.TarInfo(f"{name}-{version}/{path}")
                head.size, head.mtime = len(text.encode()), SOURCE_DATE
                archive.addfile(head, io.BytesIO(text.encode()))
        self.uploaded[place.name] = uploaded
        self.write()
        return place

    def add(self, *paths: Path) -> None:
        """Files that are there, such as real wheels."""
        for path in paths:
            shutil.copyfile(path, self.files / path.name)
            self.uploaded[path.name] = UPLOADED
        self.write()

    def write(self) -> None:
        """The index of what lies in `files`, as HTML (PEP 503) and, where it is rich, as JSON (PEP 691, 700)."""
        projects: dict[str, list[Path]] = {}
        for path in sorted(self.files.iterdir()):
            name = path.name.split("-")[0].lower().replace("_", "-")
            projects.setdefault(name, []).append(path)
        for name, paths in projects.items():
            page = self.simple / name
            page.mkdir(parents=True, exist_ok=True)
            links = [f'<a href="../../files/{p.name}{self._fragment(p)}">{p.name}</a><br>' for p in paths]
            (page / "index.html").write_text(
                "<!DOCTYPE html>\n<html><body>\n" + "\n".join(links) + "\n</body></html>\n"
            )
            rich = page / "index.json"
            rich.unlink(missing_ok=True)
            if self.rich:
                rows = [self._row(p) for p in paths]
                rich.write_text(json.dumps({"meta": {"api-version": "1.1"}, "name": name, "files": rows}))

    def _fragment(self, path: Path) -> str:
        return f"#sha256={hashlib.sha256(path.read_bytes()).hexdigest()}" if self.hashes else ""

    def _row(self, path: Path) -> dict[str, object]:
        data = path.read_bytes()
        return {
            "filename": path.name,
            "url": f"../../files/{path.name}",
            "size": len(data),
            "upload-time": self.uploaded[path.name],
            "hashes": {"sha256": hashlib.sha256(data).hexdigest()} if self.hashes else {},
            "yanked": False,
        }


def _bytes(text: str | bytes) -> bytes:
    return text.encode() if isinstance(text, str) else text


def _digest(text: str | bytes) -> str:
    return "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(_bytes(text)).digest()).rstrip(b"=").decode()
