"""Which paths of a site are envmgr's own and meant for all its users: only these may a hint open."""

from __future__ import annotations

from collections.abc import Sequence

from envmgr.catalog.site import Site
from envmgr.modules.nodesetup import HOME, HOOK, PROGRAM, SIGNERS, node_files
from envmgr.system.modes import as_user, ask_owner, opening

_FOLDERS = ("/etc/envmgr", HOME, HOOK, PROGRAM)
_SITE = "/etc/envmgr/site.yaml"


def public_paths(site: Site, installs: Sequence[str] = ()) -> frozenset[str]:
    """The files that node-setup puts on nodes, the folders of these, the prefix, and `installs`, which are paths below it.

    Never the key with which the site signs, wherever it lies.
    """
    prefix = str(site.prefix)
    files = [file.path for file in node_files(site, signers="").files]
    below = [path for path in installs if path.startswith(f"{prefix}/store/") and ".." not in path.split("/")]
    key = set() if site.signing is None else set(map(str, site.signing.key_files))
    shared = {prefix, f"{prefix}/store", f"{prefix}/generations"}
    return frozenset({*_FOLDERS, _SITE, SIGNERS, *files, *shared, *below} - key)


def open_hint(
    site: Site, paths: Sequence[str], *, whom: str, place: str = "on the node", installs: Sequence[str] = ()
) -> str:
    """How users can read `paths` again: the command where all are envmgr's own, else whom to ask. `place` is where to type it.

    What lies below the prefix its build user opens, who may have put a link there.
    """
    public, before = public_paths(site, installs), f"{place}: " if place else ""
    if not paths or not public.issuperset(paths):
        return f"{before}{ask_owner(paths, whom=whom)}"
    below = [path for path in paths if site.build_user is not None and path.startswith(f"{site.prefix}/")]
    commands = [
        as_user(user, opening(of, public, group_only=bool(site.policies.mask & 0o005)))
        for user, of in ((site.build_user or "root", below), ("root", [path for path in paths if path not in below]))
        if of
    ]
    return before + ", ".join(f"`{command}`" for command in commands)
