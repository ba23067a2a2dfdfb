"""The decisions of site.yaml, against this machine: faults of `check`."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path

from envmgr.catalog.fitness import cpu_level
from envmgr.catalog.settings import SiteFact
from envmgr.catalog.site import read_target
from envmgr.catalog.site_file import CPU_ORDER
from envmgr.errors import EnvmgrError
from envmgr.publish.signature import signers_text
from envmgr.steps import Context
from envmgr.system.files import free_bytes, group_id
from envmgr.system.modes import closing
from envmgr.wording import size_text


def _cpu_level(ctx: Context) -> Iterator[SiteFact]:
    field, wanted = "cpu_level", ctx.site.cpu_level
    here = cpu_level(read_target(wanted).arch, _flags())
    if here and (wanted in CPU_ORDER) != (here in CPU_ORDER):
        yield SiteFact(field, "error", f"{wanted}, and this machine is {here}", "a prefix is built on its own hardware")
    elif here and CPU_ORDER.get(here, 0) < CPU_ORDER.get(wanted, 0):
        text = f"{wanted}, and this machine is {here}: tests before a publish cannot run here what is built"
        yield SiteFact(field, "warning", text, "build on a node of that level, or choose a lower one")


def _flags() -> list[str]:
    text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    found = re.search(r"^flags\s*:(.*)$", text, re.MULTILINE)
    return found[1].split() if found else []


def _signing_key(ctx: Context) -> Iterator[SiteFact]:
    field, signing = "signing.key", ctx.site.signing
    if signing is None:
        return
    key = signing.key
    if key is None:
        yield SiteFact(field, "warning", "not set: this site signs its flips, and no publish can", "`key: FILE`")
        return
    if not key.is_file():
        yield SiteFact(field, "error", f"{key} {'is no file' if key.exists() else 'does not exist'}", "name the key")
        return
    if not os.access(key, os.R_OK):
        yield SiteFact(field, "error", f"{key} cannot be read by you", "`sudo envmgr check` looks as root")
        return
    private = [each for each in signing.key_files if each.is_file() and each.suffix != ".pub"]
    if opened := [each for each in private if stat.S_IMODE(each.stat().st_mode) & 0o077]:
        text = f"{opened[0]} is a private key that other users can reach: ssh-keygen refuses it"
        yield SiteFact(field, "error", text, closing("go-rwx", str(opened[0])))


def _allowed_signers(ctx: Context) -> Iterator[SiteFact]:
    field, signing = "signing.allowed_signers", ctx.site.signing
    if signing is None:
        return
    try:
        signers_text(signing)
    except EnvmgrError as error:
        yield SiteFact(field, "error", error.message, error.hint or "name the list of those who may sign")
        return
    path = signing.allowed_signers
    if path.stat().st_mode & 0o002:
        yield SiteFact(field, "error", f"{path} can be written by everyone: who may sign?", closing("o-w", str(path)))


def _umask(ctx: Context) -> Iterator[SiteFact]:
    field, policies = "policies.umask", ctx.site.policies
    if policies.mask & 0o700:
        text = f"{policies.umask} takes rights of the build user itself: nothing can be built"
        yield SiteFact(field, "error", text, 'usual are "022", and "027" with policies.group')
    elif policies.mask & 0o005 and (policies.mask & 0o050 or policies.group is None):
        text = f"{policies.umask}: users cannot read what is installed"
        yield SiteFact(field, "warning", text, '"022"; or "027", with their group in policies.group')


def _group(ctx: Context) -> Iterator[SiteFact]:
    group = ctx.site.policies.group
    try:
        if group is not None:
            group_id(group)
    except EnvmgrError as error:
        yield SiteFact("policies.group", "error", error.message, f"groupadd {group}")


def _unsigned(ctx: Context) -> Iterator[SiteFact]:
    if ctx.site.policies.unsigned == "refuse" and ctx.site.signing is None:
        text = "refuse, and the site signs nothing: it has no effect"
        yield SiteFact("policies.unsigned", "warning", text, "add `signing:`")


def _min_free(ctx: Context) -> Iterator[SiteFact]:
    wanted, prefix = ctx.site.policies.min_free, ctx.site.prefix
    existing = next(each for each in (prefix, *prefix.parents) if each.exists())
    if (free := free_bytes(existing)) < wanted:
        text = f"{size_text(wanted)} must stay free, and {existing} has {size_text(free)}: builds stop"
        yield SiteFact("policies.min_free", "warning", text, "`envmgr gc --dry-run` shows what could go")


POLICY_LOOKS = (_cpu_level, _signing_key, _allowed_signers, _umask, _group, _unsigned, _min_free)
