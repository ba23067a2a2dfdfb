"""What the checks of Lmod judge: their names, a login shell, a site, a published generation."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from envmgr.audit.plan import PublishedGeneration
from envmgr.catalog.site import Site, _resolve
from envmgr.catalog.site_file import SiteFile
from envmgr.probe.model import CONTEXTS
from envmgr.publish.records import GenerationRecord

NAMES = ("lmod", "rc-files", "cache", "user-files")
LOGIN = next(c for c in CONTEXTS if c.name == "bash-login")
RECORD = "c" * 64


def site(prefix: str) -> Site:
    return _resolve(SiteFile(prefix=Path(prefix)), Path("/etc/envmgr/site.yaml"))


def published(number: int, files: Mapping[str, str], lmod: str = "8.6.19") -> PublishedGeneration:
    record = GenerationRecord(
        number=number,
        parent=None,
        created="",
        user="rsw",
        host="login",
        reason="",
        tools={"lmod": lmod},
        render="",
        entries={},
        files=dict(files),
        manifests={},
    )
    return PublishedGeneration(record, RECORD, {}, (number,), 0.0)
