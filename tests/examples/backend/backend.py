"""The script backend: a file of the site's folder of scripts, locked by its sha256, becomes a program on PATH."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import Field

from envmgr.backends import Backend, Built, LoadedLock, LockOptions, LockResult, read_input
from envmgr.catalog.locks import read_lock_file, recipe_digest, require_answer
from envmgr.catalog.names import Entry
from envmgr.catalog.recipe import Recipe
from envmgr.catalog.settings import backend_settings
from envmgr.catalog.site import Site, Target
from envmgr.downloads.fetch import DownloadSet
from envmgr.downloads.sources import SourceFile, source_set
from envmgr.errors import EnvmgrError
from envmgr.modules.spec import EnvOp
from envmgr.report import Reporter
from envmgr.store.build_folders import staged_install
from envmgr.store.manifest import InstallFacts
from envmgr.store.prefix import Item
from envmgr.system.files import sha256_file
from envmgr.system.models import FrozenModel
from envmgr.system.run import Runner
from envmgr.system.yamlfile import dump_yaml

LOCK_NAME = "script-lock.yml"


class ScriptSettings(FrozenModel):
    folder: Path = Path("scripts")


class ScriptInput(FrozenModel):
    file: str = Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]*$")


class ScriptLock(FrozenModel):
    """`version` is the number of the format; `recipe` is the digest of the input that the lock answers."""

    version: int = 1
    recipe: str
    name: str
    sha256: str
    url: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedScriptLock(LoadedLock):
    content: ScriptLock

    def items(self, site: Site, target: Target) -> tuple[Item, ...]:
        identity = {"name": self.content.name, "sha256": self.content.sha256}
        return (Item(self.backend.install(self.entry, identity, site, target)),)

    def downloads(self, site: Site) -> Sequence[DownloadSet]:
        source = SourceFile(self.content.name, self.content.sha256, (self.content.url,), "")
        return (source_set([source], site, str(self.entry)),)

    def build(self, item: Item, site: Site, runner: Runner, reporter: Reporter, *, jobs: int) -> Built:  # noqa: ARG002
        install, name = item.install, self.content.name
        cached = self.fetch(site, runner, reporter).paths[self.content.sha256]
        with staged_install(install, site) as staged:
            program = staged.folder / "bin" / name
            program.parent.mkdir(parents=True)
            shutil.copyfile(cached, program)
            program.chmod(0o755)
        facts = InstallFacts(environment=(EnvOp(kind="prepend", name="PATH", value=str(install.path / "bin")),))
        return Built(facts, {f"bin/{name}": self.content.sha256}, {})


class ScriptBackend(Backend):
    name = "script"
    input = ScriptInput
    settings = ScriptSettings

    def lock(
        self, entry: Entry, recipe: Recipe, site: Site, runner: Runner, reporter: Reporter, options: LockOptions
    ) -> LockResult:
        del runner, reporter, options  # the file is there, or it is not
        name = read_input(entry, recipe, ScriptInput).file
        path = site.absolute(backend_settings(site, self.name, ScriptSettings).folder) / name
        if not path.is_file():
            raise EnvmgrError("script-missing", f"{path} does not exist", hint="is backends.script.folder right?")
        made = ScriptLock(recipe=_digest(entry, recipe), name=name, sha256=sha256_file(path), url=path.as_uri())
        return LockResult({LOCK_NAME: dump_yaml(made.model_dump(), width=120)}, _packages(made))

    def load_lock(self, entry: Entry, recipe: Recipe, folder: Path, site: Site) -> LoadedScriptLock:  # noqa: ARG002
        found, sha256 = read_lock_file(folder / LOCK_NAME, ScriptLock, of="scripts", known=1)
        require_answer(entry, folder / LOCK_NAME, _packages(found), _digest(entry, recipe), found.recipe)
        return LoadedScriptLock(backend=self, entry=entry, sha256=sha256, packages=_packages(found), content=found)


def _digest(entry: Entry, recipe: Recipe) -> str:
    return recipe_digest("script", read_input(entry, recipe, ScriptInput).model_dump())


def _packages(lock: ScriptLock) -> dict[str, str]:
    return {lock.name: lock.sha256[:8]}
