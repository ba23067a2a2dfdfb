"""The build user and the audited user have the same uid and gid on every node as on this host, and users can log in.

File systems keep numbers, not names. If the build user's number belongs to another user on a node, that user can change
what is installed. If the audited user's number differs, its files are not its own there. A node without the build user
is only a note, because it can still read the prefix. On no node may another account have the number of one of the two
and come before it: programs that ask whose number it is take the user for that account, with its home. Other numbers
that several lines of /etc/passwd have are compared between nodes.

The audited user's login shell, home and groups are compared between nodes. With /bin/sh as the login shell, `ssh NODE
COMMAND` reads no start-up file. A node with /etc/nologin lets no user in over ssh, but jobs run there. The check also
reports a prefix that belongs to a name other than the build user's. An NFSv4 domain that does not agree makes it
`nobody`.
"""

from __future__ import annotations

from envmgr.audit.compare.between_nodes import as_on, compare
from envmgr.audit.model import Check, Evidence, Rows, scripts
from envmgr.audit.table import Steps, fields_of
from envmgr.nodes.sets import fold
from envmgr.probe.model import Facts
from envmgr.system.shelltext import quote

_SAME_NUMBERS = "one directory service for all nodes, or the same lines in /etc/passwd"


def judge(evidence: Evidence) -> Rows:
    build_user = evidence.site.build_user
    for name in sorted({build_user, evidence.plan.user} - {None, "root"}):  # type: ignore[type-var]
        yield from _numbers(str(name), evidence)
        yield from _taken(str(name), evidence)
    yield from _doubled(evidence)
    yield from _login(evidence)
    if build_user is not None:
        yield from _owner(build_user, evidence)


def _numbers(name: str, evidence: Evidence) -> Rows:
    values = evidence.fleet.by_value(f"accounts.{name}")
    here = evidence.controller.get(f"accounts.{name}", "")
    known = [value for value in values if value not in ("", "hung")]
    right = here if here in known else ""
    for value, nodes in values.items():
        if value == "hung":
            yield evidence.say("no_directory", nodes, name=name)
        elif value == "" and name == evidence.site.build_user and known:
            yield evidence.say("unknown", nodes, name=name, right=right or known[0])
        elif right and value not in ("", right):
            yield evidence.say("other_number", nodes, name=name, value=value, right=right)
    if not right:
        numbers = {value: nodes for value, nodes in values.items() if value in known}
        if here not in ("", "hung") and len(known) == 1:  # this host against all nodes: who is right?
            having, value = numbers[known[0]], known[0]
            yield evidence.say("not_as_here", between=having, name=name, value=value, having=fold(having), here=here)
        yield evidence.compared("numbers", numbers, kept=False, name=name)


def _taken(name: str, evidence: Evidence) -> Rows:
    """Yield another account that has the user's number, and is found first by it."""
    for value, nodes in evidence.fleet.by(lambda facts: _winner(name, facts) or None).items():
        number, winner, line = fields_of(value, 3)
        hint = Steps(look=f"which account is right? `usermod -u NUMBER {winner}` gives {winner} another number")
        others = [group for group in evidence.fleet.groups if not {*group.nodes} & {*nodes}]
        twins = [node for each in others if winner in _accounts(each.facts).get(number, {}) for node in each.nodes]
        if line and twins:
            what = f"/etc/passwd:{line} is the account of {winner}, which comes after {name} on {fold(twins)}"
            hint = Steps(look=f"{what}: the same order on the node, or another number for {winner} on all nodes")
        elif line and others:
            what = f"is the account of {winner}, which has that number on no other node"
            unless = f"unless they have {winner} by another number: `usermod -u NUMBER {winner}`"
            hint = Steps(delete=f"/etc/passwd:{line}", because=what, look=unless)
        yield evidence.say("taken", nodes, name=name, number=number, winner=winner, hint=hint)


def _doubled(evidence: Evidence) -> Rows:
    """Yield other numbers that several accounts have, on nodes that are unlike the others."""
    audited = [name for name in (evidence.plan.user, evidence.site.build_user) if name]
    for number in sorted({number for group in evidence.fleet.groups for number in _accounts(group.facts)}):
        fleet = evidence.fleet.only(
            lambda facts, number=number: all(_winner(name, facts).split(" ")[0] != number for name in audited)  # type: ignore[misc]
        )
        values = fleet.by(lambda facts, number=number: ", ".join(_accounts(facts).get(number, {})))  # type: ignore[misc]
        for of in compare(values, evidence).outliers:
            if of.value:
                yield evidence.say(
                    "doubled", of.nodes, number=number, accounts=of.value, as_on=as_on(of.others), against=of.others
                )


def _winner(name: str, facts: Facts) -> str:
    """Return `NUMBER WINNER LINE` of another account that comes before `name`; LINE is empty if it is not in
    /etc/passwd.
    """
    if not (winner := facts.get(f"accounts.wins.{name}", "")):
        return ""
    number = facts.get(f"accounts.{name}", "").removeprefix("uid ").partition(",")[0]
    return f"{number} {winner} {_accounts(facts).get(number, {}).get(winner, '')}"


def _accounts(facts: Facts) -> dict[str, dict[str, str]]:
    """Return number -> name -> line, for numbers that several accounts of /etc/passwd have."""
    lines = (line.partition(" ") for line in facts.get("accounts.doubled", "").splitlines())
    return {number: dict(account.partition(":")[::2] for account in names.split()) for number, _, names in lines}


def _login(evidence: Evidence) -> Rows:
    user, accounts = evidence.plan.user, f"where its accounts come from: {_SAME_NUMBERS}"
    there = evidence.fleet.only(lambda facts: "accounts.no_shell" not in facts)
    for key, option in (("shell", "-s"), ("home", "-d")):
        values = there.by_value(f"accounts.{key}")
        right = next(iter(compare(values, evidence).outliers), None)
        command = f"usermod {option} {quote(right.right)} {user}" if right else ""
        yield evidence.compared(key, values, hint=Steps(run=command, look=f"or {accounts}" if right else accounts))
    groups = evidence.fleet.by_value("accounts.groups")
    lacks = [sorted({*of.right.split()} - {*of.value.split()}) for of in compare(groups, evidence).outliers]
    hint = Steps(look=f"compare `id {user}` of the nodes, and {accounts}")
    if len(lacks) == 1 and lacks[0]:
        lines = (line.partition(" ") for line in evidence.fleet.by_line("accounts.gids"))
        gids = {name: gid for gid, _, name in lines}
        made = [
            f"{{ getent group {quote(name)} || groupadd -g {gids[name]} {quote(name)}; }} && "
            for name in lacks[0]
            if gids.get(name, "").isdecimal()
        ]
        run = f"{''.join(made)}usermod -aG {quote(','.join(lacks[0]))} {user}"
        hint = Steps(run=run, look=f"or {accounts}")
    yield evidence.compared(
        "groups", groups, hint=hint, told=lambda of: _of_groups(set(of.value.split()), set(of.right.split()))
    )
    for file, nodes in evidence.fleet.by_value("accounts.nologin").items():
        says = next(iter(evidence.fleet.by_value("accounts.nologin_says")), "")
        yield evidence.say("nologin", nodes, file=file, says=f" ({says})" if says else "")


def _of_groups(found: set[str], right: set[str]) -> str:
    words = [f"it is not in {', '.join(sorted(right - found))}"] if right - found else []
    words += [f"it is also in {', '.join(sorted(found - right))}"] if found - right else []
    return " and ".join(words) + ": files of a group are others' there"


def _owner(build_user: str, evidence: Evidence) -> Rows:
    """Yield an error for nodes where the prefix belongs to another name than the build user's.

    Nodes that do not know the build user, or know it by another number than this host, are skipped.
    """
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
            yield evidence.say("owner", nodes, name=name, number=number, right=build_user)


CHECK = Check(judge=judge, probe=scripts(__file__, "node", "prefix"))
