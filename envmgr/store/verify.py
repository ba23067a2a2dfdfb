"""The comparison of an install with its manifest: for what is published, and for everything that something is
built on.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field

from envmgr.errors import EnvmgrError
from envmgr.report import Reporter
from envmgr.store.manifest import Manifest, differences, parse_manifest
from envmgr.store.prefix import SHORT, Install, Item
from envmgr.store.tree import tree_digest
from envmgr.system.files import read_regular, sha256_bytes
from envmgr.system.run import Runner
from envmgr.system.usernames import user_name
from envmgr.wording import shortened


@dataclass(frozen=True, slots=True)
class Looked:
    """An install that was looked at. `wrong` are the differences from its manifest, as readable lines.

    `needs` are the installs that it runs with, by paths relative to the prefix; `made_at` is as in a manifest.
    """

    wrong: tuple[str, ...]
    needs: tuple[str, ...] = ()
    made_at: tuple[str, ...] = ()


def verify_install(
    install: Install, reporter: Reporter, *, named: str | None = None, owners: Collection[int] | None = None
) -> Looked:
    """Hash the install again, its extra files, and its manifest (invariant 5).

    `named` is the manifest's sha256 in a generation; `owners` are the user numbers to whom an install may belong.

    Raise EnvmgrError `manifest-damaged`, `format-unknown`.
    """
    try:
        status = install.manifest.lstat()
        content = read_regular(install.manifest)
    except FileNotFoundError:
        return Looked((f"{install.manifest} is missing",))
    except OSError as error:
        return Looked((f"{install.manifest} cannot be read: {error.strerror}",))
    manifest = parse_manifest(install.manifest, content)
    with reporter.stage(f"{install.entry} verify", unit="files"):
        found = differences(install.path, manifest, owner=status.st_uid)
    wrong = (
        *_manifest_faults(install, manifest, named is None or sha256_bytes(content) == named),
        *_owner_faults(install, status.st_uid, owners),
        *found,
        *_extra_faults(install, manifest),
    )
    return Looked(wrong, manifest.facts.needs, manifest.made_at)


def require_unchanged(install: Install, entry: object, reporter: Reporter) -> None:
    """Raise EnvmgrError `install-differs` if the install has changed; `entry` is what to build again."""
    _raise_for(install, entry, verify_install(install, reporter).wrong)


@dataclass(slots=True)
class Verified:
    """The installs that are known to be intact in this run: those it made, and those it has looked at. For several
    threads.
    """

    _known: dict[str, Looked] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def made(self, path: str) -> None:
        """Record an install whose manifest was just made from its tree."""
        self._known[path] = Looked(())

    def require_needs(self, item: Item, entry: object, runner: Runner, reporter: Reporter) -> None:
        """Check all that a build of the item uses: its needs, its build needs, and what these run with. Each is hashed
        once a run.

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
                    self._known[path] = verify_install(install, reporter)
                looked = self._known[path]
            _raise_for(install, entry, looked.wrong)
            waiting |= {each: install.prefix.install_at(each) for each in looked.needs if each not in done}


def _manifest_faults(install: Install, manifest: Manifest, same: bool) -> Iterator[str]:
    name = install.manifest.name
    if not same:
        yield f"{name}: sha256 changed, by what the generation's record says"
    if tree_digest(manifest.paths) != manifest.tree:
        yield f"{name}: its rows changed: they do not have its tree digest"
    if not manifest.digest.startswith(install.path.name[-SHORT:]):
        yield f"{name}: it is another install's"


def _owner_faults(install: Install, uid: int, owners: Collection[int] | None) -> Iterator[str]:
    if owners is not None and uid not in owners:
        yield f"{install.manifest.name}: belongs to {user_name(uid)}"


def _extra_faults(install: Install, manifest: Manifest) -> list[str]:
    """Return the faults of files outside the tree, which also affect how later builds see the install."""
    lines = []
    for name, sha256 in sorted(manifest.extra.items()):
        try:
            found = sha256_bytes(read_regular(install.prefix.root / name))
        except FileNotFoundError:
            lines.append(f"{name}: missing")
        except OSError as error:
            lines.append(f"{name}: cannot be read: {error.strerror}")
        else:
            if sha256 and found != sha256:
                lines.append(f"{name}: sha256 changed")
    return lines


def _raise_for(install: Install, entry: object, wrong: Sequence[str]) -> None:
    if wrong:
        raise EnvmgrError(
            "install-differs",
            f"{install.path} is not what its manifest says",
            context=shortened(wrong, 10),
            hint=f"files of it changed after the build: remove {install.manifest.name}, then build {entry} again",
        )
