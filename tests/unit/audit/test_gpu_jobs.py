"""Jobs that ask for a GPU, where nodes hide theirs: which nodes, why not others, what an answer is taken for; by hand-made evidence."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace

import pytest

from envmgr.audit.ask.gpu_jobs import why_no_jobs
from envmgr.audit.checks import fitness
from envmgr.audit.fit.matrix import MatrixRow, hiding, observed, with_shown
from envmgr.audit.model import Evidence
from envmgr.catalog.gpus import Gpu
from envmgr.catalog.recipe_parts import Requires
from envmgr.nodes.envelope import Reply
from envmgr.probe.model import Fleet, Group
from tests.helpers.evidence import evidence, table_of, told

DRIVER = "535.54.03"
NODE = {"fitness.driver": DRIVER, "fitness.library": DRIVER, "fitness.glibc": "2.34", "fitness.arch": "ppc64le"}
NO_DEVICES = {"fitness.smi": "No devices were found"}
HIDDEN = "`nvidia-smi` lists none, the driver does: Slurm's or sshd's device constraint may hide them from who asks"
ONE = "a job with `--gres=gpu:1`"


def gpus(*rows: tuple[str, str]) -> dict[str, str]:
    """`rows` are (capability, name); `?` is one that is not known."""
    return {"fitness.gpus": "\n".join(f"nvidia {arch} {DRIVER} {name}" for arch, name in rows)}


HIDES = NODE | NO_DEVICES | gpus(("?", "NVIDIA A100"), ("?", "NVIDIA A100"))
SHOWS = NODE | gpus(("8.0", "NVIDIA A100"), ("8.0", "NVIDIA A100"))


def jobs(answers: Mapping[str, Mapping[str, str]], lost: Mapping[str, str] | None = None, visible: str = "") -> Fleet:
    """`lost` is node -> the reason of its reply."""
    missing = tuple(Reply(node, "unreachable", "", reason, 0, 0) for node, reason in (lost or {}).items())
    own = {node: {"fitness.visible": visible} for node in answers if visible}
    return Fleet(tuple(Group(facts, (node,)) for node, facts in answers.items()), own, {}, missing)


def card(name: str, arch: str = "", driver: str | None = DRIVER) -> Gpu:
    return Gpu(vendor="nvidia", arch=arch, name=name, driver=driver)


@pytest.mark.parametrize(
    ("listed", "shown", "result"),
    [
        ([card("A"), card("A")], [card("A", "8.0")], [card("A", "8.0"), card("A", "8.0")]),
        ([card("A"), card("B")], [card("B", "7.0"), card("B")], [card("A"), card("B", "7.0")]),
        ([card("A"), card("A", driver="")], [card("A", "8.0")], [card("A", driver=""), card("A", "8.0")]),
        ([card("Unknown")], [card("A", "8.0")], [card("A", "8.0")]),
        ([card("A")], [card("A", "8.0"), card("A", "9.0")], [card("A", "8.0"), card("A", "9.0")]),
        ([card("A"), card("A", "8.0")], [card("A"), card("A", "8.0")], [card("A", "8.0"), card("A", "8.0")]),
        ([card("A")], [], [card("A")]),
    ],
)
def test_shown_gpu_stands_for_others_of_its_name(listed: list[Gpu], shown: list[Gpu], result: list[Gpu]) -> None:
    assert with_shown(tuple(listed), tuple(shown)) == tuple(result)


def test_nodes_are_asked_whose_gpus_nobody_was_shown() -> None:
    answers = {
        "hides": HIDES,
        "hides2": HIDES,
        "shows": SHOWS,
        "login": NODE | {"fitness.driver": "-"},
        "old": NODE | gpus(("?", "NVIDIA A100")),  # nvidia-smi lists it, and knows no capability
        "broken": NODE | gpus(("?", "NVIDIA A100")) | {"fitness.smi": "Failed to initialize NVML"},
        "some": NODE | NO_DEVICES | gpus(("?", "NVIDIA A100"), ("8.0", "NVIDIA A100")),
        "none": NODE | NO_DEVICES,
    }
    given = evidence(answers)
    assert hiding(given) == ("hides", "hides2")
    by_jobs = evidence({"hides2": SHOWS, "hides": HIDES}, way="slurm").fleet
    assert hiding(replace(given, ways={**given.ways, "slurm": by_jobs})) == ("hides",)


def test_answer_of_such_a_job_counts_in_the_table_and_for_builds() -> None:
    entries = {"t/1": Requires(compute_capability=("8.0",)), "u/1": Requires(compute_capability=("9.0",))}
    given = evidence({"c1": HIDES, "c2": HIDES}, entries=entries)
    unknown = ("not known: the compute capability of NVIDIA A100 is not known",)
    assert table_of(given) == tuple(MatrixRow(entry, "c[1-2]", fit=None, reasons=unknown) for entry in entries)
    shown = jobs({"c1": gpus(("8.0", "NVIDIA A100")) | {"fitness.cuda": "12.2"}}, {"c2": "no job was sent: x"})
    after = replace(given, gpu_jobs=shown)
    assert {nodes: ([gpu.arch for gpu in facts.gpus], facts.cuda) for facts, nodes in observed(after).items()} == {
        ("c1",): (["8.0", "8.0"], "12.2"),
        ("c2",): (["", ""], ""),
    }
    assert [row for row in table_of(after) if "c1" in row.nodes] == [
        MatrixRow("t/1", "c1", fit=None, reasons=("not known: the CUDA version of its lock is not known",)),
        MatrixRow("u/1", "c1", fit=False, reasons=("compute capability 8.0: it has code for 9.0",)),
    ]


@pytest.mark.parametrize(
    ("answer", "line"),
    [
        (
            jobs({"c1": gpus(("8.0", "NVIDIA A100"))}),
            f"note c1: GPUs: {HIDDEN}; {ONE} was shown NVIDIA A100 (8.0) | {ONE} is shown one",
        ),
        (
            jobs({}, {"c1": "no job was sent: no Slurm here"}),
            f"note c1: GPUs: {HIDDEN}; {ONE} gave no answer: no job was sent: no Slurm here | {ONE} is shown one",
        ),
        (
            jobs({"c1": gpus(("?", "NVIDIA A100"))}),
            f"note c1: GPUs: {HIDDEN}; {ONE} saw no compute capability | {ONE} is shown one",
        ),
    ],
)
def test_what_came_of_the_job_is_said(answer: Fleet, line: str) -> None:
    given = replace(evidence({"c1": HIDES}), gpu_jobs=answer)
    assert told(fitness, given) == [line]


@pytest.mark.parametrize(
    ("smi", "visible", "said"),
    [
        ("No devices were found", "0", "nvidia-smi says `No devices were found`, CUDA_VISIBLE_DEVICES is 0"),
        ("No devices were found", "", "nvidia-smi says `No devices were found`, CUDA_VISIBLE_DEVICES is not set"),
        ("hung", "0", "nvidia-smi does not answer"),
        ("Failed to initialize NVML: Unknown Error", "0", "nvidia-smi says `Failed to initialize NVML: Unknown Error`"),
    ],
)
def test_gpu_that_its_own_job_is_not_shown_is_a_warning(smi: str, visible: str, said: str) -> None:
    answer = jobs({"c1": gpus(("?", "NVIDIA A100")) | {"fitness.smi": smi}}, visible=visible)
    (line,) = told(fitness, replace(evidence({"c1": HIDES}), gpu_jobs=answer))
    assert line.startswith(f"warning c1: GPUs: {ONE} sees none either: {said} | the GPU that Slurm gave to the job | ")


def test_the_sites_own_option_is_named() -> None:
    given = evidence({"c1": HIDES}, settings={"transport": {"slurm_options": ["--gpus=1"]}})
    (line,) = told(fitness, replace(given, gpu_jobs=jobs({"c1": gpus(("8.0", "NVIDIA A100"))})))
    assert "; a job with `--gpus=1` was shown NVIDIA A100 (8.0) | " in line


def known_user(given: Evidence) -> Evidence:
    return replace(given, plan=replace(given.plan, user="root"))


def test_no_job_goes_where_one_could_hang_or_has_had_no_answer() -> None:
    answers = {
        "fine": HIDES,
        "hung": HIDES | {"gate": "hung"},
        "late": HIDES | {"prefix.end": "no end"},
        "other": HIDES | {"mount.hung": "/data nfs"},
        "lost": HIDES,
    }
    given = known_user(evidence(answers))
    busy = "busy: the job did not start within 30 s; the node was allocated"
    lost = jobs({}, {"lost": busy, "hung": "no job was sent: its prefix does not answer, …"})
    given = replace(given, ways={**given.ways, "slurm": lost})
    stuck = "its prefix does not answer, and a job stuck on it would drain the node"
    assert why_no_jobs(given, tuple(answers)) == {
        "hung": stuck,
        "late": stuck,
        "other": "/data does not answer, and a job stuck on it would drain the node",
        "lost": f"another job there has no answer: {busy}",
    }


def test_no_job_is_sent_where_the_site_wants_none() -> None:
    given = known_user(evidence({"c1": HIDES}))
    assert why_no_jobs(given, ("c1",)) == {}
    forbidden = evidence({"c1": HIDES}, settings={"audit": {"gpu_jobs": False}})
    assert why_no_jobs(forbidden, ("c1",)) == {"c1": "`audit.gpu_jobs` is false in site.yaml"}


def test_jobs_need_a_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    given = evidence({"c1": HIDES})
    given = replace(given, plan=replace(given.plan, user="nobody-has-this"))
    assert why_no_jobs(given, ("c1",)) == {"c1": "the user nobody-has-this does not exist here"}
