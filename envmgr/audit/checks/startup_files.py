"""Users can read the start-up files that their shells read, and the files of the system that all programs read.

These are /etc/profile, /etc/profile.d, Lmod's and node-setup's files. Root can read a file that was written under umask
077, and users cannot. Users' shells skip it without a message, and root's tests pass. The check looks in the ordinary
user's login bash. There it also looks at files of the system that all programs need (/etc/ld.so.cache, /etc/passwd,
/etc/nsswitch.conf, /etc/resolv.conf, locales, time zones, certificates), and at the libraries that the loader knows. It
also compares the same files between nodes by content, as a note, because a difference explains what other checks find.
A file of /etc/profile.d that users cannot read on any node is meant for root.
"""

from __future__ import annotations

from envmgr.audit.compare.between_nodes import by_name
from envmgr.audit.model import QUORUM, AskedShell, Check, Evidence, ProbeTexts, Rows, scripts
from envmgr.audit.openings import open_steps
from envmgr.audit.plan import AuditPlan
from envmgr.probe.model import Facts
from envmgr.system.modes import SYSTEMS, as_user
from envmgr.system.shelltext import assign, quote


def judge(evidence: Evidence) -> Rows:
    for shell in evidence.each_shell():
        if shell.context.name == "bash-login":
            if shell.account == "user":
                yield from _closed(shell, evidence)
            for file, nodes in shell.by_value("startup_hides").items():  # it reads neither ~/.profile nor ~/.bashrc
                command = as_user(shell.user, f"tee -a {quote(file)}")
                yield evidence.say("hides", nodes, shell, file=file, command=command)
    for path, values in by_name(evidence.looked("startup_files"), _sums).items():
        yield evidence.compared("other_content", values, path=path)


def _closed(shell: AskedShell, evidence: Evidence) -> Rows:
    for path, having in shell.by_line("startup_files").items():
        everywhere = len(having) == len(shell.fleet.nodes) and len(having) >= QUORUM
        if not (everywhere and path.startswith("/etc/profile.d/")):  # else it is meant for root
            yield evidence.say("closed", having, path=path, hint=open_steps(evidence.site, [path], whom="users"))


def _sums(facts: Facts) -> dict[str, str]:
    lines = (line.partition(" ") for line in facts.get("startup_files.sums", "").splitlines())
    return {path: digest for digest, _, path in lines}


def probe(plan: AuditPlan) -> ProbeTexts:
    texts = scripts(__file__, "context", "node")(plan)
    return {**texts, "context": f"{assign(startup_systems=' '.join(SYSTEMS))}{texts['context']}"}


CHECK = Check(judge=judge, probe=probe)
