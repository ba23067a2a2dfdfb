"""A user's environments as text."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from envmgr.cli.render import out, table
from envmgr.cli.text.nodes import show_finding
from envmgr.wording import counted, size_text

if TYPE_CHECKING:
    from envmgr.commands import completion, doctor, user, user_kernel, user_list

_BASES = {
    "newer": "{on} has another install now: `envmgr user update {name} --rebase` takes it",
    "removed": "{on} is no longer published; its install is still there",
    "gone": "the install of {on} is gone: `envmgr user update {name} --rebase`, or another entry",
}


def show_change(result: user.UserResult) -> None:
    for each in result.changes:
        sign = "~" if each.before and each.after else "+" if each.after else "-"
        versions = " -> ".join(version for version in (each.before, each.after) if version)
        out(f"  {sign} {each.name} {versions}")
    for folder in result.editable:
        out(f"  {folder}, as it is: no lock holds it")
    for line in result.breaks:
        out(f"may break: {line}")
    if result.inodes is None or result.size is None:
        out(f"nothing was changed: {result.module} would stand on {result.on}")
        return
    out(f"{result.module} stands on {result.on}: {_amount(result.inodes, result.size)} in {result.path}")
    if result.no_kernel:
        out(f"removed the kernel {result.no_kernel}: nothing has ipykernel any more")
    if result.held:
        out(f"the cluster keeps what it stands on until {result.held}, and longer when you change it")
    else:
        out(f"the cluster may remove what it stands on some time after {result.on} changes: {result.not_held}")
    out(f"your environments had {_amount(result.inodes_before, result.size_before)} before")
    out(
        f"`module load {result.module}` loads it{f'; in this shell `module use {result.use}` comes first' * bool(result.use)}"
    )


def show_environments(result: user_list.UserListResult) -> None:
    if not result.environments:
        out(f"no environment in {result.folder}: `envmgr user create NAME --on ENTRY PACKAGE` makes one")
    _rows(result.environments)


def show_environment(result: user_list.UserShowResult) -> None:
    row = result.environment
    _rows([row])
    out(f"asked for: {', '.join(row.requirements) or 'nothing'}")
    for package in row.packages:
        out(f"  {package}")
    for folder in row.editable:
        out(f"  {folder}, as it is: no lock holds it")
    out(f"in {row.path}")


def _rows(rows: Sequence[user_list.UserRow]) -> None:
    table([f"user/{row.name}", row.on or "?", row.base, row.fault or _amount(row.inodes, row.size)] for row in rows)
    for row in rows:
        if row.base in _BASES:
            out(f"{row.name}: {_BASES[row.base].format(on=row.on, name=row.name)}")
        if row.strangers:
            out(f"{row.name}: its lock does not have {', '.join(row.strangers)}")


def show_doctor(result: doctor.DoctorResult) -> None:
    for finding in result.findings:
        show_finding(finding)
        out()
    looked = f"{counted(len(result.contexts), 'kinds')} of shells of {result.user} on {result.host}"
    if result.unlooked:
        out(f"not looked at: {result.unlooked}")
    wrong = sum(finding.severity != "note" for finding in result.findings)
    said = f"{counted(wrong, 'causes')} found" if wrong else "nothing wrong"
    out(f"{said} in {looked}, and in your files, environments and kernels ({result.seconds:.1f} s)")


def show_kernel(result: user_kernel.UserKernelResult) -> None:
    if result.removed and not result.display_name:
        out(f"there is no kernel of {result.name} that envmgr wrote")
        return
    would, did = ("would remove", "removed") if result.removed else ("would write", "wrote")
    out(f"{would if result.dry_run else did} {result.path}: `{result.display_name}`")


def show_completion(result: completion.CompletionResult) -> None:
    sys.stdout.write(result.text)


def show_deleted(result: user_list.UserDeleteResult) -> None:
    done = "would delete" if result.dry_run else "deleted"
    out(f"{done} user/{result.name}: {_amount(result.inodes, result.size)}")


def show_lock(result: user_list.UserExportResult) -> None:
    if result.output is None:
        sys.stdout.write(result.text)
        return
    done = "would write" if result.dry_run else "wrote"
    out(f"{done} {result.output}: `envmgr user create NAME --from-lock {result.output}` makes the same packages")
    out(f"as an entry on a bare Python: `envmgr import {result.output} --as NAME/VERSION`")
    out(f"as one with all of {result.on}: a copy of its recipe, with these rows in `pip` (of wheels: `requirements`)")
    out(f"  [{', '.join(result.rows)}]")


def _amount(inodes: int, size: int) -> str:
    return f"{counted(inodes, 'inodes')}, {size_text(size)}"
