"""Users get from node to node over ssh: sshd lets them in, and ssh there knows the other nodes.

The audit itself logs in as an administrator, who may enter where users may not. Each node's sshd reports its settings
for the ordinary user (`sshd -T`, which only root can ask). These are the users whom AllowUsers, AllowGroups, DenyUsers
and DenyGroups let in, and what else changes a session.

The check also compares ssh_config with its parts, and /etc/ssh/ssh_known_hosts. Without the latter, `ssh NODE` ends in
"Host key verification failed". Only nodes of the same groups are judged against each other. A site may choose that
users enter no compute node at all, or that login nodes have other rules.
"""

from __future__ import annotations

import re
from fnmatch import fnmatchcase

from envmgr.audit.compare.between_nodes import as_on, compare, values_of_like_nodes
from envmgr.audit.model import Check, Evidence, Outlier, ProbeTexts, Row, Rows
from envmgr.audit.plan import AuditPlan
from envmgr.audit.table import Steps, fields_of, short
from envmgr.nodes.sets import fold
from envmgr.probe.model import Facts, Fleet
from envmgr.system.shelltext import assign, quote, script_text

# In the order in which sshd asks. Source: sshd_config(5).
_WHO = ("DenyUsers", "AllowUsers", "DenyGroups", "AllowGroups")


def probe(plan: AuditPlan) -> ProbeTexts:
    return {"node": assign(ssh_peers="\n".join(plan.peers)) + script_text(__file__, "node.sh")}


def judge(evidence: Evidence) -> Rows:
    fleet = evidence.looked("ssh")
    yield from _let_in(fleet.only(lambda facts: "ssh.sshd" in facts), evidence)
    yield from _known(fleet, evidence)
    for values in values_of_like_nodes(fleet.by_value("ssh.config"), evidence):
        yield evidence.compared(
            "config",
            values,
            kept=False,
            say=lambda files: f"files {', '.join(x.partition(' ')[0] for x in files.splitlines()) or 'none'}",
            told=lambda of: f"other content: {', '.join(_other_files(of))}",
        )


def refused(facts: Facts, user: str) -> str:
    """Return the rule of sshd that keeps `user` out, as a line of sshd_config, or an empty string if no rule does.

    A pattern USER@HOST is taken to let in, and to keep nobody out. Source: sshd_config(5), and PATTERNS of
    ssh_config(5).
    """
    rules = _rules(facts.get("ssh.sshd", ""))
    groups = facts.get("ssh.groups", "").split()
    for rule in _WHO:
        patterns = rules.get(rule.lower(), [])
        names = [user] if rule.endswith("Users") else groups
        if rule == "DenyUsers":
            patterns = [pattern for pattern in patterns if "@" not in pattern]
        hit = any(_match(name, patterns) for name in names)
        # Without the user's groups, a rule on groups proves nothing.
        if patterns and hit == rule.startswith("Deny") and (names or rule.endswith("Users")):
            return f"{rule} {' '.join(patterns)}"
    return ""


def _rules(text: str) -> dict[str, list[str]]:
    rules: dict[str, list[str]] = {}
    for line in text.splitlines():
        name, _, value = line.partition(" ")
        rules.setdefault(name.lower(), []).append(value.strip())
    return rules


def _match(name: str, patterns: list[str]) -> bool:
    plain = [pattern.partition("@")[0] for pattern in patterns]
    # A negated pattern that fits outweighs all others of its list. Source: ssh_config(5), PATTERNS.
    if any(pattern.startswith("!") and fnmatchcase(name, pattern[1:]) for pattern in plain):
        return False
    return any(not pattern.startswith("!") and fnmatchcase(name, pattern) for pattern in plain)


def _let_in(fleet: Fleet, evidence: Evidence) -> Rows:
    user, told = evidence.plan.user, set[str]()
    rules = fleet.by(lambda facts: refused(facts, user))
    for outlier in compare(rules, evidence).outliers:
        if outlier.value and not outlier.right:
            told.update(outlier.nodes)
            right, hint = as_on(outlier.others), _mend(outlier, fleet)
            yield evidence.say("refused", outlier.nodes, rule=outlier.value, right=right, hint=hint)
    rest = fleet.only(lambda facts: not refused(facts, user)) if told else fleet
    for values in values_of_like_nodes(rest.by_value("ssh.sshd"), evidence):
        yield evidence.compared(
            "settings",
            values,
            kept=False,
            told=lambda of: short(_only(of.value, of.right)),
            expect=lambda right, value: short(_only(right, value)),
        )


def _mend(outlier: Outlier, fleet: Fleet) -> Steps:
    word = outlier.value.partition(" ")[0].lower()
    facts = next(group.facts for group in fleet.groups if outlier.nodes[0] in group.nodes)
    lines = (fields_of(line, 2) for line in facts.get("ssh.places", "").splitlines())
    place = next((found[1] for found in lines if found[0].lower() == word), "")
    after = "then `systemctl reload sshd` (`ssh` on Debian)"
    if not place:
        return Steps(look=f"on the node: `sshd -T` tells its settings; {after}")
    return Steps(delete=place, because="keeps users out", look=f"or name one of the user's groups there; {after}")


def _only(text: str, other: str) -> str:
    there = other.splitlines()
    return ", ".join(line for line in text.splitlines() if line not in there) or "without these"


def _known(fleet: Fleet, evidence: Evidence) -> Rows:
    for values in values_of_like_nodes(fleet.by_value("ssh.known"), evidence):
        for outlier in compare(values, evidence).outliers:
            yield _other_keys(outlier, fleet, evidence)
        if compare(values, evidence).differ:
            yield evidence.compared(
                "known",
                values,
                kept=False,
                say=lambda digest: "no such file" if digest == "none" else f"content {digest[:12]}",
            )


def _other_keys(outlier: Outlier, fleet: Fleet, evidence: Evidence) -> Row:
    names = sorted(_lacks(outlier.nodes, fleet) - _lacks(outlier.others, fleet))
    file, first = "/etc/ssh/ssh_known_hosts", outlier.others[0]
    copies = [f"scp -3p {quote(f'{first}:{file}')} {quote(f'{node}:{file}')}" for node in outlier.nodes]
    row = "no_keys" if outlier.value == "none" else "missing_keys" if names else "other_keys"
    return evidence.say(
        row, outlier.nodes, names=fold(names), right=as_on(outlier.others), first=first, command=" && ".join(copies)
    )


def _lacks(nodes: tuple[str, ...], fleet: Fleet) -> set[str]:
    return {
        name
        for group in fleet.groups
        if set(group.nodes) & set(nodes)
        for name in group.facts.get("ssh.lacks", "").split()
    }


def _other_files(of: Outlier) -> list[str]:
    differ = set(of.value.splitlines()) ^ set(of.right.splitlines())
    return sorted({re.sub(r" [0-9a-f]*$", "", line) for line in differ})


CHECK = Check(judge=judge, probe=probe, wants=frozenset({"peers"}))
