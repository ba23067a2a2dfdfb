"""Clocks, space, accounts, munge and Slurm: by hand-made evidence, and on real nodes."""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given as given_that
from hypothesis import strategies as st

from envmgr.audit.checks import accounts, clock, mount, munge, slurm, space
from envmgr.audit.controller import Controller
from envmgr.nodes.envelope import Reply
from envmgr.nodes.sets import NodeSets
from envmgr.system.run import Runner
from tests.helpers.evidence import evidence, site, told

# -- clocks -------------------------------------------------------------------------------------------------------------


def at(began: str, later: str = "") -> dict[str, str]:
    return {"began": began} | ({"clock.later": later} if later else {})


def test_clocks_inside_the_answer_s_time_are_right() -> None:
    own = {"c1": at("100.5", "100.9"), "c2": at("95.1"), "c3": at("105.9"), "c4": {}, "c5": at("nonsense")}
    assert told(clock, evidence({node: {} for node in own}, own=own)) == []
    slow_link = evidence({"c1": {}}, own={"c1": at("160", "170")}, times={"c1": (100.0, 200.0)})
    assert told(clock, slow_link) == []


def test_clock_that_is_off_is_told_as_exactly_as_it_is_known() -> None:
    own = {
        "c1": at("100.2"),
        "c2": at("161.0", "161.2"),
        "c3": at("161.1", "161.4"),
        "c4": at("40.0", "40.3"),
        "c5": at("400", "460"),
    }
    times = {"c5": (100.0, 162.0)}
    mend = "`chronyc -a makestep` on the node; does chronyd or ntpd run there?"
    assert told(clock, evidence({node: {} for node in own}, own=own, times=times)) == [
        f"error c[2-3]: clock: 60 to 61 s ahead | at most 5 s apart, by audit.max_skew | {mend}",
        f"error c4: clock: 60 to 61 s behind | at most 5 s apart, by audit.max_skew | {mend}",
        f"error c5: clock: 298 to 300 s ahead | at most 5 s apart, by audit.max_skew | {mend}",
    ]


def test_clocks_that_are_all_off_may_be_this_hosts() -> None:
    own = {"c1": at("7300.2"), "c2": at("7300.3")}
    assert told(clock, evidence({"c1": {}, "c2": {}}, own=own, settings={"audit": {"max_skew": 2}})) == [
        (
            "error c[1-2]: clock: 7199 to 7200 s ahead | at most 2 s apart, by audit.max_skew | "
            "is it this host's clock? else `chronyc -a makestep` on c[1-2]"
        )
    ]


@given_that(
    st.floats(0, 100),
    st.floats(0, 100),
    st.floats(0, 100),
    st.floats(-1e6, 1e6, allow_nan=False),
    st.floats(0.001, 1e3),
)
def test_no_clock_is_accused_that_may_be_right(
    before: float, working: float, after: float, skew: float, limit: float
) -> None:
    """However long the ways there and back: what is told is never more than what is true."""
    began, ended = 1000.0, 1000.0 + before + working + after
    readings = [began + before + skew, began + before + working + skew]
    least, most = clock.skew(readings, Reply("c1", "answered", "", "", began, ended))
    assert least - 1e-6 <= skew <= most + 1e-6
    if max(least, -most) > limit + 1e-6:
        assert abs(skew) > limit


# -- space --------------------------------------------------------------------------------------------------------------


def df(kilobytes: str, inodes: str) -> dict[str, str]:
    return {"space.free_kb": kilobytes, "space.inodes": inodes}


def test_space_that_is_short_is_one_finding_for_all_nodes() -> None:
    own = {"c1": df("1000", "500000 4000"), "c2": df("998", "500000 3999"), "c3": df("9000000", "500000 400000")}
    mend = "`envmgr gc` removes old generations and unused installs; else make the file system larger"
    assert told(space, evidence({node: {} for node in own}, own=own)) == [
        f"warning c[1-2]: /sw: 1.0 MB free | 1.07 GB, by policies.min_free | {mend}",
        f"warning c[1-2]: /sw: 3,999 inodes free | 100,000, by audit.min_inodes | {mend}",
    ]


@pytest.mark.parametrize("inodes", ["0 0", "- -", "", "0 -", "garbage"])
def test_file_system_without_a_number_of_inodes_is_fine(inodes: str) -> None:
    assert told(space, evidence({"c1": {}}, own={"c1": df("9000000", inodes)})) == []


def test_space_of_a_node_whose_prefix_does_not_answer_is_not_looked_at() -> None:
    assert told(space, evidence({"c1": {"gate": "hung"}}, own={"c1": df("1", "100 1")})) == []
    assert told(space, evidence({"c1": {}}, own={"c1": df("", "")})) == []


# -- accounts -----------------------------------------------------------------------------------------------------------

SITE = {"build_user": "rsw"}
HERE = {"accounts.rsw": "uid 2000, gid 2000", "accounts.alice": "uid 2001, gid 2001"}
GOOD = HERE | {"accounts.owner": "2000 rsw"}


def test_account_that_has_a_users_number_and_comes_first() -> None:
    taken = GOOD | {"accounts.wins.alice": "old", "accounts.doubled": "0 root:1 toor:9\n2001 old:3 alice:40"}
    sick = "by its uid, 2001, it is old (`getent passwd 2001`) | one account for uid 2001"
    twins = GOOD | {"accounts.doubled": "0 root:1 toor:12"}
    (line,) = told(accounts, evidence({"c1": twins, "c2": taken, "c3": twins}, settings=SITE))
    assert line == (
        f"error c2: user alice: {sick} | /etc/passwd:3 is the account of old, which has that number on no other node: "
        "take that line away, unless they have old by another number: `usermod -u NUMBER old`"
    )
    second = GOOD | {"accounts.doubled": "2001 alice:40 old:41"}
    line = told(accounts, evidence({"c1": second, "c2": taken, "c3": second}, settings=SITE))[0]
    assert line == (
        f"error c2: user alice: {sick} | /etc/passwd:3 is the account of old, which comes after alice on c[1,3]: "
        "the same order on the node, or another number for old on all nodes"
    )
    (line,) = told(accounts, evidence({"c1": taken, "c2": taken}, settings=SITE))
    assert line.endswith("| which account is right? `usermod -u NUMBER old` gives old another number")
    served = GOOD | {"accounts.wins.alice": "old"}  # by a directory service: no line has it
    (line,) = told(accounts, evidence({"c1": GOOD, "c2": served, "c3": GOOD}, settings=SITE))
    assert line.endswith("gives old another number")
    second = GOOD | {"accounts.doubled": "2001 alice:40 old:41"}
    (line,) = told(accounts, evidence({"c1": GOOD, "c2": second, "c3": GOOD}, settings=SITE))
    assert line.startswith(
        "warning c2: /etc/passwd: uid 2001 is of several accounts: alice, old | one account for each uid, as on c[1,3] | "
    )


def test_accounts_that_agree_are_fine() -> None:
    assert told(accounts, evidence({"c1": GOOD, "c2": GOOD}, settings=SITE, controller=HERE)) == []
    assert told(accounts, evidence({"c1": GOOD}, controller={})) == []


def test_account_with_another_number() -> None:
    other = GOOD | {
        "accounts.rsw": "uid 990, gid 990",
        "accounts.owner": "2000 bob",
        "accounts.alice": "uid 2001, gid 100",
    }
    mend = "one directory service for all nodes, or the same lines in /etc/passwd"
    assert told(accounts, evidence({"c1": GOOD, "c2": other}, settings=SITE, controller=HERE)) == [
        f"error c2: user alice: uid 2001, gid 100 | uid 2001, gid 2001, as on this host | {mend}",
        f"error c2: user rsw: uid 990, gid 990 | uid 2000, gid 2000, as on this host | {mend}",
    ]
    assert told(accounts, evidence({"c1": GOOD, "c2": GOOD, "c3": other}, settings=SITE)) == [
        f"error c3: user alice: uid 2001, gid 100 | uid 2001, gid 2001, as on c[1-2] | {mend}",
        f"error c3: user rsw: uid 990, gid 990 | uid 2000, gid 2000, as on c[1-2] | {mend}",
        (
            "error c3: /sw: belongs to bob (uid 2000) | belongs to rsw | "
            "NFSv4: the same Domain in /etc/idmapd.conf on server and node; else `chown` on the server"
        ),
    ]


def test_prefix_that_belongs_to_nobody() -> None:
    mapped = GOOD | {"accounts.owner": "65534 nobody"}
    assert told(accounts, evidence({"c1": GOOD, "c2": mapped}, settings=SITE, controller=HERE)) == [
        (
            "error c2: /sw: belongs to nobody (uid 65534) | belongs to rsw | "
            "NFSv4: the same Domain in /etc/idmapd.conf on server and node; else `chown` on the server"
        )
    ]


def test_node_without_the_build_user_is_a_note() -> None:
    without = {"accounts.rsw": "", "accounts.alice": "", "accounts.owner": "2000 UNKNOWN"}
    assert told(accounts, evidence({"c1": GOOD, "c2": without}, settings=SITE, controller=HERE)) == [
        "note c2: user rsw: there is no such user | uid 2000, gid 2000 | `useradd --system rsw` with these numbers"
    ]


def test_directory_service_that_hangs() -> None:
    hung = GOOD | {"accounts.alice": "hung"}
    assert told(accounts, evidence({"c1": GOOD, "c2": hung}, settings=SITE, controller=HERE)) == [
        (
            "error c2: user alice: `id` does not answer | an answer in 5 s | "
            "is the directory service (sssd, LDAP, NIS) reachable from the node?"
        )
    ]


# -- munge --------------------------------------------------------------------------------------------------------------

IDLE = {"c1": ("idle", ""), "c2": ("idle", ""), "c3": ("idle", "")}


def test_munge_findings() -> None:
    own = {node: {"munge.credential": f"MUNGE:{node}:"} for node in ("c1", "c2", "c3")} | {"c3": {}}
    given = evidence(
        {"c1": {}, "c2": {}, "c3": {"munge.failed": "Failed to access socket"}},
        own=own,
        slurm=IDLE,
        asked_here={"munge": munge.Decoded({"c2": "invalid credential"})},
    )
    assert told(munge, given) == [
        (
            "error c3: munge: `munge -n` fails: Failed to access socket | a credential | "
            "`systemctl restart munge` on the node; its log says why it ended"
        ),
        (
            "error c2: munge: this host cannot decode its credential: invalid credential | the same key | the same "
            "/etc/munge/munge.key on all hosts, owned by munge with mode 0400; then `systemctl restart munge` there"
        ),
    ]


def test_credentials_are_decoded_side_by_side_and_what_was_not_is_no_fault_of_its_node(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    together = threading.Barrier(2)

    def unmunge(credential: str, _runner: Runner, _seconds: float) -> str | None:
        if credential in ("MUNGE:c1:", "MUNGE:c2:"):
            together.wait(60)  # one after the other never gets by
        return {"MUNGE:c3:": "invalid credential", "MUNGE:c4:": None}.get(credential, "")

    monkeypatch.setattr(munge, "unmunge", unmunge)
    own = {f"c{n}": {"munge.credential": f"MUNGE:c{n}:"} for n in range(1, 5)}
    given = evidence({node: {} for node in own}, own=own, slurm=IDLE)
    controller = Controller(Runner(), NodeSets(site(), Runner(), 1.0), jobs=False, end=time.monotonic() + 60)
    found = munge.ask_controller(controller, given)
    assert found == munge.Decoded({"c3": "invalid credential"}, ("c4",))
    assert [line.partition(" | ")[0] for line in told(munge, replace(given, answers={"munge": found}))] == [
        "note : munge on this host: not looked at: what c4 sent was not decoded in 20 s",
        "error c3: munge: this host cannot decode its credential: invalid credential",
    ]


def test_munge_that_hangs_here_accuses_no_node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "unmunge"
    program.write_text("#!/bin/sh\nexec sleep 600\n")
    program.chmod(0o755)
    monkeypatch.setattr(munge.shutil, "which", lambda *_args, **_named: str(program))
    assert munge.unmunge("MUNGE:abc:", Runner(), 0.2) is None


def test_node_is_slow_by_what_the_others_need() -> None:
    def slow(*times: int) -> list[str]:
        own = {f"c{n}": {"gate_ms": str(ms)} for n, ms in enumerate(times, 1)}
        said = told(mount, evidence({node: {"mount.source": "fs1:/sw", "mount.type": "nfs"} for node in own}, own=own))
        return [line.partition(": ")[0] for line in said]

    assert slow(5, 6, 1200) == ["warning c3"]
    assert slow(900, 1100, 1300) == []
    assert slow(1200, 1300) == []
    assert slow(3100, 3200, 3300) == ["warning c[1-3]"]
    assert slow(5, 3100) == ["warning c2"]


def test_munge_is_not_looked_at_without_slurm() -> None:
    given = evidence({"c1": {"munge.failed": "x"}}, own={"c1": {"munge.credential": "y"}})
    assert told(munge, given) == []


def test_munge_that_is_down_here_is_one_finding() -> None:
    own = {"c1": {"munge.credential": "MUNGE:x:"}}
    given = evidence({"c1": {}}, own=own, slurm=IDLE, controller={"munge.failed": "no socket"})
    assert told(munge, given) == [
        (
            "error : munge on this host: `munge -n` fails: no socket | a credential | "
            "`systemctl restart munge` here: nothing that nodes send can be decoded"
        )
    ]


# -- Slurm --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "state",
    [
        "idle",
        "mixed",
        "allocated",
        "completing",
        "reserved",
        "planned",
        "idle-",
        "IDLE",
        "alloc",
        "blocked",
        "maint",
        "idle~",
    ],
)
def test_node_that_slurm_uses_is_fine(state: str) -> None:
    assert told(slurm, evidence({"c1": {}}, slurm={"c1": (state, "")})) == []


@pytest.mark.parametrize(
    ("state", "reason", "line"),
    [
        (
            "down",
            "Node unexpectedly rebooted",
            (
                "error c1: Slurm: down: Node unexpectedly rebooted | idle, mixed or allocated | "
                "`scontrol update nodename=c1 state=resume`, once that is fixed"
            ),
        ),
        (
            "down*",
            "Not responding",
            (
                "error c1: Slurm: down, not responding: Not responding | idle, mixed or allocated | "
                "`systemctl restart slurmd` on the node; then `scontrol update nodename=c1 state=resume`"
            ),
        ),
        (
            "idle*",
            "",
            (
                "error c1: Slurm: idle, not responding | idle, mixed or allocated | "
                "`systemctl restart slurmd` on the node; then `scontrol update nodename=c1 state=resume`"
            ),
        ),
        (
            "drained",
            "Kill task failed",
            (
                "warning c1: Slurm: drained: Kill task failed | idle, mixed or allocated | "
                "`scontrol update nodename=c1 state=resume`, once that is fixed"
            ),
        ),
        (
            "draining",
            "disk",
            (
                "warning c1: Slurm: draining: disk | idle, mixed or allocated | "
                "`scontrol update nodename=c1 state=resume`, once that is fixed"
            ),
        ),
        (
            "inval",
            "gres/gpu count too low",
            (
                "error c1: Slurm: inval: gres/gpu count too low | idle, mixed or allocated | "
                "`scontrol update nodename=c1 state=resume`, once that is fixed"
            ),
        ),
        ("reboot^", "", "note c1: Slurm: reboot | idle, mixed or allocated"),
    ],
)
def test_node_that_slurm_does_not_use(state: str, reason: str, line: str) -> None:
    assert told(slurm, evidence({"c1": {}}, slurm={"c1": (state, reason)})) == [line]


def test_nodes_in_one_state_are_folded_and_others_left_out() -> None:
    states = {"c1": ("down", "x"), "c2": ("down", "x"), "c3": ("idle", ""), "c9": ("down", "x")}
    assert told(slurm, evidence({"c1": {}, "c3": {}}, missing=("c2",), slurm=states)) == [
        (
            "error c[1-2]: Slurm: down: x | idle, mixed or allocated | "
            "`scontrol update nodename='c[1-2]' state=resume`, once that is fixed"
        )
    ]


def test_node_that_slurm_does_not_know_is_a_note_unless_its_group_is_not_slurms() -> None:
    groups = {"compute": ("c1", "c2"), "login": ("login",)}
    given = evidence({"c1": {}, "c2": {}, "login": {}}, slurm={"c1": ("idle", "")}, groups=groups)
    assert told(slurm, given) == [
        (
            "note c2: Slurm: it does not know this node | a node of Slurm's | "
            "`scontrol show node` lists those it knows; NodeName in slurm.conf"
        )
    ]
    assert told(slurm, evidence({"c1": {}, "c2": {}}, groups=groups)) == []
