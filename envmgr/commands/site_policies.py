"""The decisions of site.yaml, against this machine: rows of `site check`."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from pathlib import Path

from envmgr.catalog.fitness import cpu_level
from envmgr.catalog.settings import SiteFact
from envmgr.catalog.site import read_target
from envmgr.catalog.site_file import CPU_ORDER, Signing
from envmgr.commands import Context
from envmgr.commands.site_places import Look
from envmgr.errors import CommandError, EnvmgrError
from envmgr.publish.signature import NAMESPACE, signers_text
from envmgr.system.files import free_bytes, group_id
from envmgr.system.modes import closing
from envmgr.system.run import Runner
from envmgr.wording import size_text

_SECONDS = 10.0  # for ssh-keygen


def _cpu_level(ctx: Context) -> Iterator[SiteFact]:
    field, wanted = "cpu_level", ctx.site.cpu_level
    target = read_target(wanted)
    system = f"{target.arch}, {target.os_id} {target.os_major}, glibc {target.glibc}"
    here = cpu_level(target.arch, _flags())
    if here and (wanted in CPU_ORDER) != (here in CPU_ORDER):
        yield SiteFact(field, "error", f"{wanted}, and this machine is {here}", "a prefix is built on its own hardware")
    elif here and CPU_ORDER.get(here, 0) < CPU_ORDER.get(wanted, 0):
        text = f"{wanted}, and this machine is {here}: tests before a publish cannot run here what is built"
        yield SiteFact(field, "warning", text, "build on a node of that level, or choose a lower one")
    else:
        yield SiteFact(field, "ok", f"{wanted} on {system}: the target of every digest")


def _flags() -> list[str]:
    text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    found = re.search(r"^flags\s*:(.*)$", text, re.MULTILINE)
    return found[1].split() if found else []


def _heal_export(ctx: Context) -> Iterator[SiteFact]:
    said = {
        True: "true: TaskProlog unsets SLURM_EXPORT_ENV: srun in a job with --export=NONE passes on what modules set",
        False: "false: SLURM_EXPORT_ENV stays: srun in a job with --export=NONE passes nothing on, and modules say so",
        None: "not decided: SLURM_EXPORT_ENV stays, and modules and the audit say so",
    }
    yield SiteFact("slurm.heal_export", "ok", said[ctx.site.slurm.heal_export])


def _signing_key(ctx: Context) -> Iterator[SiteFact]:
    field, signing = "signing.key", _signing(ctx)
    key = signing.key
    if key is None:
        yield SiteFact(field, "warning", "not set: this site signs its flips, and no publish can", "`key: FILE`")
        return
    if not key.is_file():
        yield SiteFact(field, "error", f"{key} {'is no file' if key.exists() else 'does not exist'}", "name the key")
        return
    if not os.access(key, os.R_OK):
        yield SiteFact(field, "error", f"{key} cannot be read by you", "`sudo envmgr site check` looks as root")
        return
    private = [each for each in signing.key_files if each.is_file() and each.suffix != ".pub"]
    if opened := [each for each in private if stat.S_IMODE(each.stat().st_mode) & 0o077]:
        text = f"{opened[0]} is a private key that other users can reach: ssh-keygen refuses it"
        yield SiteFact(field, "error", text, closing("go-rwx", str(opened[0])))
        return
    public, why = _public_of(key, ctx.runner)
    if why:
        yield SiteFact(field, "error", f"{key}: {why}", "name a key that ssh-keygen made")
    elif not public:
        yield SiteFact(field, "ok", f"{key}: has a passphrase; not compared with signing.allowed_signers")
    else:
        yield from _allowed(signing, key, public)


def _signing(ctx: Context) -> Signing:
    if ctx.site.signing is None:
        raise AssertionError("looked at only where the site signs")
    return ctx.site.signing


def _public_of(key: Path, runner: Runner) -> tuple[str, str]:
    """Return the key's public part as base64, empty for a passphrase; and why it is no key."""
    beside = key.with_name(f"{key.name}.pub")
    text = key.read_text(encoding="utf-8", errors="replace")
    if "PRIVATE KEY" in text and beside.is_file():
        text = beside.read_text(encoding="utf-8", errors="replace")
    elif "PRIVATE KEY" in text:
        try:
            text = runner.run(["ssh-keygen", "-y", "-P", "", "-f", str(key)], timeout=_SECONDS).stdout
        except CommandError as error:
            said = (error.stderr.strip().splitlines() or [error.message])[-1]
            return "", "" if "passphrase" in said else said
    words = text.split()
    return (words[1], "") if len(words) > 1 and "-" in words[0] else ("", "it is no key of ssh-keygen")


def _allowed(signing: Signing, key: Path, public: str) -> Iterator[SiteFact]:
    field = "signing.key"
    try:
        lines = [line for line in signers_text(signing).splitlines() if not line.startswith("#")]
    except EnvmgrError:
        yield SiteFact(field, "ok", f"{key}; signing.allowed_signers cannot be compared")
        return
    own = [line for line in lines if public in line.split()]
    named = [match for line in own if (match := re.search(r'namespaces="([^"]*)"', line))]
    for_flips = [match for match in named if any(fnmatchcase(NAMESPACE, each) for each in match[1].split(","))]
    if any("cert-authority" in line for line in lines):
        yield SiteFact(field, "ok", f"{key}: not compared with the certificate authority in signing.allowed_signers")
    elif own and (for_flips or len(named) < len(own)):
        yield SiteFact(field, "ok", f"{key}, which signing.allowed_signers has")
    else:
        what = "does not have this key" if not own else f"does not have this key for {NAMESPACE}"
        hint = f'add a line `NAME namespaces="{NAMESPACE}" KEYTYPE KEY` with its public key'
        yield SiteFact(field, "error", f"{key}: {signing.allowed_signers} {what}: no node would accept it", hint)


def _allowed_signers(ctx: Context) -> Iterator[SiteFact]:
    field, signing = "signing.allowed_signers", _signing(ctx)
    try:
        text = signers_text(signing)
    except EnvmgrError as error:
        yield SiteFact(field, "error", error.message, error.hint or "name the list of those who may sign")
        return
    path = signing.allowed_signers
    if path.stat().st_mode & 0o002:
        yield SiteFact(field, "error", f"{path} can be written by everyone: who may sign?", closing("o-w", str(path)))
        return
    count = sum(1 for line in text.splitlines() if line.strip() and not line.startswith("#"))
    yield SiteFact(field, "ok", f"{path}, {count} key{'' if count == 1 else 's'}")


def _umask(ctx: Context) -> Iterator[SiteFact]:
    field, policies = "policies.umask", ctx.site.policies
    if policies.mask & 0o700:
        text = f"{policies.umask} takes rights of the build user itself: nothing can be built"
        yield SiteFact(field, "error", text, 'usual are "022", and "027" with policies.group')
    elif policies.mask & 0o005 and (policies.mask & 0o050 or policies.group is None):
        text = f"{policies.umask}: users cannot read what is installed"
        yield SiteFact(field, "warning", text, '"022"; or "027", with their group in policies.group')
    else:
        yield SiteFact(field, "ok", f"{policies.umask}: the mask of installs' and folders' permissions")


def _group(ctx: Context) -> Iterator[SiteFact]:
    field, group = "policies.group", ctx.site.policies.group
    if group is None:
        yield SiteFact(field, "ok", "not set: the primary group of the build user")
        return
    try:
        group_id(group)
        yield SiteFact(field, "ok", group)
    except EnvmgrError as error:
        yield SiteFact(field, "error", error.message, f"groupadd {group}")


def _user_site(ctx: Context) -> Iterator[SiteFact]:
    seen = ctx.site.policies.user_site
    text = "Python sees ~/.local" if seen else "~/.local is kept out of Python (PYTHONNOUSERSITE)"
    yield SiteFact("policies.user_site", "ok", text)


def _unsigned(ctx: Context) -> Iterator[SiteFact]:
    field, site = "policies.unsigned", ctx.site
    if site.policies.unsigned == "refuse" and site.signing is None:
        yield SiteFact(field, "warning", "refuse, and the site signs nothing: it has no effect", "add `signing:`")
    else:
        text = {"note": "a login loads it and says so", "refuse": "a login keeps the last generation that was checked"}
        said = text[site.policies.unsigned]
        yield SiteFact(field, "ok", f"{site.policies.unsigned}: with a flip without a good signature {said}")


def _min_free(ctx: Context) -> Iterator[SiteFact]:
    field, wanted, prefix = "policies.min_free", ctx.site.policies.min_free, ctx.site.prefix
    existing = next(each for each in (prefix, *prefix.parents) if each.exists())
    free = free_bytes(existing)
    if free < wanted:
        text = f"{size_text(wanted)} must stay free, and {existing} has {size_text(free)}: builds stop"
        yield SiteFact(field, "warning", text, "`envmgr gc --dry-run` shows what could go")
    else:
        yield SiteFact(field, "ok", f"{size_text(wanted)} must stay free in {existing}, which has {size_text(free)}")


POLICY_LOOKS: Mapping[str, Look] = {
    "cpu_level": _cpu_level,
    "slurm.heal_export": _heal_export,
    "signing.key": _signing_key,
    "signing.allowed_signers": _allowed_signers,
    "policies.umask": _umask,
    "policies.group": _group,
    "policies.user_site": _user_site,
    "policies.unsigned": _unsigned,
    "policies.min_free": _min_free,
}
