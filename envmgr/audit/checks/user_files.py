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
- ~/.ssh/environment and ~/.pam_environment, which only sessions over ssh may read, and ~/.ssh/rc, which sshd runs, are
  notes.
- ~/.lmodrc.lua and ~/.modulerc (.lua) are notes: they are that user's choice, and change what the audit sees.
"""

from __future__ import annotations

from envmgr.audit.model import AskedShell, Check, Evidence, Found, ProbeTexts, Rows
from envmgr.audit.openings import of_homes
from envmgr.audit.plan import AuditPlan
from envmgr.audit.shell.shared_shell import shared
from envmgr.audit.table import Steps
from envmgr.system.modes import as_user, ask_about_way, closing, word
from envmgr.system.shelltext import assign, script_text


def probe(plan: AuditPlan) -> ProbeTexts:
    seen = "yes" if plan.site.policies.user_site else ""
    return {"context": assign(user_site=seen) + shared("lmod_config") + script_text(__file__, "context.sh")}


def judge(evidence: Evidence) -> Rows:
    """Yield one finding for each file, however many contexts report it."""
    found: dict[Found, tuple[str, AskedShell, dict[str, None]]] = {}
    for shell in evidence.each_shell():
        for line, nodes in shell.by_line("user_files").items():
            found.setdefault(_finding(line, shell, (), evidence), (line, shell, {}))[2].update(dict.fromkeys(nodes))
    for line, shell, of in found.values():
        yield _finding(line, shell, tuple(of), evidence)


def _finding(line: str, shell: AskedShell, nodes: tuple[str, ...], evidence: Evidence) -> Found:
    """Return the finding for a line of the probe."""
    user = shell.user
    kind, _, file = line.partition(" ")
    kind, _, other = kind.partition(":")
    file, _, said = file.partition("|")
    mine = file.startswith("~/")
    where = f"~{user}/{file[2:]}" if mine else file
    row = kind if kind in evidence.table.rows else "conda"
    steps = Steps(look=ask_about_way(where))
    if not other:
        look = evidence.table.words.get(kind, "")
        steps = Steps(run=as_user(user, _command(kind, where)), at=of_homes(shell), look=look)
    return evidence.say(
        row,
        nodes,
        hint="" if evidence.table.rows[row].hint else steps,
        user=user,
        where=where,
        said=said,
        fix=steps.text,
        system="" if mine else " --system",
        owner=user if mine else "root",
    )


def _command(kind: str, where: str) -> str:
    """Return the command that fixes a file of this kind; empty for kinds without one."""
    match kind:
        case "cache":
            return f"rm -r {word(where.rpartition('/')[0])}"
        case "shadow":
            return f"mv -T {word(where)} {word(where.removesuffix('.py') + '_mine.py')}"
        case "key":
            return closing("go-rwx", where)
        case "open":
            return closing("go-w", where)
        case "pip":
            return f"mv -T {word(where)} {word(f'{where}.old')}"
    return ""


CHECK = Check(judge=judge, probe=probe)
