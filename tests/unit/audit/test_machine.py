"""Clocks, space and Slurm: by hand-made evidence, and on real nodes."""

from __future__ import annotations

import pytest
from hypothesis import given as given_that
from hypothesis import strategies as st

from envmgr.audit.checks import clock, mount, slurm, space
from envmgr.nodes.envelope import Reply
from tests.helpers.evidence import evidence, told

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
    mend = "`chronyc -a makestep` on the node; does chronyd or ntpd run there? if all are off, is it this host's clock?"
    assert told(clock, evidence({node: {} for node in own}, own=own, times=times)) == [
        f"error c[2-3]: clock: 60 to 61 s ahead | at most 5 s apart, by audit.max_skew | {mend}",
        f"error c4: clock: 60 to 61 s behind | at most 5 s apart, by audit.max_skew | {mend}",
        f"error c5: clock: 298 to 300 s ahead | at most 5 s apart, by audit.max_skew | {mend}",
    ]


@given_that(
    st.floats(0, 100),
    st.floats(0, 100),
    st.floats(0, 100),
    st.floats(-1e6, 1e6, allow_nan=False),
    st.floats(0.001, 1e3),
)
def test_clock_that_may_be_right(before: float, working: float, after: float, skew: float, limit: float) -> None:
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


def test_node_is_slow_by_what_the_others_need() -> None:
    def slow(*times: int) -> list[str]:
        own = {f"c{n}": {"mount.read_ms": str(ms)} for n, ms in enumerate(times, 1)}
        said = told(mount, evidence({node: {"mount.source": "fs1:/sw", "mount.type": "nfs"} for node in own}, own=own))
        return [line.partition(": ")[0] for line in said]

    assert slow(5, 6, 1200) == ["warning c3"]
    assert slow(900, 1100, 1300) == []
    assert slow(1200, 1300) == []
    assert slow(3100, 3200, 3300) == ["warning c[1-3]"]
    assert slow(5, 3100) == ["warning c2"]


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
        "reboot^",
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
