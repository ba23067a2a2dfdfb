"""Building of one install under its lock: checked, its manifest written last."""

from __future__ import annotations

import platform
import socket
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

import envmgr
from envmgr.backends import Built, LoadedLock
from envmgr.builds import Ensured
from envmgr.catalog.accept import HIDDEN, named_in
from envmgr.catalog.gpus import same_effect
from envmgr.catalog.names import Entry
from envmgr.catalog.recipe import Recipe
from envmgr.catalog.shell_rules import COMMANDS
from envmgr.catalog.site import Site
from envmgr.errors import EnvmgrError
from envmgr.modules.spec import EnvOp
from envmgr.publish.compose import recipe_changes
from envmgr.report import Reporter
from envmgr.store.manifest import InstallFacts, Manifest, make_manifest, read_manifest, unmasked_tree, write_manifest
from envmgr.store.prefix import Install, Item
from envmgr.store.verify import Verified, require_promised
from envmgr.system.files import explain_os_error, sha256_file
from envmgr.system.locks import Held, file_lock
from envmgr.system.run import Runner
from envmgr.system.safe_paths import remove_below
from envmgr.system.usernames import own_name
from envmgr.wording import shortened, utc_now

_ATTRIBUTES = 61.0  # seconds for which a client of NFS caches a folder's attributes. Source: nfs(5), acdirmax


def ensure_install(
    recipe: Recipe,
    lock: LoadedLock,
    item: Item,
    site: Site,
    runner: Runner,
    reporter: Reporter,
    *,
    jobs: int,
    verified: Verified,
) -> Ensured:
    """Build the install, or reuse an existing one. A second builder of the same install waits, and reuses it.

    `verified` is this run's. Installs on which this one is built are verified first, unless this run made them.

    Raises:
        EnvmgrError: `disk-full` before the first byte, any error of the backend, `install-differs`; nothing is left
            behind.
    """
    install = item.install
    install.check_length()
    start = time.monotonic()

    others: list[str] = []

    def waiting(holder: str) -> None:
        others.append(holder)
        reporter.say(f"{install.entry}: waiting for {holder}, which builds it")

    with (
        explain_os_error(install.lock),
        file_lock(install.lock, on_wait=waiting, check=runner.raise_if_cancelled) as held,
    ):
        install.check_digest()
        # Looked at only under the lock: the run that we waited for may have built it.
        if install.exists():
            manifest = read_manifest(install.manifest)
            if others:
                _await_landed(install, runner)
            return Ensured(install, False, manifest.facts, manifest.tree, time.monotonic() - start)
        verified.require_needs(item, lock.entry, runner, reporter)
        reporter.log(f"{install.entry}: building {install.path}")
        built = lock.build(item, site, runner, reporter, jobs=jobs)
        try:
            if install.entry == lock.entry:  # other installs are below it, and only its own facts put them on PATH
                require_none_hidden(lock.entry, built.facts.environment, recipe, built.facts.home(install.path))
            manifest = _write_checked(install, recipe, lock, built, site, runner, reporter, held, jobs)
        except BaseException:
            with suppress(OSError):  # the first error is reported; the next run cleans up
                for path in (install.path, *built.extra) if held.still() else ():  # else they are another run's
                    remove_below(site.prefix, path)
            raise
        verified.made(install.relative)
    return Ensured(install, True, manifest.facts, manifest.tree, time.monotonic() - start)


def _await_landed(install: Install, runner: Runner) -> None:
    """Wait until an install that another host just made is seen as read-only.

    A client of NFS may still report the former mode of its folder.
    """
    end = time.monotonic() + _ATTRIBUTES
    while install.path.stat().st_mode & 0o222 and time.monotonic() < end:
        runner.raise_if_cancelled()
        time.sleep(0.5)


def _write_checked(
    install: Install,
    recipe: Recipe,
    lock: LoadedLock,
    built: Built,
    site: Site,
    runner: Runner,
    reporter: Reporter,
    held: Held,
    jobs: int,
) -> Manifest:
    """Write the manifest of what was built, and return it. Raise EnvmgrError `install-differs` where packages promise
    other files.
    """
    from concurrent.futures import ThreadPoolExecutor

    workers = max(2, jobs)
    with ThreadPoolExecutor(1) as pool:  # reading for GPU code uses one core, and hashing leaves the interpreter lock
        hashing = pool.submit(unmasked_tree, install.path, workers=workers)
        facts = with_gpu_codes(built.facts, install, recipe, lock, runner, reporter)
        with reporter.stage(f"{install.entry} check", unit="files"), explain_os_error(install.manifest):
            paths = hashing.result()
    with explain_os_error(install.manifest):
        manifest = make_manifest(
            install.path,
            install.digest,
            facts,
            provenance(install, recipe, lock, built, site),
            mask=site.policies.mask,
            workers=workers,
            paths=paths,
            extra={str(path.relative_to(site.prefix)): sha256_file(path) for path in built.extra},
        )
        require_promised(install, built.expected, manifest)
        # A run that stood still must not declare complete what another run is building by now.
        held.require()
        write_manifest(install.manifest, manifest)
    return manifest


def with_gpu_codes(
    facts: InstallFacts, install: Install, recipe: Recipe, lock: LoadedLock, runner: Runner, reporter: Reporter
) -> InstallFacts:
    """Return the facts with the GPUs for which binaries of an install with CUDA have code."""
    if lock.facts.cuda is None:
        return facts
    from envmgr.store.gpu_code import measure

    codes = facts.gpu_codes  # of an image, whose files its builder has looked at
    if codes is None:
        with reporter.stage(f"{install.entry} code for GPUs", unit="files"):
            codes = measure(install.path, runner.raise_if_cancelled)
    said = recipe.requires.compute_capability
    if codes and said and install.entry == lock.entry and not same_effect(codes, said):
        reporter.say(
            f"{lock.entry}: its binaries have code for {', '.join(codes)}; requires.compute_capability of its recipe "
            f"says {', '.join(said)}, and does not count from here on"
        )
    return facts.model_copy(update={"gpu_codes": codes})


def provenance(install: Install, recipe: Recipe, lock: LoadedLock, built: Built, site: Site) -> dict[str, Any]:
    """Return the origin of an install: user, host, entry, recipe, packages, tools, what was built on the way, time
    (UTC).
    """
    return {
        "install": str(install.entry),
        "entry": str(lock.entry),
        "recipe": recipe.model_dump(mode="json", by_alias=True),
        "lock_sha256": lock.sha256,
        "lock": dict(lock.texts(recipe)),
        "packages": dict(lock.packages),
        "site": site.name,
        "tools": {"envmgr": envmgr.__version__, "python": platform.python_version(), **built.tools},
        **({"made": [dict(each) for each in built.made]} if built.made else {}),
        **({"parts": [each.model_dump(mode="json") for each in built.parts]} if built.parts else {}),
        "host": socket.gethostname(),
        "user": own_name(),
        "time": utc_now(),
    }


def hidden_by(environment: Iterable[EnvOp]) -> dict[str, str]:
    """Return command -> the program of its name, in a folder that these put on PATH; sorted."""
    found: dict[str, str] = {}
    for op in environment:
        for folder in op.value.split(op.separator) if op.name == "PATH" and op.kind != "unset" else ():
            with suppress(OSError):  # no folder: nothing lies there
                found |= {path.name: str(path) for path in Path(folder).iterdir() if path.name in COMMANDS}
    return dict(sorted(found.items()))


def require_none_hidden(entry: Entry, environment: Iterable[EnvOp], recipe: Recipe, root: Path) -> None:
    """Raise EnvmgrError `commands-hidden` if the install at `root`, or the recipe itself, puts such commands on PATH.

    Commands that the recipe accepts are excluded: the names with which its reason begins, up to a colon.
    """
    accepted = named_in(recipe.accept.get(HIDDEN, ""))
    found = hidden_by((*environment, *recipe_changes(recipe, entry, str(root))))
    if wrong := {name: program for name, program in found.items() if name not in accepted}:
        line = f'accept: {{{HIDDEN}: "{", ".join(found)}: why"}}'
        raise EnvmgrError(
            "commands-hidden",
            f"{entry} hides commands of the system or of shells: {', '.join([*wrong][:10])}",
            context=shortened([*wrong.values()]),
            hint="leave out the package that brings them; or, where users shall have them, say so in "
            f"recipe.yaml: `{line}`",
        )
