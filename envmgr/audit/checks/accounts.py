"""The build user and the audited user have the same numbers (uid, gid) on every node as on this host.

File systems keep numbers, not names. Where the build user's number belongs to another user, that user can change what is
installed; where the audited user's differs, its files are not its own there. A node without the build user is a note only:
it may read the prefix all the same. Where the prefix belongs to another name than the build user (an NFSv4 domain that does
not agree makes it `nobody`), that is told, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from envmgr.audit.comparing import drift
from envmgr.audit.model import AuditPlan, Evidence
from envmgr.finding import Finding
from envmgr.nodes import fold
from envmgr.probe.model import ProbeStage
from envmgr.system.shelltext import script_text

_SAME_NUMBERS = "one directory service for all nodes, or the same lines in /etc/passwd"


def probe(plan: AuditPlan) -> Mapping[ProbeStage, str]:  # noqa: ARG001 - the same for every plan
    return {"node": script_text(__file__, "node.sh"), "prefix": script_text(__file__, "prefix.sh")}


def judge(evidence: Evidence) -> Iterator[Finding]:
    build_user = evidence.site.build_user
    for name in sorted({build_user, evidence.plan.user} - {None, "root"}):  # type: ignore[type-var]
        yield from _numbers(str(name), evidence)
    if build_user is not None:
        yield from _owner(build_user, evidence)


def _numbers(name: str, evidence: Evidence) -> Iterator[Finding]:
    values = evidence.fleet.by_value(f"accounts.{name}")
    here = evidence.controller.get(f"accounts.{name}", "")
    known = [value for value in values if value not in ("", "hung")]
    right = here if here in known else ""
    where = f"user {name}"
    for value, nodes in values.items():
        if value == "hung":
            yield Finding(
                "accounts", "error", where, "`id` does not answer", "an answer in 5 s",
                "is the directory service (sssd, LDAP, NIS) reachable from the node?", fold(nodes),
            )  # fmt: skip
        elif value == "" and name == evidence.site.build_user and known:
            yield Finding(
                "accounts",
                "note",
                where,
                "there is no such user",
                right or known[0],
                f"`useradd --system {name}` with these numbers",
                fold(nodes),
            )
        elif right and value not in ("", right):
            yield Finding("accounts", "error", where, value, f"{right}, as on this host", _SAME_NUMBERS, fold(nodes))
    if not right:
        numbers = {value: nodes for value, nodes in values.items() if value in known}
        if here not in ("", "hung") and len(known) == 1:  # this host against all nodes: who is right?
            found = f"{known[0]} on {fold(numbers[known[0]])}; {here} on this host"
            yield Finding(
                "accounts", "error", where, found, "the same numbers", _SAME_NUMBERS, between=fold(numbers[known[0]])
            )
        yield from drift("accounts", where, numbers, evidence, severity="error", hint=_SAME_NUMBERS)


def _owner(build_user: str, evidence: Evidence) -> Iterator[Finding]:
    """Only where the build user is known, with the right number."""
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
            yield Finding(
                "accounts", "error", prefix, f"belongs to {name} (uid {number})", f"belongs to {build_user}",
                "NFSv4: the same Domain in /etc/idmapd.conf on server and node; else `chown` on the server", fold(nodes),
            )  # fmt: skip
