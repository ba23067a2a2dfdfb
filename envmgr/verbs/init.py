"""`envmgr init`: make a site and an empty catalog."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

from pydantic import ValidationError

from envmgr.catalog.site import FILE_NAME, embedded_prefix
from envmgr.catalog.site_file import SiteFile
from envmgr.errors import InputError
from envmgr.report import Lines, Result
from envmgr.system.files import atomic_write, clear_temporaries, explain_os_error
from envmgr.system.yamlfile import reason_of
from envmgr.verbs import DryRun, argument, option

_TEMPLATE = Path(__file__).with_name("site.yaml.in")


@dataclass(frozen=True, slots=True)
class InitResult(Result):
    schema: ClassVar[str] = "envmgr.init/1"
    site: str
    catalog: str
    prefix: str
    dry_run: bool

    def lines(self) -> Lines:
        yield f"{'would write' if self.dry_run else 'wrote'} {self.site}"
        yield f"catalog: {self.catalog}"
        yield f"prefix:  {self.prefix}"
        if not self.dry_run:
            yield "next: `envmgr check`, then `envmgr new NAME/VERSION PACKAGE`, or `envmgr copy ENTRY`"


def init(
    folder: Annotated[Path, argument("Folder for site.yaml and the catalog.")] = Path(),
    prefix: Annotated[
        Path | None, option("Shared folder for installs and modules, with the same path on every node.", "FOLDER")
    ] = None,
    name: Annotated[str, option("Name of the cluster.", "NAME")] = "cluster",
    dry_run: DryRun = False,
) -> InitResult:
    """Make a site and an empty catalog."""
    chosen = prefix or embedded_prefix(os.environ)
    target = folder.resolve() / FILE_NAME
    if not dry_run:
        clear_temporaries(target.parent, FILE_NAME)
    if target.exists():
        raise InputError("site-exists", f"{target} exists", hint="edit it, or choose another folder")
    try:
        SiteFile(schema=1, name=name, prefix=chosen)
    except ValidationError as error:
        reasons = [reason_of(e) for e in error.errors()]
        raise InputError("site-invalid", f"{chosen} cannot be the prefix", context=reasons) from None
    if not dry_run:
        for own in ("recipes", "easyconfigs"):
            with explain_os_error(target.parent / own):
                (target.parent / own).mkdir(parents=True, exist_ok=True)
        text = _TEMPLATE.read_text(encoding="utf-8").format(name=name, prefix=chosen)
        atomic_write(target, text)  # last: a site that is there is whole
    return InitResult(str(target), str(target.parent / "recipes"), str(chosen), dry_run)
