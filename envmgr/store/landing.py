"""The end of a build: what lies in the staging folder becomes the install, by one rename."""

from __future__ import annotations

from contextlib import suppress

from envmgr.errors import EnvmgrError
from envmgr.store.manifest import unmasked_tree
from envmgr.store.prefix import Install
from envmgr.store.tree import tree_digest
from envmgr.system.files import exchange, sync_folder
from envmgr.system.locks import require_not_anothers
from envmgr.system.safe_paths import remove_below


def clear(install: Install) -> None:
    """Remove what a build of it has made, or left: its lock is held. A tree that is to be replaced stays.

    Raises EnvmgrError `lock-lost` where that is another run's by now.
    """
    require_not_anothers(install.lock)
    remove_below(install.prefix.root, install.staging)
    if install.replaces is None:
        remove_below(install.prefix.root, install.path)


def land(install: Install) -> None:
    """Under its lock. A tree that it replaces goes away after the exchange: programs that run from it keep their files.

    Raises EnvmgrError `repair-differs` where it is not the tree that it replaces; `lock-lost`.
    """
    require_not_anothers(install.lock)
    if install.replaces is None:
        install.staging.rename(install.path)
        sync_folder(install.path.parent)
        return
    if install.replaces and (made := tree_digest(unmasked_tree(install.staging))) != install.replaces:
        raise EnvmgrError(
            "repair-differs",
            f"{install.entry} was built again, and is not what its manifest says",
            context=[f"manifest    {install.replaces}", f"built again {made}"],
            hint="the lock, the cache and the manifest were not made for each other; the install stays as it was: "
            f"remove {install.manifest.name} and build the entry again",
        )
    exchange(install.staging, install.path)
    sync_folder(install.path.parent)
    with suppress(
        OSError
    ):  # another user's files: the install is whole, and the next build tells what it cannot remove
        remove_below(install.prefix.root, install.staging)
