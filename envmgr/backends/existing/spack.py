"""An install of Spack that an entry leads to, as Spack's database has it now."""

from __future__ import annotations

from pathlib import Path

from envmgr.backends.existing.models import SpackFacts, SpackSpec
from envmgr.errors import EnvmgrError
from envmgr.system.spack_files import SHORT, read_database
from envmgr.wording import one_line, shortened


def find_spec(wanted: SpackSpec, path: str) -> SpackFacts:
    """Return what the database says of the install at `path`.

    Raises EnvmgrError `spack-differs` if Spack has it no more, or elsewhere; InputError as `read_database`.
    """
    found = read_database(Path(wanted.tree))
    row = found.get(wanted.hash)
    if row is not None and row.installed and row.path == path:
        return SpackFacts(tree=wanted.tree, spec=row.spec, hash=row.hash, compiler=row.compiler, target=row.target)
    if row is None:
        why = "is not in the database any more"
    else:
        why = "is not installed any more" if not row.installed else f"lies in {row.path}"
    name = Path(path).parent.name if row is None else row.name
    others = [
        one_line(f"there is {each.short} in {each.path}")
        for each in found.values()
        if each.name == name and each.installed
    ]
    raise EnvmgrError(
        "spack-differs",
        f"Spack's {wanted.hash[:SHORT]}, at {path}, {why}",
        context=[wanted.tree, *shortened(sorted(others), 5)],
        hint="users keep the module that is published; import what Spack has now under another name, or remove the entry",
    )
