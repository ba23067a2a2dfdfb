"""Changes by the users' own files: `conda init`, a stale cache of Lmod's, ~/.lmodrc.lua and ~/.modulerc.

The check looks at login shells, for root and for the ordinary user:

- A `conda init` (or `mamba init`) block in a start-up file, the user's or the system's, puts conda's own python first
  in every new shell. It then comes before that of loaded modules, for example in a job. With `auto_activate_base:
  false` in ~/.condarc, the block puts only the conda command there, which is a note.
- Lmod writes its own cache into the home (~/.lmod.d/.cache, ~/.cache/lmod since 8.7) if reading the modules took long,
  and uses it for a day. A cache that is older than its modules hides new modules from that user.
- A file such as ~/random.py comes before Python's own module of that name, for a Python that is started in the home,
  where shells begin.
- ssh does not use a private key that other users can read.
- A pip.conf with `user = true` keeps pip from virtual environments.
- Packages of `pip install --user` come before those of modules, if the site lets Python see them
  (`policies.user_site`).
- ~/.lmodrc.lua and ~/.modulerc (.lua) are notes: they are that user's choice, and change what the audit sees.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from envmgr.audit.model import Check, Evidence, Found, Row
from envmgr.audit.plan import AuditPlan
from envmgr.audit.shell.shared_shell import shared
from envmgr.probe.model import ProbeStage
from envmgr.probe.shell import context_key
from envmgr.report import Severity
from envmgr.system.modes import as_user, ask_about_way, closing, word
from envmgr.system.shelltext import assign, script_text


def probe(plan: AuditPlan) -> Mapping[ProbeStage, str]:
    seen = "yes" if plan.site.policies.user_site else ""
    return {"context": assign(user_site=seen) + shared("lmod_config") + script_text(__file__, "context.sh")}


def judge(evidence: Evidence) -> Iterator[Row]:
    """Yield one finding for each file, however many contexts report it."""
    found: dict[Found, dict[str, None]] = {}
    for context, account, fleet in evidence.contexts():
        user = evidence.account(account)
        for lines, nodes in fleet.by_value(f"{context_key(context, account)}user_files").items():
            for line in lines.splitlines():
                found.setdefault(_finding(line, user), {}).update(dict.fromkeys(nodes))
    for finding, of in found.items():
        yield replace(finding, nodes=tuple(of))


def _finding(line: str, user: str) -> Found:
    """Return the finding for a line of the probe; its nodes are filled in later."""
    kind, _, file = line.partition(" ")
    kind, _, other = kind.partition(":")
    file, _, modules = file.partition("|")
    mine = file.startswith("~/")
    where = f"~{user}/{file[2:]}" if mine else file

    def typed(command: str) -> str:
        return ask_about_way(where) if other else f"`{as_user(user, command)}`"

    def moved(to: str) -> str:
        return typed(f"mv -T {word(where)} {word(to)}")

    if kind == "cache":
        found = f"Lmod uses this cache of {user}'s own, and it is older than the modules in {modules}"
        hint = f"{typed('rm -r ' + word(where.rpartition('/')[0]))}; a system cache of these modules would keep Lmod from writing it"
        return Found("warning", where, found, "no cache, or a newer one", hint)
    if kind == "shadow":
        found = f"a Python that is started in the home imports it for the module of that name ({user})"
        hint = f"rename it; or `python -P`, or PYTHONSAFEPATH=1: {moved(where.removesuffix('.py') + '_mine.py')}"
        return Found("warning", where, found, "no file that is called as a library is", hint)
    if kind in ("key", "open"):
        found = (
            f"mode {modules}: ssh between nodes does not use it"
            if kind == "key"
            else f"mode {modules}: sshd takes no keys where others can write"
        )
        hint = typed(closing("go-rwx" if kind == "key" else "go-w", where))
        return Found(
            "warning",
            where,
            found,
            "a key that is its owner's alone" if kind == "key" else "no others' right to write",
            hint,
        )
    if kind == "pipconf":
        found = f"`{modules}`: pip refuses to install into virtual environments, or installs past them ({user})"
        return Found(
            "warning", where, found, "no such line", f"take that line out of {where}; `pip config list` shows it"
        )
    if kind == "pip":
        found = f"packages of `pip install --user` come before those of a module's Python ({user}): {modules}"
        hint = f"a virtual environment for each project, or `policies: {{user_site: false}}` in site.yaml; {moved(where + '.old')}"
        return Found("warning", where, found, "no packages that every Python of that version sees", hint)
    if kind == "own":
        found = f"changes what Lmod does for {user}"
        return Found("note", where, found, "no such file", "is it meant? else move it away")
    severity: Severity = "warning"
    tool = "mamba" if kind == "mamba" else "conda"
    found = f"a `{tool} init` block: in new shells conda's python comes before that of modules"
    if kind == "conda-off":
        severity, found = "note", "a `conda init` block; .condarc says not to activate base"
    undo = "mamba shell deinit" if kind == "mamba" else "conda init --reverse" + ("" if mine else " --system")
    hint = f"`{undo}` as {user if mine else 'root'}"
    return Found(severity, where, found, "no such block", hint)


CHECK = Check(judge=judge, probe=probe)
