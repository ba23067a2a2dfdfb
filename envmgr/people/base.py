"""The entry that a user environment stands on, as its own Python tells it: version, packages, programs."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from packaging.utils import canonicalize_name
from packaging.version import Version

from envmgr.errors import CommandError, EnvmgrError, InputError
from envmgr.modules.families import Families, find_families, member_of
from envmgr.modules.spec import EnvOp, ModuleSpec, applied
from envmgr.publish.kernels import load_order
from envmgr.publish.records import GenerationRecord, published_spec, read_specs
from envmgr.store.prefix import Prefix
from envmgr.system.models import FrozenModel
from envmgr.system.run import Runner, clean_env
from envmgr.wheels.metadata import normal_name

_SECONDS = 60.0  # for the Python of an entry to tell its packages, over a slow file server


@dataclass(frozen=True, slots=True)
class BasePackage:
    """A package of the entry. `requires` are its rows of Requires-Dist, `scripts` the programs that it starts, each as
    name and `module:function`.
    """

    version: str
    requires: tuple[str, ...]
    scripts: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class BaseEntry:
    """The entry, as generation `number` has it. `spec` is its module, `environment` that of all modules that are loaded
    with it, and `installs` their paths.

    `version` is its Python's, and `programs` the folder of it. `packages` maps normalised names. `beside` are folders
    of packages that a virtual environment on that Python does not see by itself.
    """

    entry: str
    number: int
    spec: ModuleSpec
    families: Families
    environment: tuple[EnvOp, ...]
    installs: tuple[Path, ...]
    version: str
    programs: Path
    packages: Mapping[str, BasePackage]
    beside: tuple[str, ...]

    @property
    def minor(self) -> str:
        return ".".join(self.version.split(".")[:2])


class _Said(FrozenModel):
    """The answer of base_facts.py; `packages` are rows of name, version, requirements and programs, as an import finds
    them.
    """

    version: str
    program: str
    prefix: str
    base: str
    folders: tuple[str, ...]
    packages: tuple[tuple[str, str, tuple[str, ...], tuple[tuple[str, str], ...]], ...]


def ask_base(entry: str, record: GenerationRecord, prefix: Prefix, runner: Runner) -> BaseEntry:
    """Ask the Python of a published entry what it has.

    Raises:
        InputError: `no-python`, an entry without one.
        EnvmgrError: `generation-damaged`; `base-broken` if that Python does not start.
    """
    specs = {name: published_spec(raw).spec for name, raw in read_specs(prefix, record.number).items()}
    loaded = [specs[name] for name in load_order(entry, specs)]
    environment = tuple(op for spec in loaded for op in spec.environment)
    installs = dict.fromkeys(
        prefix.install_at(path).path for spec in loaded for path in record.entries[spec.entry].paths
    )
    if not any(spec.python for spec in loaded):
        raise InputError("no-python", f"{entry} has no Python", hint="packages of your own need an entry that has one")
    if any(spec.outside is not None and spec.python for spec in loaded):
        hint = "choose an entry whose Python envmgr installed: one that is not ours can change under your packages"
        raise InputError("no-python", f"the Python of {entry} is not ours", hint=hint)
    variables = applied(environment, clean_env(PYTHONNOUSERSITE="1"))
    program = shutil.which("python3", path=variables["PATH"]) or ""
    places = (*installs, *(Path(spec.root) for spec in loaded))
    if not any(Path(program).is_relative_to(place) for place in places):  # else this host's would answer
        raise _broken(entry, *(f"there is no python3 in {place}" for place in installs))
    said = _ask(program, variables, entry, runner)
    # A virtual environment on a virtual environment sees nothing of the lower one.
    beside = () if said.prefix == said.base else tuple(dict.fromkeys(said.folders))
    programs = Path(program).parent if not beside else Path(said.program).parent
    return BaseEntry(
        entry=entry,
        number=record.number,
        spec=specs[entry],
        families=find_families({name: member_of(spec) for name, spec in specs.items()})[entry],
        environment=environment,
        installs=tuple(installs),
        version=said.version,
        programs=programs,
        packages=_packages(said),
        beside=beside,
    )


def _ask(program: str, variables: Mapping[str, str], entry: str, runner: Runner) -> _Said:
    question = Path(__file__).with_name("base_facts.py")
    try:
        said = runner.run([program, "-s", "-B", question], env=variables, cwd=Path("/"), timeout=_SECONDS).stdout
        return _Said.model_validate_json(said)
    except (CommandError, ValueError) as error:
        raise _broken(entry, *(error.context if isinstance(error, CommandError) else [str(error)])) from None


def _broken(entry: str, *context: str) -> EnvmgrError:
    return EnvmgrError(
        "base-broken",
        f"the Python of {entry} does not tell its packages",
        context=context,
        hint=f"tell the administrators of this cluster; `envmgr verify {entry}` compares it with its manifest",
    )


def _packages(said: _Said) -> dict[str, BasePackage]:
    """Return the packages by their normalised names: of two of one name, the first."""
    found: dict[str, BasePackage] = {}
    for name, version, requires, scripts in said.packages:
        with suppress(ValueError):  # what has no name or version by the specification is none that an index can have
            found.setdefault(normal_name(name), BasePackage(str(Version(version)), requires, scripts))
    return found


_PINNED = re.compile(r"\b([A-Za-z0-9][A-Za-z0-9._-]*)==")


def named_in(lines: Iterable[str], packages: Mapping[str, BasePackage]) -> list[str]:
    """Return the packages of the entry that a resolver names with a version, in its order of words."""
    names = (canonicalize_name(match) for line in lines for match in _PINNED.findall(line))
    return [name for name in dict.fromkeys(names) if name in packages]
