"""`envmgr init`: make a site and an empty catalog."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from pydantic import ValidationError

from envmgr.catalog.site import FILE_NAME
from envmgr.catalog.site_file import SiteFile
from envmgr.errors import InputError
from envmgr.report import Lines, Result
from envmgr.system.files import atomic_write, clear_temporaries, explain_os_error
from envmgr.system.yamlfile import reason_of

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
            yield "next: `envmgr site check`, then `envmgr new NAME/VERSION PACKAGE`, or `envmgr copy ENTRY`"


def init_site(folder: Path, *, prefix: Path, name: str, dry_run: bool = False) -> InitResult:
    """Write `site.yaml` and an empty catalog into `folder`; an existing site is never overwritten."""
    target = folder.resolve() / FILE_NAME
    if not dry_run:
        clear_temporaries(target.parent, FILE_NAME)
    if target.exists():
        raise InputError("site-exists", f"{target} exists", hint="edit it, or choose another folder")
    try:
        SiteFile(schema=1, name=name, prefix=prefix)
    except ValidationError as error:
        reasons = [reason_of(e) for e in error.errors()]
        raise InputError("site-invalid", f"{prefix} cannot be the prefix", context=reasons) from None
    if not dry_run:
        for own in ("recipes", "easyconfigs"):
            with explain_os_error(target.parent / own):
                (target.parent / own).mkdir(parents=True, exist_ok=True)
        text = _TEMPLATE.read_text(encoding="utf-8").format(name=name, prefix=prefix)
        atomic_write(target, text)  # last: a site that is there is whole
    return InitResult(str(target), str(target.parent / "recipes"), str(prefix), dry_run)
