"""A real registry (docker-registry) on loopback, and images for it, made here layer by layer."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import re
import shutil
import socket
import subprocess
import tarfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.helpers.waiting import wait_for

PROGRAMS = ("docker-registry", "skopeo", "busybox")
Layer = Callable[[tarfile.TarFile], None]

_CONFIG = """\
version: 0.1
storage: {{filesystem: {{rootdirectory: {root}}}, delete: {{enabled: true}}}}
http: {{addr: 127.0.0.1:{port}}}
log: {{level: warn}}
"""


def lacking() -> list[str]:
    """The programs that this machine has not."""
    return [name for name in PROGRAMS if shutil.which(name) is None]


@dataclass
class Registry:
    """`host` is its name in references; `conf` is a registries.conf that lets it be asked without TLS."""

    folder: Path
    host: str
    process: subprocess.Popen[bytes]

    @property
    def conf(self) -> Path:
        return self.folder / "registries.conf"

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()

    def push(self, reference: str, layers: Sequence[Layer], *, form: str = "oci", **config: Any) -> str:
        """Make an image of the layers, and push it as `name:tag`, in the form `oci` or `v2s2`, docker's own; return the
        digest of its manifest, which docker's form has another of.
        """
        layout = self.folder / "layout"
        shutil.rmtree(layout, ignore_errors=True)
        digest = write_layout(layout, layers, **config)
        target = f"docker://{self.host}/{reference}"
        argv = [
            "skopeo",
            "--insecure-policy",
            "copy",
            "-q",
            "--format",
            form,
            "--dest-tls-verify=false",
            f"oci:{layout}",
            target,
        ]
        subprocess.run(argv, check=True, capture_output=True)
        return digest


@contextmanager
def registry(folder: Path) -> Iterator[Registry]:
    folder.mkdir(parents=True)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    (folder / "config.yml").write_text(_CONFIG.format(root=folder / "data", port=port))
    argv = ["docker-registry", "serve", str(folder / "config.yml")]
    with (folder / "log").open("w") as log, subprocess.Popen(argv, stdout=log, stderr=log) as process:
        made = Registry(folder, f"127.0.0.1:{port}", process)
        made.conf.write_text(f'[[registry]]\nlocation = "{made.host}"\ninsecure = true\n')
        try:
            wait_for(lambda: _listens(port), what="the registry")
            yield made
        finally:
            made.stop()


def _listens(port: int) -> bool:
    with socket.socket() as one:
        return one.connect_ex(("127.0.0.1", port)) == 0


def write_layout(folder: Path, layers: Sequence[Layer], *, architecture: str = "amd64", **config: Any) -> str:
    """Write an OCI layout; return the digest of its manifest."""
    blobs = folder / "blobs/sha256"
    blobs.mkdir(parents=True)

    def put(content: bytes) -> dict[str, Any]:
        digest = hashlib.sha256(content).hexdigest()
        (blobs / digest).write_bytes(content)
        return {"digest": f"sha256:{digest}", "size": len(content)}

    plain = [_tar(layer) for layer in layers]
    diff_ids = [f"sha256:{hashlib.sha256(each).hexdigest()}" for each in plain]
    image = {
        "architecture": architecture,
        "os": "linux",
        "created": "2024-01-02T03:04:05Z",
        "config": config,
        "rootfs": {"type": "layers", "diff_ids": diff_ids},
    }
    kind = "application/vnd.oci.image."
    rows = [{"mediaType": f"{kind}layer.v1.tar+gzip", **put(gzip.compress(each, 1, mtime=0))} for each in plain]
    of = {"mediaType": f"{kind}config.v1+json", **put(json.dumps(image).encode())}
    manifest = {"schemaVersion": 2, "mediaType": f"{kind}manifest.v1+json", "config": of, "layers": rows}
    at = {"mediaType": f"{kind}manifest.v1+json", **put(json.dumps(manifest).encode())}
    (folder / "index.json").write_text(json.dumps({"schemaVersion": 2, "manifests": [at]}))
    (folder / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')
    return str(at["digest"])


def _tar(layer: Layer) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        layer(archive)
    return out.getvalue()


def files(content: Mapping[str, bytes | str | None], *, mode: int = 0o644, mtime: int = 1_600_000_000) -> Layer:
    """A layer of files (bytes), links (text) and folders (None)."""

    def add(archive: tarfile.TarFile) -> None:
        for path, each in content.items():
            info = tarfile.TarInfo(path)
            info.mode, info.mtime = mode, mtime
            if each is None:
                info.type, info.mode = tarfile.DIRTYPE, 0o755
            elif isinstance(each, str):
                info.type, info.linkname = tarfile.SYMTYPE, each
            else:
                info.size = len(each)
            archive.addfile(info, io.BytesIO(each) if isinstance(each, bytes) else None)

    return add


def libraries(*programs: Path) -> dict[str, bytes | str | None]:
    """The libraries of this machine that programs need, as files of a layer."""
    found: set[str] = set()
    for program in programs:
        said = subprocess.run(["ldd", program], capture_output=True, text=True, check=False).stdout
        found |= {*re.findall(r"(/\S+) \(0x", said)}
    return {path.lstrip("/"): Path(path).read_bytes() for path in sorted(found)}


def trees(folders: Mapping[str, Path]) -> Layer:
    """A layer of whole folders: path in the image -> folder."""

    def add(archive: tarfile.TarFile) -> None:
        for at, folder in folders.items():
            archive.add(folder, at)

    return add


def busybox() -> Layer:
    """A system of one program, with the libraries that it needs, if it needs any."""
    return busybox_without(set())


def busybox_without(left_out: set[str]) -> Layer:
    """`busybox` without these paths."""
    program = Path(str(shutil.which("busybox")))
    links = {f"bin/{name}": "busybox" for name in ("sh", "cat", "env", "id", "pwd", "true", "sleep", "ls", "echo")}
    base = files(
        {"bin": None, "etc": None, "tmp": None, "bin/busybox": program.read_bytes(), **libraries(program)}, mode=0o755
    )
    more = files(links)

    def add(archive: tarfile.TarFile) -> None:
        base(archive)
        more(archive)

    return add
