"""The nodes and the users that site.yaml names, and the way to them: a row and faults of `check`."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal

from envmgr.catalog.settings import SiteFact
from envmgr.errors import CommandError, EnvmgrError, InputError
from envmgr.nodes import tool, tool_env
from envmgr.nodes.lookup import unknown_names
from envmgr.nodes.sets import NodeSets, fold
from envmgr.nodes.slurm import states_or_reason
from envmgr.steps import Context
from envmgr.system.users import find_account, session_as
from envmgr.wording import counted

_SECONDS = 10.0  # for each of sinfo, sbatch, ansible-inventory and the name service
_NODE_SET = "name nodes, as `c[1-3,7]`, `@GROUP` or `@slurm:PARTITION`"
_NO_LOGIN = ("nologin", "false")


def groups_row(ctx: Context) -> Iterator[SiteFact]:
    """Yield the faults of each group, and what the others are."""
    groups, said = ctx.site.groups, list[str]()
    for name, group in sorted(groups.items()):
        kind, value = next((k, v) for k, v in group.model_dump().items() if v is not None)
        faults, nodes = _node_set(ctx, f"groups.{name}", group.nodes or f"@{name}", f"{value} ({kind})")
        yield from faults
        said += [f"{name}: {fold(nodes)} ({counted(len(nodes), 'nodes')})"] if nodes else []
    if said or not groups:
        yield SiteFact("groups", "ok", "; ".join(said) or "none: this machine only")


def transport_row(ctx: Context) -> Iterator[SiteFact]:
    """Yield whether the programs that reach nodes are here, and Slurm answers."""
    field, via = "transport.via", ctx.site.transport.via
    programs = {"ssh": ("ssh",), "slurm": ("srun", "sbatch", "sinfo"), "both": ("ssh", "srun", "sbatch", "sinfo")}[via]
    if missing := [name for name in programs if shutil.which(name) is None]:
        text = f"{via}, and {', '.join(missing)} {'is' if len(missing) == 1 else 'are'} not installed here"
        yield SiteFact(field, "error", text, "install it, or run envmgr on a node that has it")
    elif via != "ssh" and (broken := states_or_reason(ctx.runner, _SECONDS)[1]):
        yield SiteFact(field, "error", f"{via}, and Slurm does not answer: {broken}", "`scontrol ping`")
    else:
        yield SiteFact(field, "ok", f"{via}: `{'`, `'.join(programs)}` {'is' if len(programs) == 1 else 'are'} here")


def _other_nodes(ctx: Context) -> Iterator[SiteFact]:
    for field, wanted in (("login_nodes", ctx.site.login_nodes), ("mount.writable", ctx.site.mount.writable)):
        if wanted is not None:
            yield from _node_set(ctx, field, wanted, wanted)[0]


def _node_set(ctx: Context, field: str, expression: str, said: str) -> tuple[list[SiteFact], Sequence[str]]:
    """Return the faults of a node set, and its nodes."""
    via = ctx.site.transport.via
    try:
        nodes = NodeSets(ctx.site, ctx.runner, _SECONDS).resolve(expression)
    except EnvmgrError as error:
        text = f"{said}: {'; '.join((error.message, *error.context))}"
        return [SiteFact(field, "error", text, error.hint or _NODE_SET)], ()
    wrong = [*_unknown_to_ssh(ctx, nodes)] if via != "slurm" else []
    wrong += [*_unknown_to_slurm(ctx, nodes)] if via != "ssh" else []
    return [SiteFact(field, "warning", f"{said}: {words}", hint) for words, hint in wrong], nodes


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


def _slurm_options(ctx: Context) -> Iterator[SiteFact]:
    """Yield what Slurm says against a job with these options; it starts none."""
    site, options = ctx.site, ctx.site.transport.slurm_options
    if not options or shutil.which("sbatch") is None:
        return
    env = tool_env()
    user = site.audit.user or site.build_user
    words = session_as(user if user and find_account(user) else None, env, find=tool)
    argv = [*words, tool("sbatch"), "--test-only", "--wrap", "true", *options]
    try:
        ctx.runner.run(argv, env=env, cwd=Path("/"), timeout=_SECONDS)
    except CommandError as error:
        said, (line, *_) = " ".join(options), error.stderr.strip().splitlines() or [error.message]
        yield SiteFact(
            "transport.slurm_options", "error", f"{said}: {line}", f"`sbatch --test-only --wrap true {said}`"
        )


def _inventory(ctx: Context) -> Iterator[SiteFact]:
    field, path = "transport.inventory", ctx.site.transport.inventory
    if path is None:
        return
    if not path.exists():
        yield SiteFact(field, "error", f"{path} does not exist", "name the inventory, or take it out")
    elif not os.access(path, os.R_OK):
        yield SiteFact(field, "error", f"{path} cannot be read by you", f"ls -l {path}")
    elif shutil.which("ansible-inventory") is None:
        text = f"{path}: not looked into, because ansible-inventory is not installed here"
        yield SiteFact(field, "warning", text, "pip install 'envmgr[ansible]'")
    else:
        try:
            NodeSets(ctx.site, ctx.runner, _SECONDS).resolve("@ansible:*")
        except EnvmgrError as error:
            status: Literal["warning", "error"] = "warning" if isinstance(error, InputError) else "error"
            yield SiteFact(field, status, f"{path}: {'; '.join((error.message, *error.context))}", error.hint)


def _audit_user(ctx: Context) -> Iterator[SiteFact]:
    """Yield what is wrong here with the user whose shells the audit looks at: nodes should know the same."""
    site = ctx.site
    if site.audit.user is None and not (site.groups or site.login_nodes):
        return
    name = site.audit.user or site.build_user or "nobody"
    account = find_account(name)
    if account is None:
        wrong = ["does not exist here"]
    elif account.uid == 0:
        wrong = ["is root, and the audit needs an ordinary user"]
    else:
        wrong = [] if Path(account.home).is_dir() else [f"its home {account.home} does not exist here"]
        if account.shell.rpartition("/")[2] in _NO_LOGIN:
            wrong.append(f"its shell {account.shell} lets nobody log in")
    if wrong:
        serious = account is None or account.uid == 0
        said = f"{name}{'' if site.audit.user else ', by default'}: {', and '.join(wrong)}"
        hint = "name an ordinary user with a home: `audit: {user: …}` in site.yaml"
        yield SiteFact("audit.user", "error" if serious else "warning", said, hint)


NODE_LOOKS = (_other_nodes, _slurm_options, _inventory, _audit_user)
