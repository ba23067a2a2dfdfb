"""The nodes and the users that site.yaml names, and the way to them: rows of `site check`."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from envmgr.catalog.settings import SiteFact
from envmgr.commands import Context
from envmgr.commands.site_places import Look
from envmgr.errors import CommandError, EnvmgrError, InputError
from envmgr.nodes import tool, tool_env
from envmgr.nodes.lookup import unknown_names
from envmgr.nodes.sets import NodeSets, fold
from envmgr.nodes.slurm import states_or_reason
from envmgr.system.users import find_account, session_as
from envmgr.wording import counted

_SECONDS = 10.0  # for each of sinfo, sbatch, ansible-inventory and the name service
_NODE_SET = "name nodes, as `c[1-3,7]`, `@GROUP` or `@slurm:PARTITION`"
_NO_LOGIN = ("nologin", "false")


def _login_nodes(ctx: Context) -> Iterator[SiteFact]:
    wanted = ctx.site.login_nodes
    if wanted is None:
        yield SiteFact("login_nodes", "ok", "not set")
    else:
        yield from _node_set(ctx, "login_nodes", wanted, wanted)


def _groups(ctx: Context) -> Iterator[SiteFact]:
    groups = ctx.site.groups
    yield SiteFact("groups", "ok", counted(len(groups), "groups") if groups else "none: this machine only")
    for name, group in sorted(groups.items()):
        kind, value = next((k, v) for k, v in group.model_dump().items() if v is not None)
        yield from _node_set(ctx, f"groups.{name}", group.nodes or f"@{name}", f"{value} ({kind})")


def _writable(ctx: Context) -> Iterator[SiteFact]:
    field, wanted = "mount.writable", ctx.site.mount.writable
    if wanted is None:
        yield SiteFact(field, "ok", "not set: the audit reports only differences between nodes")
    else:
        yield from _node_set(ctx, field, wanted, wanted)


def _node_set(ctx: Context, field: str, expression: str, said: str) -> Iterator[SiteFact]:
    """Yield the row of a node set: what is wrong with it, or with the names of its nodes."""
    site = ctx.site
    try:
        nodes = NodeSets(site, ctx.runner, _SECONDS).resolve(expression)
    except EnvmgrError as error:
        yield SiteFact(field, "error", f"{said}: {'; '.join((error.message, *error.context))}", error.hint or _NODE_SET)
        return
    count = counted(len(nodes), "nodes")
    text = f"{said}, {count}" if expression == said or said.endswith("(nodes)") else f"{said}, {count}: {fold(nodes)}"
    wrong = [*_unknown_to_ssh(ctx, nodes)] if site.transport.via != "slurm" else []
    wrong += [*_unknown_to_slurm(ctx, nodes)] if site.transport.via != "ssh" else []
    for words, hint in wrong:
        yield SiteFact(field, "warning", f"{text}; {words}", hint)
    if not wrong:
        yield SiteFact(field, "ok", text)


def _unknown_to_ssh(ctx: Context, nodes: Sequence[str]) -> Iterator[tuple[str, str]]:
    unknown, all_asked = unknown_names(nodes, ctx.runner, seconds=_SECONDS)
    if unknown:
        verb = "has" if len(unknown) == 1 else "have"
        hint = f"`getent hosts {unknown[0]}` finds nothing: /etc/hosts, the name service, or ~/.ssh/config must have it"
        yield f"{fold(unknown)} {verb} no address here", hint
    if not all_asked:
        yield f"the name service did not answer for all in {_SECONDS:g} s", f"`getent hosts {nodes[0]}`"


def _unknown_to_slurm(ctx: Context, nodes: Sequence[str]) -> Iterator[tuple[str, str]]:
    try:
        known, broken = states_or_reason(ctx.runner, _SECONDS)
    except EnvmgrError:
        return  # the row of `transport.via` says so
    if not broken and (unknown := [node for node in nodes if node not in known]):
        yield f"Slurm does not know {fold(unknown)}", "`sinfo -N` lists the nodes of Slurm"


def _via(ctx: Context) -> Iterator[SiteFact]:
    via = ctx.site.transport.via
    programs = {"ssh": ("ssh",), "slurm": ("srun", "sbatch", "sinfo"), "both": ("ssh", "srun", "sbatch", "sinfo")}[via]
    missing = [name for name in programs if shutil.which(name) is None]
    if missing:
        text = f"{via}, and {', '.join(missing)} {'is' if len(missing) == 1 else 'are'} not installed here"
        yield SiteFact("transport.via", "error", text, "install it, or run envmgr on a node that has it")
        return
    broken = "" if via == "ssh" else states_or_reason(ctx.runner, _SECONDS)[1]
    if broken:
        yield SiteFact("transport.via", "error", f"{via}, and Slurm does not answer: {broken}", "`scontrol ping`")
    else:
        here = "is" if len(programs) == 1 else "are"
        yield SiteFact("transport.via", "ok", f"{via}: `{'`, `'.join(programs)}` {here} here")


def _slurm_options(ctx: Context) -> Iterator[SiteFact]:
    """Yield what Slurm says about a job with these options; it starts none."""
    field, site = "transport.slurm_options", ctx.site
    options = site.transport.slurm_options
    said = " ".join(options)
    if not options:
        yield SiteFact(field, "ok", "not set")
        return
    if shutil.which("sbatch") is None:
        yield SiteFact(field, "warning", f"{said}: not looked at, because sbatch is not installed here")
        return
    env = tool_env()
    user = site.audit.user or site.build_user
    words = session_as(user if user and find_account(user) else None, env, find=tool)
    argv = [*words, tool("sbatch"), "--test-only", "--wrap", "true", *options]
    try:
        ctx.runner.run(argv, env=env, cwd=Path("/"), timeout=_SECONDS)
    except CommandError as error:
        lines = error.stderr.strip().splitlines() or [error.message]
        yield SiteFact(field, "error", f"{said}: {lines[0]}", f"`sbatch --test-only --wrap true {said}`")
    else:
        yield SiteFact(field, "ok", f"{said}: Slurm accepts a job with these (sbatch --test-only)")


def _inventory(ctx: Context) -> Iterator[SiteFact]:
    field, path = "transport.inventory", ctx.site.transport.inventory
    if path is None:
        yield SiteFact(field, "ok", "not set: Ansible's own")
        return
    if not path.exists():
        yield SiteFact(field, "error", f"{path} does not exist", "name the inventory, or take it out")
        return
    if not os.access(path, os.R_OK):
        yield SiteFact(field, "error", f"{path} cannot be read by you", f"ls -l {path}")
        return
    if shutil.which("ansible-inventory") is None:
        text = f"{path}: not looked into, because ansible-inventory is not installed here"
        yield SiteFact(field, "warning", text, "pip install 'envmgr[ansible]'")
        return
    try:
        found = NodeSets(ctx.site, ctx.runner, _SECONDS).resolve("@ansible:*")
    except InputError as error:
        yield SiteFact(field, "warning", f"{path}: {error.message}", error.hint)
    except EnvmgrError as error:
        yield SiteFact(field, "error", f"{path}: {'; '.join((error.message, *error.context))}", error.hint)
    else:
        yield SiteFact(field, "ok", f"{path}: {counted(len(found), 'nodes')}")


def _audit_user(ctx: Context) -> Iterator[SiteFact]:
    """Yield what this machine knows of the user whose shells the audit looks at: nodes should know the same."""
    field, site = "audit.user", ctx.site
    if site.audit.user is None and not (site.groups or site.login_nodes):
        yield SiteFact(field, "ok", "not set, and the site has no nodes to look at")
        return
    name = site.audit.user or site.build_user or "nobody"
    of = "" if site.audit.user else ", the build user, by default" if site.build_user else ", by default"
    hint = "name an ordinary user with a home: `audit: {user: …}` in site.yaml"
    account = find_account(name)
    if account is None:
        yield SiteFact(field, "error", f"{name}{of}: does not exist here", hint)
        return
    if account.uid == 0:
        yield SiteFact(field, "error", f"{name}{of}: is root, and the audit needs an ordinary user", hint)
        return
    wrong = []
    if not Path(account.home).is_dir():
        wrong.append(f"its home {account.home} does not exist here")
    if account.shell.rpartition("/")[2] in _NO_LOGIN:
        wrong.append(f"its shell {account.shell} lets nobody log in")
    if wrong:
        yield SiteFact(field, "warning", f"{name}{of}: {', and '.join(wrong)}", hint)
    else:
        text = f"{name}{of}, with the home {account.home} and the shell {account.shell}; nodes must have it too"
        yield SiteFact(field, "ok", text)


NODE_LOOKS: Mapping[str, Look] = {
    "login_nodes": _login_nodes,
    "groups": _groups,
    "transport.via": _via,
    "transport.slurm_options": _slurm_options,
    "transport.inventory": _inventory,
    "mount.writable": _writable,
    "audit.user": _audit_user,
}
