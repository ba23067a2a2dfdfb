"""How Slurm is asked for just the nodes of a group, of partitions as data and of what Slurm's commands print."""

from __future__ import annotations

from pathlib import Path

import pytest

from envmgr.errors import EnvmgrError
from envmgr.nodes.access import SlurmNodes, access_options, ask_slurm
from envmgr.nodes.slurm import submitting_nodes
from envmgr.system.run import Runner

C = tuple(f"c{i}" for i in range(1, 9))
SLURM = SlurmNodes(
    frozenset({*C, "big"}),
    {"all": frozenset({*C, "big"}), "half": frozenset(C[:4]), "some": frozenset(C[2:6]), "fat": frozenset({"big"})},
    accounting=False,
)


@pytest.mark.parametrize(
    ("nodes", "options"),
    [
        (C[:4], ("--partition=half",)),
        (C[:2], ("--partition=half", "--exclude=c[3-4]")),
        (C[6:], ("--partition=all", "--exclude=big,c[1-6]")),
        (("big",), ("--partition=fat",)),
        ((*C, "big"), ("--partition=all",)),
    ],
)
def test_the_smallest_partition_that_has_all_nodes_without_its_others(
    nodes: tuple[str, ...], options: tuple[str, ...]
) -> None:
    assert access_options(nodes, SLURM) == options


def test_nodes_of_no_one_partition_are_asked_for_in_all_that_have_some() -> None:
    slurm = SlurmNodes(frozenset(C), {"a": frozenset(C[:2]), "b": frozenset(C[2:4])}, accounting=False)
    assert access_options(C[1:3], slurm) == ("--partition=a,b", "--exclude=c[1,4]")


def test_the_groups_own_partition_is_taken_and_options_of_the_site_win() -> None:
    assert access_options(C[:2], SLURM, partition="all") == ("--partition=all", "--exclude=big,c[3-8]")
    given = ("--account=x", "--partition=half")
    assert access_options(C[:2], SLURM, partition="all", given=given) == (*given, "--exclude=c[3-4]")


def slurm_that_says(folder: Path, monkeypatch: pytest.MonkeyPatch, *, sinfo: str, scontrol: str = "exit 1") -> None:
    for name, text in {"sinfo": sinfo, "scontrol": scontrol, "srun": "exit 1", "sbatch": "exit 1"}.items():
        (folder / name).write_text(f"#!/bin/sh\n{text}\n")
        (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")


SINFO = """case "$*" in *%R*) echo 'all|c[1-2],big'; echo 'fat|big' ;; *) printf '%s|idle|none\\n' c1 c2 big ;; esac"""


@pytest.mark.parametrize(
    ("kind", "accounting"),
    [("accounting_storage/slurmdbd", True), ("accounting_storage/none", False), ("(null)", False)],
)
def test_slurm_tells_its_nodes_and_partitions_and_whether_it_keeps_accounts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, accounting: bool
) -> None:
    config = f"echo 'Configuration data as of now'; echo 'AccountingStorageType   = {kind}'"
    slurm_that_says(tmp_path, monkeypatch, sinfo=SINFO, scontrol=config)
    assert ask_slurm(Runner()) == SlurmNodes(
        frozenset({"c1", "c2", "big"}),
        {"all": frozenset({"c1", "c2", "big"}), "fat": frozenset({"big"})},
        accounting=accounting,
    )


def test_a_host_without_slurm_or_without_its_configuration_has_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slurm_that_says(tmp_path, monkeypatch, sinfo="echo 'Could not establish a configuration source' >&2; exit 1")
    assert ask_slurm(Runner()).nodes == frozenset()
    monkeypatch.setenv("PATH", "/nowhere")
    assert ask_slurm(Runner()).nodes == frozenset()


def test_a_slurm_that_does_not_answer_is_an_error_and_not_no_slurm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slurm_that_says(tmp_path, monkeypatch, sinfo="echo 'slurm_load_node: Connection refused' >&2; exit 1")
    with pytest.raises(EnvmgrError, match="groups-unreadable") as error:
        ask_slurm(Runner())
    assert error.value.context == ("Connection refused",)


@pytest.mark.parametrize(
    ("sinfo", "hosts"),
    [
        ("echo all; echo ALL", ()),
        ("echo all; echo 'login[1-2]'; echo login2,front", ("login1", "login2", "front")),
        ("exit 1", ()),
        ("echo 'usage: [options]'", ()),
    ],
)
def test_slurm_tells_from_where_jobs_may_be_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sinfo: str, hosts: tuple[str, ...]
) -> None:
    slurm_that_says(tmp_path, monkeypatch, sinfo=sinfo)
    assert set(submitting_nodes(Runner())) == set(hosts)
    monkeypatch.setenv("PATH", "/nowhere")
    assert submitting_nodes(Runner()) == ()
