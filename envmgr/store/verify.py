"""The comparison of an install with its manifest: for what is published, and for everything that something is
built on.
"""

from __future__ import annotations

import stat
import threading
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from envmgr.errors import EnvmgrError
from envmgr.report import Reporter
from envmgr.store.manifest import Manifest, parse_manifest
from envmgr.store.outside import changes_outside
from envmgr.store.prefix import SHORT, Install, Item
from envmgr.store.tree import TreePath, look_at_tree, tree_digest
from envmgr.system.files import read_regular, sha256_bytes
from envmgr.system.run import Runner
from envmgr.system.usernames import user_name
from envmgr.wording import escaped, shortened


@dataclass(frozen=True, slots=True)
class Looked:
    """An install that was looked at. `wrong` are the differences from its manifest, as readable lines.

    `needs` are the installs that it runs with, by paths relative to the prefix; `made_at` is as in a manifest. `outside`
    is how the tree that it leads to differs from what was recorded: that is not ours.
    """

    wrong: tuple[str, ...]
    needs: tuple[str, ...] = ()
    made_at: tuple[str, ...] = ()
    outside: tuple[str, ...] = ()


def verify_install(
    install: Install,
    reporter: Reporter,
    *,
    named: str | None = None,
    owners: Collection[int] | None = None,
    outside: bool = False,
) -> Looked:
    """Hash the install again, its extra files, and its manifest (invariant 5).

    `named` is the manifest's sha256 in a generation; `owners` are the user numbers to whom an install may belong.
    With `outside`, a tree that it leads to is looked at, too.

    Raise EnvmgrError `manifest-damaged`, `format-unknown`.
    """
    try:
        status = install.manifest.lstat()
        # Read once, so that the bytes with the right sha256 are the bytes that are parsed.
        content = read_regular(install.manifest)
    except FileNotFoundError:
        return Looked((f"{install.manifest} is missing",))
    except OSError as error:
        return Looked((f"{install.manifest} cannot be read: {error.strerror}",))
    manifest = parse_manifest(install.manifest, content)
    with reporter.stage(f"{install.entry} verify", unit="files"):
        # All of an image belongs to root.
        found = differences(install.path, manifest, owner=None if install.is_covered() else status.st_uid)
    wrong = (
        *_manifest_faults(install, manifest, named is None or sha256_bytes(content) == named),
        *_owner_faults(install, status.st_uid, owners),
        *found,
        *_extra_faults(install, manifest),
    )
    changes: tuple[str, ...] = ()
    if outside and (tree := manifest.facts.outside) is not None and not wrong:
        with reporter.stage(f"{install.entry} verify {tree.path}", unit="files"):
            changes = changes_outside(install.path, tree)
    return Looked(wrong, manifest.facts.needs, manifest.made_at, changes)


def require_unchanged(install: Install, entry: object, reporter: Reporter) -> None:
    """Raise EnvmgrError `install-differs` if the install has changed, `tree-differs` if the tree that it leads to has;
    `entry` is what to build again.
    """
    looked = verify_install(install, reporter, outside=True)
    _raise_for(install, entry, looked.wrong)
    if looked.outside:
        raise EnvmgrError(
            "tree-differs",
            f"the tree of {entry}, which is not ours, changed after the build",
            context=shortened(looked.outside, 10),
            hint=f"who changed it, and why? `envmgr lock {entry} && envmgr build {entry}` takes it as it is now",
        )


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
            # The lock is held during the hashing: two builds on one install must not both hash it.
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
    # A row that was edited to fit a changed file does not fit the digest over all rows.
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
            if found != sha256:
                lines.append(f"{name}: sha256 changed")
    return lines


def _raise_for(install: Install, entry: object, wrong: Sequence[str]) -> None:
    if wrong:
        raise EnvmgrError(
            "install-differs",
            f"{install.path} is not what its manifest says",
            context=shortened(wrong, 10),
            hint=f"files of it changed after the build: find the cause; `envmgr build --again {entry}` makes it again",
        )


def require_promised(install: Install, expected: Mapping[str, str], manifest: Manifest) -> None:
    """Raise EnvmgrError `install-differs` if files differ from what the packages promise."""
    found = {path.path: path.sha256 for path in manifest.paths}
    wrong = [
        f"{path}: {'missing' if path not in found else 'another sha256 than its package says'}"
        for path, digest in sorted(expected.items())
        if found.get(path) != digest
    ]
    if wrong:
        raise EnvmgrError(
            "install-differs",
            f"{len(wrong)} {'files' if len(wrong) > 1 else 'file'} of {install.entry} "
            f"{'differ' if len(wrong) > 1 else 'differs'} from what the packages promise",
            context=shortened(wrong, 10),
            hint="build again. If it names the same files again, the package itself is wrong (a wheel's RECORD): tell its authors, "
            "and lock another version. Else the file system or the cache is damaged: run a file system check",
        )


def differences(root: Path, manifest: Manifest, *, owner: int | None = None, workers: int = 4) -> list[str]:
    """Return how a tree differs from its manifest, as readable lines, sorted by path; empty if it does not.

    All of it must belong to `owner`, a user's number; None: the owner of the root.
    """
    try:
        status = root.lstat()
    except FileNotFoundError:
        return [f"{root} is missing"]
    if not stat.S_ISDIR(status.st_mode):
        what = f"a link to {escaped(str(root.readlink()))}" if stat.S_ISLNK(status.st_mode) else "no folder"
        return [f".: {what}, where the install's folder was"]
    owner = status.st_uid if owner is None else owner
    look = look_at_tree(root, owner, workers=workers)
    lines = []
    if (mode := stat.S_IMODE(status.st_mode) & 0o777) != 0o555 & ~manifest.mask:
        lines.append(f".: mode changed to {mode:04o}")
    if status.st_uid != owner:
        lines.append(f".: belongs to {user_name(status.st_uid)}, not to {user_name(owner)}")
    if "" in look.unread:
        lines.append(f".: cannot be read: {look.unread['']}")
    mask = ~manifest.mask
    expected = {
        p[0]: p if p[1] == "link" else TreePath(p[0], p[1], p[2] & mask, p[3], p[4], p[5]) for p in manifest.paths
    }
    odd: dict[str, TreePath | None] = {p[0]: p for p in look.paths if expected.get(p[0]) != p}
    # Usually nothing is missing: then no set of all paths is made.
    if len(look.paths) - sum(path not in expected for path in odd) < len(expected):
        odd |= dict.fromkeys(expected.keys() - {p[0] for p in look.paths})
    for path in sorted({*odd, *look.owners, *look.unread} - {""}):
        if path in odd:
            lines += _difference(path, odd[path], expected.get(path), look.unread.get(path))
        elif path in look.unread:
            lines.append(f"{escaped(path)}: cannot be read: {look.unread[path]}")
        if path in look.owners:
            lines.append(f"{escaped(path)}: belongs to {user_name(look.owners[path])}, not to {user_name(owner)}")
    return lines


def changed_rows(known: Manifest, made: Manifest) -> list[str]:
    """Return how the files of an install that was made again differ from what its manifest says, as readable lines."""
    have, want = ({row.path: row for row in each.paths} for each in (made, known))
    paths = [path for path in sorted({*have, *want}) if have.get(path) != want.get(path)]
    lines = [line for path in paths for line in _difference(path, have.get(path), want.get(path), None)]
    extra = sorted({*known.extra, *made.extra})
    return lines + [f"{path}: sha256 changed" for path in extra if known.extra.get(path) != made.extra.get(path)]


def _difference(path: str, have: TreePath | None, want: TreePath | None, unread: str | None) -> list[str]:
    if have is None:
        return [f"{escaped(path)}: {f'cannot be read: {unread}' if unread else 'missing'}"]
    if want is None:
        return [f"{escaped(path)}: not in the manifest"]
    names = ("kind", "mode", "size", "target") if unread else ("kind", "mode", "size", "sha256", "target")
    what = [name for name in names if getattr(have, name) != getattr(want, name)]
    lines = [f"{escaped(path)}: {', '.join(what)} changed"] if what else []
    return lines + ([f"{escaped(path)}: cannot be read: {unread}"] if unread else [])
