"""The site's Spack as a process: with no settings of the user who runs it, and nothing written into its checkout."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from envmgr.backends.spack.models import SPACK_LOCK, SpackSettings, spack_cache
from envmgr.catalog.settings import backend_settings, site_line
from envmgr.catalog.site import Site
from envmgr.errors import CommandError, EnvmgrError
from envmgr.store.prefix import Prefix
from envmgr.system.run import Runner, clean_env
from envmgr.system.users import Account
from envmgr.wording import one_line

_ASK = Path(__file__).resolve().parent / "inside" / "ask.py"


@dataclass(frozen=True, slots=True)
class Spack:
    """A checkout of Spack, with an environment in `work`, an empty folder for all that it writes. `said` is its version,
    and its commit if it has one. Root runs it as `account`.
    """

    settings: SpackSettings
    work: Path
    cache: Path
    runner: Runner
    account: Account | None = None
    said: str = ""

    @classmethod
    def of(cls, site: Site, work: Path, runner: Runner, account: Account | None = None) -> Spack:
        """Return it. Raises EnvmgrError `spack-missing`."""
        own = backend_settings(site, "spack", SpackSettings)
        if own.spack is None:
            hint = site_line("backends.spack.spack", "/path/to/spack")
            raise EnvmgrError("spack-missing", "the site names no Spack", hint=hint)
        tool = cls(own, work, spack_cache(Prefix(site.prefix)), runner, account)
        try:
            argv = [f"{own.spack}/bin/spack", "--version"]
            answer = runner.run(argv, env=tool.variables, run_as=account, timeout=600).stdout
        except EnvmgrError as error:
            raise EnvmgrError(
                "spack-missing",
                error.message,
                context=error.context,
                hint="`backends.spack.spack` in site.yaml is the folder of a checkout, with `bin/spack` in it",
            ) from None
        words = re.findall(r"[^\s()]+", answer)[:2]
        # Another commit may have other packages: it has indexes of its own.
        return replace(tool, said=" ".join(words), cache=tool.cache / "-".join(words)[:40])

    @property
    def variables(self) -> dict[str, str]:
        own = {} if self.settings.python is None else {"SPACK_PYTHON": str(self.settings.python)}
        return clean_env(
            HOME=str(self.work),
            TMPDIR=str(self.work),
            SPACK_USER_CONFIG_PATH=str(self.work / "user"),
            SPACK_SYSTEM_CONFIG_PATH=str(self.work / "system"),
            SPACK_USER_CACHE_PATH=str(self.cache),
            PYTHONDONTWRITEBYTECODE="1",
            # Git says nothing of a checkout that another user owns.
            GIT_CONFIG_COUNT="1",
            GIT_CONFIG_KEY_0="safe.directory",
            GIT_CONFIG_VALUE_0=str(self.settings.spack),
            **own,
        )

    def describe(self, wanted: Mapping[str, Any], root: Path, lock: str = "") -> None:
        """Write the environment that installs into `root`. `:` at the end of a key drops what Spack's other settings say."""
        own = {name: str(self.work / name) for name in ("build_stage", "test_stage", "source_cache")}
        tree = {"root": str(root), "projections:": {"all": "{name}/{version}-{hash:8}"}}
        text = {
            "specs": wanted["specs"],
            "view": False,
            "concretizer": {"unify": True, "reuse": False, "targets": {"host_compatible": False}},
            "packages": {"all": {"require": [f"target={wanted['target']}"]}},
            "config": {"install_tree": tree, **own},
            "upstreams:": {},
            "mirrors:": {"envmgr": (self.work / "mirror").as_uri()},
        }
        folder = self.work / "env"
        folder.mkdir()
        (folder / "spack.yaml").write_text(json.dumps({"spack": text}), encoding="utf-8")
        if lock:
            (folder / SPACK_LOCK).write_text(lock, encoding="utf-8")

    def argv(self, *words: str) -> list[str]:
        """Return a command on the environment. Spack fetches no solver of its own."""
        config = () if self.settings.config is None else ("-C", str(self.settings.config))
        first = (f"{self.settings.spack}/bin/spack", "-c", "bootstrap:enable:false")
        return [*first, *config, "-e", str(self.work / "env"), *words]

    def run(self, *words: str, before: Sequence[str] = ()) -> str:
        """Return what a command says. Raises EnvmgrError `spack-failed`."""
        argv = [*before, *self.argv(*words)]
        try:
            return self.runner.run(argv, env=self.variables, cwd=self.work, run_as=self.account).stdout
        except CommandError as error:
            context = [f"Spack {self.said}, {self.settings.spack}", *error.context]
            hint = "`backends.spack` in site.yaml names its Python, which needs clingo, and a folder with packages.yaml"
            raise EnvmgrError("spack-failed", f"`spack {words[0]}` failed", context=context, hint=hint) from None

    def ask(self, question: str, before: Sequence[str] = ()) -> Any:
        """Return the answer of `inside/ask.py`, a list. Raises EnvmgrError `spack-failed`."""
        said = self.run("python", str(_ASK), question, before=before)
        try:
            found = json.loads(said.splitlines()[-1])
        except (ValueError, IndexError, RecursionError):
            found = None
        if not isinstance(found, list):
            raise self.unknown(f"it said of its {question}: {one_line(said, 200) or 'nothing'}")
        return found

    def unknown(self, why: str) -> EnvmgrError:
        """Return the error for a Spack that answers as none does that was tried."""
        return EnvmgrError(
            "spack-failed",
            f"Spack {self.said} in {self.settings.spack} does not answer as expected",
            context=why,
            hint="Spack 0.23 was tried; does `spack python -c 'print(1)'` print 1, and nothing else?",
        )
