"""Slurm's states and reasons: each has the hint that fixes it, and none has another's."""

from __future__ import annotations

import pytest

from envmgr.builds.slurm.reasons import JobEnd, hint_of_waiting

WAITING = {
    "JobHeldUser": "it is held: `scontrol release 7` lets it start",
    "JobHeldAdmin": "an administrator holds it: `scontrol release 7` as root lets it start",
    "launch failed requeued held": "an administrator holds it: `scontrol release 7` as root lets it start",
    "PartitionTimeLimit": "--time",
    "PartitionNodeLimit": "--partition",
    "PartitionDown": "state=UP",
    "PartitionInactive": "state=UP",
    "InvalidAccount": "--account",
    "AccountNotAllowed": "--account",
    "InvalidQOS": "--qos",
    "QOSNotAllowed": "--qos",
    "QOSMaxWallDurationPerJobLimit": "a shorter --time",
    "AssocMaxWallDurationPerJobLimit": "a shorter --time",
    "QOSMaxCpuPerJobLimit": "fewer --cpus",
    "AssocMaxCpuPerJobLimit": "fewer --cpus",
    "QOSMaxCpuPerNode": "fewer --cpus",
    "MaxCpuPerAccount": "fewer --cpus",
    "QOSMaxMemoryPerJob": "a smaller --mem",
    "AssocMaxMemPerJob": "a smaller --mem",
    "QOSMaxGRESPerJob": "less of it",
    "QOSMinCpuNotSatisfied": "more --cpus",
    "AssocGrpCPUMinutesLimit": "the budget is spent",
    "QOSGrpBillingMinutes": "the budget is spent",
    "BadConstraints": "constraints",
    "DependencyNeverSatisfied": "the same command",
    "ReqNodeNotAvail, UnavailableNodes:c[1-3]": "`sinfo -R`",
    "Nodes required for job are DOWN, DRAINED or reserved for jobs in higher priority partitions": "`sinfo -R`",
    "NodeDown": "`sinfo -R`",
}
OTHERS = (
    "Resources",
    "Priority",
    "Dependency",
    "BeginTime",
    "Licenses",
    "Reservation",
    "QOSGrpCpuLimit",
    "AssocGrpJobsLimit",
    "QOSMaxJobsPerUserLimit",
    "QOSMaxCpuPerUserLimit",
    "AssocMaxJobsLimit",
    "WaitingForScheduling",
    "Prolog",
    "Cleaning",
    "",
)


@pytest.mark.parametrize("why", WAITING)
def test_reason_that_others_must_change_has_its_hint(why: str) -> None:
    assert WAITING[why] in hint_of_waiting("7", "PENDING", why, ())


@pytest.mark.parametrize("why", OTHERS)
def test_job_that_waits_for_other_jobs_has_none(why: str) -> None:
    assert hint_of_waiting("7", "PENDING", why, ()) == ""


def test_running_job_has_none_and_a_state_may_say_it_all() -> None:
    assert hint_of_waiting("7", "RUNNING", "", ()) == ""
    assert hint_of_waiting("7", "SUSPENDED", "", ()) == "`scontrol resume 7` as root lets it go on"
    assert hint_of_waiting("7", "REQUEUE_HOLD", "", ()) == "it is held: `scontrol release 7` lets it start"
    assert hint_of_waiting("7", "SPECIAL_EXIT", "", ()) == "it is held: `scontrol release 7` lets it start"


def test_commands_name_the_cluster_of_the_job() -> None:
    where = ["--clusters=big"]
    assert "`scontrol --clusters=big release 7`" in hint_of_waiting("7", "PENDING", "JobHeldUser", where)
    assert "`scancel --clusters=big 7`, then" in hint_of_waiting("7", "PENDING", "InvalidAccount", where)


ENDS = [
    (JobEnd("TIMEOUT", "TimeLimit", "0:15", "c1", "00:30:00"), "--time (it had 00:30:00)"),
    (JobEnd("DEADLINE", "", "0:0"), "--deadline"),
    (JobEnd("OUT_OF_MEMORY", "OutOfMemory", "0:125", "c1"), "more memory"),
    (JobEnd("NODE_FAIL", "NodeDown", "0:0", "c1"), "the node failed"),
    (JobEnd("BOOT_FAIL", "", "0:0", "c1"), "did not start"),
    (JobEnd("PREEMPTED", "", "0:15", "c1"), "higher priority"),
    (JobEnd("CANCELLED", "Dependency", "0:0"), "a job that it waited for"),
    (JobEnd("CANCELLED", "DependencyNeverSatisfied", "0:0"), "a job that it waited for"),
    (JobEnd("CANCELLED", "InactiveLimit", "0:0"), "InactiveLimit"),
    (JobEnd("CANCELLED", "", "130:0", "c1"), "the job was cancelled"),
    (JobEnd("FAILED", "SystemFailure", "0:0", "c1"), "an administrator should read"),
    (JobEnd("FAILED", "JobLaunchFailure", "0:9", "c1"), "memory was full"),
    (JobEnd("FAILED", "NonZeroExitCode", "0:9", "c1"), "memory was full"),
    (JobEnd("FAILED", "RaisedSignal:9(Killed)", "0:9", "c1"), "memory was full"),
    (JobEnd("FAILED", "JobLaunchFailure", "0:53", "c1"), "slurmd's log on c1"),
    (JobEnd("FAILED", "JobLaunchFailure", "0:10", "c1"), "a signal that Slurm did not send"),
    (JobEnd("FAILED", "NonZeroExitCode", "130:0", "c1"), "a signal that Slurm did not send"),
    (JobEnd("FAILED", "NonZeroExitCode", "3:0", "c1"), "its output"),
    (JobEnd("COMPLETED", "", "0:0", "c1"), "the prefix of c1"),
    (JobEnd(), "only slurmctld's log"),
]


@pytest.mark.parametrize(("end", "part"), ENDS)
def test_end_has_the_hint_of_its_own_cause(end: JobEnd, part: str) -> None:
    hint = end.hint()
    assert part in hint
    assert "{" not in hint
    others = {each for other, each in ENDS if each != part and other.state != end.state}
    assert [each for each in others if each in hint] == []


def test_words_name_a_signal_and_leave_out_what_slurm_does_not_say() -> None:
    assert JobEnd("FAILED", "JobLaunchFailure", "0:9", "c1").words() == (
        "Slurm: FAILED, reason JobLaunchFailure, killed by SIGKILL (out of memory?), on c1"
    )
    assert JobEnd("FAILED", "JobLaunchFailure", "0:53", "c1").words().endswith("exit code 0:53, on c1")
    assert JobEnd("OUT_OF_MEMORY", "OutOfMemory", "0:125", "c1").words() == (
        "Slurm: OUT_OF_MEMORY, reason OutOfMemory, exit code 0:125, on c1"
    )
    assert JobEnd().words() == "Slurm: it does not know the job"


def test_words_of_sacct_are_read_as_those_of_scontrol() -> None:
    facts = {"JobState": "CANCELLED by 0", "Reason": "None", "ExitCode": "0:15", "NodeList": "c1", "TimeLimit": "10:00"}
    assert JobEnd.of(facts) == JobEnd("CANCELLED", "", "0:15", "c1", "10:00")
    assert JobEnd.of({"JobState": "CANCELLED+", "NodeList": "None assigned"}) == JobEnd("CANCELLED")
    assert JobEnd.of({}) == JobEnd()
