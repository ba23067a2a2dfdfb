"""The audit's check of signatures: what this host found, and what nodes' own checks found."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from envmgr.audit.checks import get_check, signature
from envmgr.modules.node_paths import FLIP_STAMP, PROFILE, SIGNERS
from envmgr.publish.flip_checks import FlipFault, mend_of
from envmgr.system.files import shipped
from envmgr.system.shelltext import script_text
from tests.helpers.evidence import evidence, told

SIGNS = {"signing": {"allowed_signers": "allowed_signers"}}
HERE = signature.Here(signers="a" * 64)
STAMP = "/var/lib/envmgr/flip"
SET_UP = "`envmgr node-setup --apply --nodes c2`; it puts the file there, and runs it"
TIMER = (
    "`envmgr node-setup --apply --nodes {}`; it checks now, and starts its timer or writes its line for cron; does that run on "
    "the node? `systemctl status envmgr-flip.timer`, or cron"
)


def node(**facts: str) -> dict[str, str]:
    said = {"state": "signed", "prefix": "/sw", "late": "no", "signers": "a" * 64} | facts
    return {"signature.looked.node": "yes"} | {f"signature.{k}": v for k, v in said.items() if v}


def findings(
    *answers: dict[str, str], here: signature.Here = HERE, settings: Mapping[str, Any] = SIGNS, **more: Any
) -> list[str]:
    nodes = {f"c{n}": facts for n, facts in enumerate(answers, 1)}
    return told(signature, evidence(nodes, settings=settings, asked_here={"signature": here}, **more))


def test_table_and_shell_text_name_the_files_that_node_setup_writes() -> None:
    rows, shell = get_check("signature").table.rows, script_text(signature.__file__, "node.sh")
    assert rows["signers"].where == SIGNERS
    assert {rows[name].where for name in ("unchecked", "late", "refused")} == {FLIP_STAMP}
    assert f"<{SIGNERS}" in shell
    assert f"<{FLIP_STAMP}" in shell
    assert PROFILE in get_check("saved-collections").table.rows["not_loaded"].hint.text


def test_a_site_that_does_not_sign_is_not_asked() -> None:
    assert findings({}, {}, settings={}) == []
    assert "signature.state" not in signature.probe(evidence({}).plan)["node"]  # for an open key alone


def test_what_this_host_found_is_told_of_no_node() -> None:
    replayed = FlipFault("replayed", "flips/000003.json", "flip 3 is in force, and\tflip 7 came after it", 5)
    here = replace(HERE, faults=(replayed, FlipFault("expired", "x", "old")))
    assert findings(node(), here=here) == [
        f"error : flips/000003.json: replayed: flip 3 is in force, and\tflip 7 came after it | a flip that someone signed who may | {mend_of('replayed', right=5)}",
        f"warning : x: expired: old | a flip that someone signed who may | {mend_of('expired', ['replayed'], 5)}",
    ]


def test_a_list_of_signers_that_cannot_be_read_is_told() -> None:
    assert findings(node(), here=signature.Here(unread="no list")) == [
        "error : signing.allowed_signers: no list | the list of those who may sign"
    ]


def test_nodes_without_a_check_and_with_an_old_one_are_told() -> None:
    bare = {"signature.looked.node": "yes", "signature.signers": "a" * 64}
    assert findings(node(), bare, node(late="yes"), node(state="expired")) == [
        f"warning c2: {STAMP}: nothing there has checked what is published | a check every five minutes | {SET_UP}",
        f"warning c3: {STAMP}: its check is more than 20 minutes old, or of before its last start | a check every five minutes | {TIMER.format('c3')}",
    ]
    (line,) = findings(bare, settings={**SIGNS, "policies": {"unsigned": "refuse"}})
    assert line.startswith(f"error c1: {STAMP}: nothing there has checked")
    (line,) = findings(node(prefix="/elsewhere"))
    assert line.startswith(f"warning c1: {STAMP}: nothing there has checked")


def test_what_a_node_found_is_told_in_its_words() -> None:
    (line,) = findings(node(), node(state="wrong", reason="a file of it is not what was signed"))
    assert line.startswith(f"error c2: {STAMP}: wrong: a file of it is not what was signed | ")
    (line,) = findings(node(), node(state="unchecked", reason="ssh-keygen here knows no signatures"))
    assert line.startswith(f"warning c2: {STAMP}: unchecked: ssh-keygen here knows no signatures | ")


def test_a_node_that_takes_the_signatures_of_others_is_told() -> None:
    (line,) = findings(node(), node(signers="b" * 64))
    assert line == (
        "error c2: /etc/envmgr/allowed_signers: is another list | the site's | "
        "`envmgr node-setup --apply --nodes c2`; find out who changed it"
    )
    (line,) = findings(node(), node(signers=""))
    assert line.startswith("error c2: /etc/envmgr/allowed_signers: is not there | ")


def test_logins_and_the_audit_call_the_same_check_old() -> None:
    assert f"LATE={signature.LATE} " in (shipped("nodesetup") / "signed.sh").read_text()
