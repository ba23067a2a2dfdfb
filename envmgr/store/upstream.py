"""The upstream of a site: another site's prefix, whose installs are used where they are. Nothing is ever written there."""

from __future__ import annotations

from pathlib import Path

from envmgr.catalog.site import Site
from envmgr.errors import EnvmgrError
from envmgr.store.place import made_for
from envmgr.store.prefix import Prefix

_HINT = "is it mounted here? Without its installs, `upstream:` must go from site.yaml, and what stands on them is built again"


def prefixes_of(site: Site) -> tuple[Prefix, ...]:
    """Return the prefixes in which installs are looked for, in this order: the site's own, and its upstream.

    Raise EnvmgrError as `open_upstream`: an upstream that is away must not look like one that lacks an install.
    """
    own = Prefix(site.prefix)
    if site.upstream is None:
        return (own,)
    above = open_upstream(site.upstream)
    return (above, own) if site.upstream_first else (own, above)


def open_upstream(path: Path) -> Prefix:
    """Return the prefix. Raise EnvmgrError `upstream-unusable` if it is away, closed, no prefix or a moved one;
    `format-unknown`.
    """
    prefix = Prefix(path, foreign=True)
    try:
        names = {each.name for each in path.iterdir()}
        _ = next(prefix.store.iterdir(), None) if "store" in names else None
        made = made_for(prefix)
    except OSError as error:
        raise _unusable(path, f"{error.filename}: {error.strerror}", _HINT) from None
    except EnvmgrError as error:
        if error.reference == "format-unknown":
            raise
        raise _unusable(path, "; ".join((error.message, *error.context)), _HINT) from None
    if "store" not in names:
        raise _unusable(path, "it is no prefix of envmgr: it has no store", _HINT)
    if made is not None and made != path:
        raise _unusable(path, f"it was made for {made}", f"its installs work only there: `upstream: {made}`")
    return prefix


def is_of_upstream(path: str) -> bool:
    """Return whether a record names an install of the upstream: its path is not relative to the site's prefix."""
    return path.startswith("/")


def ask_upstream(prefix: Prefix) -> str:
    """Return what fixes an install of the upstream, which no command of this site changes."""
    return f"it is the upstream's: ask the administrators of {prefix.root} for `envmgr verify --repair`"


def _unusable(path: Path, why: str, hint: str) -> EnvmgrError:
    return EnvmgrError("upstream-unusable", f"the upstream {path} cannot be used", context=why, hint=hint)
