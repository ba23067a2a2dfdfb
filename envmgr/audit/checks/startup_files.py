"""Users can read the start-up files that their shells read, and the files of the system that all programs read.

These are /etc/profile, /etc/profile.d, Lmod's and node-setup's files. Root can read a file that was written under umask
077, and users cannot. Users' shells skip it without a message, and root's tests pass. The check looks in the ordinary
user's login bash. There it also looks at files of the system that all programs need (/etc/ld.so.cache, /etc/passwd,
/etc/nsswitch.conf, /etc/resolv.conf, locales, time zones, certificates), and at the libraries that the loader knows. It
also compares the same files between nodes by content, as a note, because a difference explains what other checks find.
It compares which files python3, gcc, mpirun, sbatch and other such names are in the user's login bash.
A file of /etc/profile.d that users cannot read on any node is meant for root.
"""

from __future__ import annotations

from envmgr.audit.compare.between_nodes import by_name, values_of_like_nodes
from envmgr.audit.model import QUORUM, AskedShell, Check, Evidence, ProbeTexts, Rows, scripts
from envmgr.audit.openings import of_homes, open_steps
from envmgr.audit.plan import AuditPlan
from envmgr.audit.table import Steps, short
from envmgr.probe.model import Facts
from envmgr.system.modes import SYSTEMS, as_user
from envmgr.system.shelltext import assign, quote


def judge(evidence: Evidence) -> Rows:
    for shell in evidence.each_shell():
        if shell.context.name == "bash-login":
            if shell.account == "user":
                yield from _closed(shell, evidence)
                for programs in values_of_like_nodes(shell.by_value("startup_programs"), evidence):
                    yield evidence.compared(
                        "programs",
                        programs,
                        shell,
                        kept=False,
                        told=lambda of: _programs(of.value, of.right),
                        expect=_programs,
                    )
            for file, nodes in shell.by_value("startup_hides").items():  # it reads neither ~/.profile nor ~/.bashrc
                command = f"printf '\\n. ~/.profile\\n' | {as_user(shell.user, f'tee -a {quote(file)}')}"
                hint = Steps(run=command, at=of_homes(shell))
                yield evidence.say("hides", nodes, shell, file=file, hint=hint)
    for path, values in by_name(evidence.looked("startup_files"), _sums).items():
        yield evidence.compared("other_content", values, path=path)


def _closed(shell: AskedShell, evidence: Evidence) -> Rows:
    for path, having in shell.by_line("startup_files").items():
        everywhere = len(having) == len(shell.fleet.nodes) and len(having) >= QUORUM
        if not (everywhere and path.startswith("/etc/profile.d/")):  # else it is meant for root
            yield evidence.say("closed", having, path=path, hint=open_steps(evidence.site, [path], whom="users"))


def _programs(of: str, other: str) -> str:
    """Return in words what each program is that is another one in `other`."""
    found, others = ({line.split(" ")[0]: line.split(" ")[1:] for line in text.splitlines()} for text in (of, other))
    names = [name for name in sorted({**found, **others}) if found.get(name) != others.get(name)]
    return short("; ".join(f"{name} is {' -> '.join(dict.fromkeys(found.get(name, ['not there'])))}" for name in names))


def _sums(facts: Facts) -> dict[str, str]:
    lines = (line.partition(" ") for line in facts.get("startup_files.sums", "").splitlines())
    return {path: digest for digest, _, path in lines}


def probe(plan: AuditPlan) -> ProbeTexts:
    texts = scripts(__file__, "context", "node")(plan)
    return {**texts, "context": f"{assign(startup_systems=' '.join(SYSTEMS))}{texts['context']}"}


CHECK = Check(judge=judge, probe=probe)
