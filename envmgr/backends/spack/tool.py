"""The site's Spack as a process: with no settings of the user who runs it, and no folder of its own checkout to write to."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from envmgr.backends.spack.models import SpackSettings
from envmgr.catalog.settings import backend_settings, site_line
from envmgr.catalog.site import Site
from envmgr.errors import CommandError, EnvmgrError
from envmgr.store.prefix import Prefix
from envmgr.system.run import Runner, clean_env

_ASK = Path(__file__).resolve().parent / "inside" / "ask.py"


def spack_cache(prefix: Prefix) -> Path:
    """Return the folder of Spack's indexes of its own packages, which take a minute to make."""
    return prefix.cache / "spack"


@dataclass(frozen=True, slots=True)
class Spack:
    """A checkout of Spack, in the version that `said` gives: the version, and the commit if it has one. `work` is an empty
    folder for what it writes, with the environment in `env`.
    """

    settings: SpackSettings
    said: str
    work: Path
    cache: Path
    runner: Runner

    @classmethod
    def of(cls, site: Site, work: Path, runner: Runner) -> Spack:
        """Return it. Raises EnvmgrError `spack-missing`."""
        settings = backend_settings(site, "spack", SpackSettings)
        if settings.spack is None:
            raise EnvmgrError(
                "spack-missing", "the site names no Spack", hint=site_line("backends.spack.spack", "/path/to/spack")
            )
        plain = cls(settings, "", work, spack_cache(Prefix(site.prefix)), runner)
        try:
            answer = runner.run([settings.spack / "bin/spack", "--version"], env=plain.variables, timeout=600).stdout
        except CommandError as error:
            raise EnvmgrError("spack-missing", error.message, context=error.context, hint="is it a Spack?") from None
        version, commit = (*re.findall(r"[^\s()]+", answer), "", "")[:2]
        own = plain.cache / (commit or version)[:12]
        return cls(settings, f"{version} {commit}".strip(), work, own, runner)

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
            # Git answers no one but the owner of a checkout.
            GIT_CONFIG_COUNT="1",
            GIT_CONFIG_KEY_0="safe.directory",
            GIT_CONFIG_VALUE_0=str(self.settings.spack),
            **own,
        )

    def describe(self, wanted: Mapping[str, Any], root: Path, lock: str = "") -> None:
        """Write the environment that installs into `root`. A `:` at the end of a key puts aside what Spack's other
        settings say.
        """
        own = {
            "install_tree": {"root": str(root), "projections:": {"all": "{name}/{version}-{hash:8}"}},
            "build_stage": [str(self.work / "stage")],
            "test_stage": str(self.work / "test"),
            "source_cache": str(self.work / "sources"),
        }
        text = {
            "specs": wanted["specs"],
            "view": False,
            "concretizer": {"unify": True, "reuse": False, "targets": {"host_compatible": False}},
            "packages": {"all": {"require": [f"target={wanted['target']}"]}},
            "config": own,
            "upstreams:": {},
            "mirrors:": {"envmgr": (self.work / "mirror").as_uri()},
        }
        folder = self.work / "env"
        folder.mkdir(parents=True)
        (folder / "spack.yaml").write_text(json.dumps({"spack": text}), encoding="utf-8")
        if lock:
            (folder / "spack.lock").write_text(lock, encoding="utf-8")

    def argv(self, *words: str) -> list[str]:
        """Return a command on the environment. Spack fetches no solver of its own."""
        config = () if self.settings.config is None else ("-C", str(self.settings.config))
        first = (f"{self.settings.spack}/bin/spack", "-c", "bootstrap:enable:false", *config)
        return [*first, "-e", str(self.work / "env"), *words]

    def run(self, message: str, *words: str, before: Sequence[str] = ()) -> str:
        """Return what a command says. Raises EnvmgrError `spack-failed`."""
        try:
            return self.runner.run([*before, *self.argv(*words)], env=self.variables, cwd=self.work).stdout
        except CommandError as error:
            raise EnvmgrError(
                "spack-failed",
                message,
                context=[f"Spack {self.said}", *error.context],
                hint="`backends.spack` in site.yaml names the Python, which needs clingo, and compilers and packages of "
                "the system",
            ) from None

    def ask(self, question: str, before: Sequence[str] = ()) -> Any:
        """Return the answer of `inside/ask.py`."""
        said = self.run(f"Spack did not answer ({question})", "python", str(_ASK), question, before=before)
        return json.loads(said.splitlines()[-1])
