"""Checks that look at one answer at a time: what they say alike is one finding, of all nodes of which it is said."""

from __future__ import annotations

from collections.abc import Iterable

from envmgr.audit.judge import rows_of
from envmgr.audit.look import JudgeOne, Look, Said, looked_at, say
from envmgr.audit.model import Check
from envmgr.audit.table import CheckTable, Fact, Words
from envmgr.probe.model import CONTEXTS
from tests.helpers.evidence import evidence, told

ASKED = tuple((context, "user", "ssh") for context in CONTEXTS[:1])
KEY = "ctx.bash-login.user."
ROWS = {
    "bad": Words(error="{said}", where="here", expected="no", hint="look at {first}"),
    "shell": Words(error="{said} of {who}"),
    "set": Words(error="set", where="here", cause="X :umask"),
}
# Any check may read `gate`; `fitness.os` and `modulepath` stand for facts of its own.
TABLE = CheckTable(part="x", node={"fitness.os": Fact()}, context={"modulepath": Fact()}, rows=ROWS)


def lines(one: JudgeOne, answers: dict[str, dict[str, str]]) -> list[str]:
    check = Check(judge=lambda given: looked_at(one, given.fleet, given), table=TABLE)
    return told(check, evidence(answers, asked=ASKED))


def bad(look: Look) -> Iterable[Said]:
    if look.has("fitness.os"):
        yield say("bad", said=look.get("fitness.os"), first=lambda nodes: nodes[0])


def test_what_is_said_of_several_answers_is_one_finding_and_a_word_can_be_of_its_nodes() -> None:
    answers = {
        "c1": {"fitness.os": "a"},
        "c2": {},
        "c3": {"fitness.os": "a", "gate": "hung"},
        "c4": {"fitness.os": "b"},
    }
    assert lines(bad, answers) == ["error c[1,3]: here: a | no | look at c1", "error c4: here: b | no | look at c4"]


def test_facts_of_a_shell_have_no_key_of_it_and_its_place_is_the_shell() -> None:
    given = evidence({"c1": {f"{KEY}modulepath": "/a"}, "c3": {}}, asked=ASKED)
    (shell,) = given.each_shell()

    def seen(look: Look) -> Iterable[Said]:
        yield say("shell", severity="note", hint="no", said=look.get("modulepath", "none"), who=shell.user)

    at = "bash-login (alice)"
    assert told(Check(judge=lambda given: looked_at(seen, shell.fleet, given, shell), table=TABLE), given) == [
        f"note c1: {at}: /a of alice |  | no",
        f"note c3: {at}: none of alice |  | no",
    ]


def test_row_with_a_cause_is_about_the_login_shell_and_says_what_a_line_may_have_set() -> None:
    check = Check(judge=lambda given: looked_at(lambda _: [say("set")], given.fleet, given), table=TABLE)
    (one,) = rows_of(check, evidence({"c1": {}}))
    assert (one.context, one.account, one.names) == ("bash-login", "user", ("X", ":umask"))


def test_nodes_that_are_apart_are_in_no_look_with_others() -> None:
    def seen(look: Look) -> list[Said]:
        return [say("bad", said=" ".join(look.nodes), first="")]

    check = Check(judge=lambda given: looked_at(seen, given.fleet, given, apart={"c2", "c9"}), table=TABLE)
    assert told(check, evidence({node: {} for node in ("c1", "c2", "c3")})) == [
        "error c[1,3]: here: c1 c3 | no | look at ",
        "error c2: here: c2 | no | look at ",
    ]
