"""Is an install still what its manifest says? Asked of what is published, and of everything before something is built on it."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

from envmgr.errors import EnvmgrError
from envmgr.report import Reporter
from envmgr.store.manifest import Manifest, differences, read_manifest
from envmgr.store.prefix import Install, Item
from envmgr.system.files import sha256_file
from envmgr.system.run import Runner


def verify_install(install: Install, reporter: Reporter) -> list[str]:
    """Hash the install again, and its extra files; what is not as its manifest says (invariant 5), as readable lines."""
    return _look(install, reporter)[0]


def require_unchanged(install: Install, entry: object, reporter: Reporter) -> None:
    """EnvmgrError `install-differs`; `entry` is what to build again."""
    _raise_for(install, entry, verify_install(install, reporter))


@dataclass(slots=True)
class Verified:
    """What is known to be intact in this run: what it made, and what it has looked at. For several threads."""

    _known: dict[str, tuple[list[str], tuple[str, ...]]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def made(self, path: str) -> None:
        """An install whose manifest was made of its tree just now."""
        self._known[path] = ([], ())

    def require_needs(self, item: Item, entry: object, runner: Runner, reporter: Reporter) -> None:
        """All that a build of the item uses: its needs, its build needs, and what these run with; each is hashed once a run.

        Raises:
            EnvmgrError: `install-differs`, `manifest-damaged`; nothing may be built on that.
        """
        waiting = {i.relative: i for i in (*item.needs, *item.build_needs)}
        done: set[str] = set()
        while waiting:
            path, install = waiting.popitem()
            done.add(path)
            with self._lock:
                runner.raise_if_cancelled()
                if path not in self._known:
                    self._known[path] = _look(install, reporter)
                wrong, needs = self._known[path]
            _raise_for(install, entry, wrong)
            waiting |= {each: install.prefix.install_at(each) for each in needs if each not in done}


def _look(install: Install, reporter: Reporter) -> tuple[list[str], tuple[str, ...]]:
    """What is wrong with an install, and what it runs with, by paths relative to the prefix."""
    if not install.manifest.is_file():
        return [f"{install.manifest} is missing"], ()
    manifest = read_manifest(install.manifest)
    with reporter.stage(f"{install.entry} verify", unit="files"):
        return [*differences(install.path, manifest), *_extra_faults(install, manifest)], manifest.facts.needs


def _extra_faults(install: Install, manifest: Manifest) -> list[str]:
    """Files beside the tree decide, too, how later builds see the install."""
    lines = []
    for shown, sha256 in sorted(manifest.extra.items()):
        path = install.prefix.root / shown
        if not path.is_file():
            lines.append(f"{shown}: missing")
        elif sha256 and sha256_file(path) != sha256:
            lines.append(f"{shown}: sha256 changed")
    return lines


def _raise_for(install: Install, entry: object, wrong: list[str]) -> None:
    if wrong:
        more = [f"and {len(wrong) - 10} more"] if len(wrong) > 10 else []
        raise EnvmgrError(
            "install-differs",
            f"{install.path} is not what its manifest says",
            context=[*wrong[:10], *more],
            hint=f"files of it changed after the build: remove {install.manifest.name}, then build {entry} again",
        )
