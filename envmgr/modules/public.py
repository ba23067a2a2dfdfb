"""Which paths of a site are envmgr's own and meant for all its users: only these may a hint open."""

from __future__ import annotations

from collections.abc import Sequence

from envmgr.catalog.site import Site
from envmgr.modules.nodesetup import HOME, HOOK, PROGRAM, SIGNERS, node_files
from envmgr.system.modes import ask_owner, opening

_FOLDERS = ("/etc/envmgr", HOME, HOOK, PROGRAM)
_SITE = "/etc/envmgr/site.yaml"


def public_paths(site: Site, installs: Sequence[str] = ()) -> frozenset[str]:
    """The files that node-setup puts on nodes, the folders of these, the prefix, and `installs`, which are paths below it.

    Never the key with which the site signs, wherever it lies.
    """
    prefix = str(site.prefix)
    files = [file.path for file in node_files(site, signers="").files]
    below = [path for path in installs if path.startswith(f"{prefix}/store/") and ".." not in path.split("/")]
    key = set() if site.signing is None or site.signing.key is None else {str(site.signing.key)}
    shared = {prefix, f"{prefix}/store", f"{prefix}/generations"}
    return frozenset({*_FOLDERS, _SITE, SIGNERS, *files, *shared, *below} - key)


def open_hint(
    site: Site, paths: Sequence[str], *, whom: str, place: str = "on the node", installs: Sequence[str] = ()
) -> str:
    """How users can read `paths` again: the command where all are envmgr's own, else whom to ask. `place` is where to type it."""
    own = opening(paths, public_paths(site, installs), group_only=bool(site.policies.mask & 0o005))
    before = f"{place}: " if place else ""
    return f"{before}`{own}`" if own else f"{before}{ask_owner(paths, whom=whom)}"
