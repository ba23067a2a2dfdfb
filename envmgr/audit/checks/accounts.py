"""The build user and the audited user have the same uid and gid on every node as on this host, and users can log in.

File systems keep numbers, not names. If the build user's number belongs to another user on a node, that user can change
what is installed. If the audited user's number differs, its files are not its own there. A node without the build user
is only a note, because it can still read the prefix.

The audited user's login shell, home and groups are compared between nodes. With /bin/sh as the login shell, `ssh NODE
COMMAND` reads no start-up file. A node with /etc/nologin lets no user in over ssh, but jobs run there. The check also
reports a prefix that belongs to a name other than the build user's. An NFSv4 domain that does not agree makes it
`nobody`.
"""

from __future__ import annotations

from collections.abc import Iterator

from envmgr.audit.compare.between_nodes import compare, drift
from envmgr.audit.model import Check, Evidence, Found, Row, scripts
from envmgr.nodes.sets import fold

_SAME_NUMBERS = "one directory service for all nodes, or the same lines in /etc/passwd"


def judge(evidence: Evidence) -> Iterator[Row]:
    build_user = evidence.site.build_user
    for name in sorted({build_user, evidence.plan.user} - {None, "root"}):  # type: ignore[type-var]
        yield from _numbers(str(name), evidence)
    yield from _login(evidence.plan.user, evidence)
    if build_user is not None:
        yield from _owner(build_user, evidence)


def _numbers(name: str, evidence: Evidence) -> Iterator[Row]:
    values = evidence.fleet.by_value(f"accounts.{name}")
    here = evidence.controller.get(f"accounts.{name}", "")
    known = [value for value in values if value not in ("", "hung")]
    right = here if here in known else ""
    where = f"user {name}"
    for value, nodes in values.items():
        if value == "hung":
            yield Found(
                "error",
                where,
                "`id` does not answer",
                "an answer in 5 s",
                "is the directory service (sssd, LDAP, NIS) reachable from the node?",
                nodes,
            )
        elif value == "" and name == evidence.site.build_user and known:
            yield Found(
                "note",
                where,
                "there is no such user",
                right or known[0],
                f"`useradd --system {name}` with these numbers",
                nodes,
            )
        elif right and value not in ("", right):
            yield Found("error", where, value, f"{right}, as on this host", _SAME_NUMBERS, nodes)
    if not right:
        numbers = {value: nodes for value, nodes in values.items() if value in known}
        if here not in ("", "hung") and len(known) == 1:  # this host against all nodes: who is right?
            found = f"{known[0]} on {fold(numbers[known[0]])}; {here} on this host"
            yield Found("error", where, found, "the same numbers", _SAME_NUMBERS, between=numbers[known[0]])
        yield from drift(where, numbers, evidence, kept=False, severity="error", hint=_SAME_NUMBERS)


def _login(name: str, evidence: Evidence) -> Iterator[Row]:
    fleet, where = evidence.fleet, f"user {name}"
    for shell, nodes in fleet.by_value("accounts.no_shell").items():
        yield Found(
            "error",
            where,
            f"its login shell {shell} is not there",
            "a shell that can be started",
            f"install it on the node, or `usermod -s /bin/bash {name}` where the accounts come from",
            nodes,
        )
    there = fleet.only(lambda facts: "accounts.no_shell" not in facts)
    for key, what, option in (("shell", "login shell", "-s"), ("home", "home", "-d")):
        values = there.by_value(f"accounts.{key}")
        right = next(iter(compare(values, evidence).outliers), None)
        yield from drift(
            where,
            values,
            evidence,
            what=what,
            severity="error",
            hint=f"on the node: `usermod {option} {right.right} {name}`, or where its accounts come from: {_SAME_NUMBERS}"
            if right
            else _SAME_NUMBERS,
            say=lambda value, what=what: f"its {what} is {value}",  # type: ignore[misc]
        )
    groups = fleet.by_value("accounts.groups")
    lacks = [
        ",".join(sorted(set(of.right.split()) - set(of.value.split()))) for of in compare(groups, evidence).outliers
    ]
    yield from drift(
        where,
        groups,
        evidence,
        what="groups",
        hint=f"on the node: `usermod -aG {lacks[0]} {name}`, or where its accounts come from: {_SAME_NUMBERS}"
        if len(lacks) == 1 and lacks[0]
        else f"compare `id {name}` of the nodes, and where its accounts come from: {_SAME_NUMBERS}",
        say=lambda groups: f"its groups are {groups.replace(' ', ', ')}",
        told=lambda of: _of_groups(set(of.value.split()), set(of.right.split())),
    )
    for file, nodes in fleet.by_value("accounts.nologin").items():
        says = next(iter(fleet.by_value("accounts.nologin_says")), "")
        yield Found(
            "error",
            file,
            f"it is there: no user can log in over ssh{f' ({says})' if says else ''}",
            "no such file",
            f"on the node: `rm {file}`, once its maintenance is over; jobs run there all the same, unless it is drained",
            nodes,
        )


def _of_groups(found: set[str], right: set[str]) -> str:
    words = [f"it is not in {', '.join(sorted(right - found))}"] if right - found else []
    words += [f"it is also in {', '.join(sorted(found - right))}"] if found - right else []
    return " and ".join(words) + ": files of a group are others' there"


def _owner(build_user: str, evidence: Evidence) -> Iterator[Row]:
    """Yield an error for nodes where the prefix belongs to another name than the build user's.

    Nodes that do not know the build user, or know it by another number than this host, are skipped.
    """
    prefix = str(evidence.site.prefix)
    here = evidence.controller.get(f"accounts.{build_user}", "")
    fleet = evidence.fleet.sound.only(
        lambda facts: (
            facts.get(f"accounts.{build_user}", "") not in ("", "hung")
            and (not here or facts[f"accounts.{build_user}"] == here)
        )
    )
    for owner, nodes in fleet.by_value("accounts.owner").items():
        number, _, name = owner.partition(" ")
        if name != build_user:
            yield Found(
                "error",
                prefix,
                f"belongs to {name} (uid {number})",
                f"belongs to {build_user}",
                "NFSv4: the same Domain in /etc/idmapd.conf on server and node; else `chown` on the server",
                nodes,
            )


CHECK = Check(judge=judge, probe=scripts(__file__, "node", "prefix"))
