"""A generation as data, with its records and manifests in a prefix, for the page: no module is made."""

from __future__ import annotations

import datetime
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from envmgr.catalog.gpus import GpuNeeds
from envmgr.catalog.recipe_parts import Deprecated, Requires, SmokeTest
from envmgr.modules.spec import ModuleSpec
from envmgr.page.entries import make_catalog
from envmgr.page.model import PageGeneration
from envmgr.page.render import render_page
from envmgr.publish.extras import GenerationContents
from envmgr.publish.records import RECORD, SPECS, GenerationRecord, PublishedEntry, PublishedSpec
from envmgr.store.manifest import InstallFacts, Manifest, write_manifest
from envmgr.store.prefix import Prefix
from envmgr.system.files import pretty_json

ODD = "GPL-3.0 & \"odd\" <b>'x'</b> \u202e ]]> ü"
SCRIPT = "Says <script>document.title = 'pwned'</script> & hello"


@dataclass
class PageScene:
    """A prefix whose installs and generations are made by hand."""

    root: Path
    site: str = "lab"

    @property
    def prefix(self) -> Prefix:
        return Prefix(self.root)

    def install(self, entry: str, packages: Mapping[str, str], lock: Mapping[str, str] | None = None) -> str:
        """Write an install's manifest; return its path relative to the prefix."""
        name, version = entry.split("/")
        path = f"store/{name}/{version}-{zlib.crc32(repr((entry, *packages.items())).encode()):08x}"
        provenance = {
            "install": entry,
            "packages": dict(packages),
            "lock": dict(lock or {}),
            "recipe": {"backend": "conda"},
        }
        (self.root / path).mkdir(parents=True, exist_ok=True)
        manifest = self.prefix.install_at(path).manifest
        manifest.unlink(missing_ok=True)
        write_manifest(manifest, Manifest("ab" * 32, "cd" * 32, 0o022, InstallFacts(), provenance, ()))
        return path

    def contents(
        self, number: int, parent: int | None, entries: Mapping[str, tuple[str, ...]], **specs: Mapping[str, Any]
    ) -> GenerationContents:
        """Return a generation: entry -> its installs; `specs` are fields of modules, by `name_version` of the entry."""
        made: dict[str, ModuleSpec] = {}
        for entry, paths in entries.items():
            name, version = entry.split("/")
            fields = {"description": f"{name} for tests", **specs.get(entry.replace("/", "_").replace(".", ""), {})}
            made[entry] = ModuleSpec(
                name=name, version=version, root=f"{self.root}/{paths[0]}", digest=paths[0][-8:] * 8, **fields
            )
        published = {
            entry: PublishedEntry(
                digest=made[entry].digest,
                path=paths[0],
                lock="",
                fingerprint=f"{number if 'bump' in specs else ''}",
                needs=paths[1:],
            )
            for entry, paths in entries.items()
        }
        return GenerationContents(
            number, parent, f"2026-11-{number:02d}T10:00:00Z", f"publish {number}", published, made
        )

    def keep(self, contents: GenerationContents, *, page: bool = True) -> PageGeneration:
        """Write the generation's record, specs and page, as a publish does; return the page's data."""
        folder = self.prefix.generation(contents.number)
        folder.mkdir(parents=True)
        catalog, locks = self.catalog(contents)
        files = {**dict(render_page(catalog)), **locks} if page else {}
        for name, data in files.items():
            (folder / "www" / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / "www" / name).write_bytes(data)
        record = GenerationRecord(
            number=contents.number, parent=contents.parent, created=contents.created, user="", host="", reason=contents.reason,
            tools={}, render="", entries=dict(contents.entries), files={}, manifests={},
        )  # fmt: skip
        (folder / RECORD).write_text(record.model_dump_json())
        specs = {
            name: PublishedSpec(spec=spec, facts=InstallFacts()).model_dump(mode="json")
            for name, spec in contents.specs.items()
        }
        (folder / SPECS).write_text(pretty_json(specs))
        return catalog

    def catalog(self, contents: GenerationContents) -> tuple[PageGeneration, dict[str, bytes]]:
        return make_catalog(
            self.prefix, self.site, contents, lambda _specs, name, number: f"#!/bin/bash\n# {name} {number}\n"
        )

    def rendered(self, contents: GenerationContents) -> dict[str, str]:
        return {name: data.decode() for name, data in render_page(self.catalog(contents)[0])}


def rich(scene: PageScene) -> GenerationContents:
    """A generation with all that an entry can have."""
    base = scene.install(
        "python/3.11", {"python": "3.11.7 0", "zlib": "1.3 h1"}, {"conda-lock.yml": "lock of python\n"}
    )
    below = scene.install("toolchain/1", {"gcc": "12"})
    torch = scene.install("torch/2.1", {"numpy": "1.26.4 py311", "torch": "2.1.0"})
    specs = {
        "python_311": {"default": True, "tests": (SmokeTest(name="starts", run="python -V"),), "own_python": True},
        "python_310": {"deprecated": Deprecated(message="use python/3.11", date=datetime.date(2027, 3, 1)), "hidden": True},
        "torch_21": {
            "description": SCRIPT, "licence": ODD, "homepage": "javascript:alert(1)", "depends": ("python/3.11",),
            "families": ("accel",), "requires": Requires(nvidia_driver="530.1", glibc="2.17"),
            "gpu": GpuNeeds(cuda="12.1", codes=("8.0", "9.0+PTX"), driver="530.1"),
            "tests": (SmokeTest(name="trains", run="true", needs=("gpu", "slurm"), nodes=2),),
        },
    }  # fmt: skip
    return scene.contents(
        1, None, {"python/3.10": (base,), "python/3.11": (base,), "torch/2.1": (torch, base, below)}, **specs
    )
