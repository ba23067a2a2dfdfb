from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from envmgr.backends import get_backend
from envmgr.backends.easybuild.lock import EasyBuildLock
from envmgr.backends.easybuild.lock_checks import lock_facts
from envmgr.catalog.accept import RULES, named_in
from envmgr.catalog.entries import open_catalog
from envmgr.catalog.lock_checks import EDITED, LockFacts, LockFault, judge_lock, lock_contradicts
from envmgr.catalog.names import parse_entry
from envmgr.catalog.recipe import Recipe, load_recipe
from envmgr.catalog.site import load_site
from tests.helpers.shipped import LOCKED, ROOT


def recipe(**fields: Any) -> Recipe:
    return Recipe.model_validate({"backend": "conda", "input": {}, **fields})


def rules(facts: LockFacts, **fields: Any) -> list[str]:
    return [fault.rule for fault in judge_lock(facts, recipe(**fields)).faults]


@pytest.mark.parametrize("entry", LOCKED)
def test_no_shipped_lock_is_refused(entry: str, tmp_path: Path) -> None:
    site = load_site(None, {"HOME": str(tmp_path)})
    found = open_catalog(site).find(parse_entry(entry))
    read = load_recipe(found.recipe_path)
    lock = get_backend(read.backend).load_lock(found.entry, read, found.folder, site)
    judged = judge_lock(lock.facts, read)
    assert (judged.faults, judged.unused) == ((), ())


def test_every_entry_with_cuda_is_judged_as_one_with_cuda(tmp_path: Path) -> None:
    site = load_site(None, {"HOME": str(tmp_path)})
    found = set()
    for entry in open_catalog(site).entries():
        read = entry.recipe()
        if str(entry.entry) not in LOCKED:  # it ships without a lock
            continue
        lock = get_backend(read.backend).load_lock(entry.entry, read, entry.folder, site)
        if lock.facts.majors:
            found.add(str(entry.entry))
            assert "cuda-driver" in [f.rule for f in judge_lock(lock.facts, recipe()).faults], entry.entry
    alone = {"nccl/2.32-cuda12"}  # NCCL does not decide; the recipe says what no lock shows
    assert found | alone == {
        entry for entry in LOCKED if load_recipe(ROOT / entry / "recipe.yaml").requires.nvidia_driver
    }


@pytest.mark.parametrize(
    ("facts", "fields", "expected"),
    [
        (LockFacts(), {}, []),
        (LockFacts(cuda="12.9", majors={"12": ["a 1"]}), {"requires": {"nvidia_driver": "525.60.13"}}, []),
        (LockFacts(cuda="12.9", majors={"12": ["a 1"]}), {}, ["cuda-driver"]),
        (LockFacts(cuda="", majors={"11": ["cudnn 8"]}), {}, ["cuda-driver"]),
        (LockFacts(cuda="", majors={"11": ["cudnn 8"]}), {"requires": {"nvidia_driver": "450.80.02"}}, []),
        (LockFacts(cuda="11.8", majors={"11": ["a 1"], "12": ["b 1"]}), {}, ["cuda-majors", "cuda-driver"]),
        (
            LockFacts(cuda="11.8", majors={"11": ["a 1"], "12": ["b 1"]}),
            {"requires": {"nvidia_driver": "450.80.02"}, "accept": {"cuda-majors": "two"}},
            ["cuda-driver"],
        ),
        (LockFacts(glibc="2.28"), {}, []),  # nothing is said of it
        (LockFacts(glibc="2.28"), {"requires": {"glibc": "2.17"}}, ["glibc-floor"]),
        (LockFacts(own=(LockFault("blas-variants", ""), LockFault(EDITED, ""))), {}, [EDITED, "blas-variants"]),
    ],
)
def test_rules(facts: LockFacts, fields: dict[str, Any], expected: list[str]) -> None:
    assert rules(facts, **fields) == expected


def test_accepting_what_only_builds_see_is_not_called_needless() -> None:
    judged = judge_lock(LockFacts(), recipe(accept=dict.fromkeys(RULES, "a, b: why")))
    builds = {"hidden-commands", "not-imported"}
    assert judged.unused == tuple(sorted(RULES.keys() - builds))


def test_what_is_accepted_is_told_with_its_reason_and_only_that() -> None:
    facts = LockFacts(cuda="11.8", majors={"11": ["a 1"], "12": ["b 1"]})
    judged = judge_lock(facts, recipe(accept={"cuda-majors": "they are two programs", "glibc-floor": "old"}))
    assert [fault.rule for fault in judged.faults] == ["cuda-driver"]
    assert judged.notes == (
        "accepted by the recipe: cuda-majors: CUDA 11: a 1; CUDA 12: b 1 (they are two programs)",
        "accept.glibc-floor: there is no such fault any more: take it out",
    )


def test_edited_lock_cannot_be_accepted() -> None:
    with pytest.raises(ValueError, match="there is no rule `edited`"):
        recipe(accept={EDITED: "I know"})
    error = lock_contradicts("demo/1", judge_lock(LockFacts(own=(LockFault(EDITED, "text"),)), recipe()))
    assert error.hint == "`envmgr lock demo/1` writes it again"


def test_every_rule_can_be_accepted_by_name() -> None:
    for rule in RULES:
        facts = LockFacts(own=(LockFault(rule, "text"),))
        assert rules(facts) == [rule]
        assert rules(facts, accept={rule: "why"}) == []
        assert f"`accept: {{{rule}: why}}`" in lock_contradicts("demo/1", judge_lock(facts, recipe())).hint


@pytest.mark.parametrize(
    ("items", "cuda", "majors"),
    [
        ([("zlib", "1.3")], None, []),
        ([("CUDA", "12.1.1")], "12.1", ["12"]),
        ([("CUDA", "12.1.1"), ("cuDNN", "8.9.2.26-CUDA-12.1.1")], "12.1", ["12"]),
        ([("CUDA", "12.1.1"), ("cuDNN", "8.7.0.84-CUDA-11.8.0")], "12.1", ["11", "12"]),
        ([("CUDA", "11.8.0"), ("NCCL", "2.16.2-GCCcore-12.2.0-CUDA-12.0.0")], "11.8", ["11", "12"]),
        ([("NCCL", "2.16.2-GCCcore-12.2.0-CUDA-12.0.0")], "", ["12"]),
        ([("CUDAcore", "11.7.0")], "11.7", ["11"]),
        ([("CUDA", "new"), ("cuDNN", "8-CUDA-12.1.1")], "new", ["12"]),
        ([("CUDA", f"{'9' * 5_000}.1"), ("cuDNN", f"8-CUDA-{'9' * 5_000}.1")], f"{'9' * 5_000}.1", []),
        ([("CUDA", "11.8.0"), ("CUDAcompat", "12.4-550.54.15")], "11.8", ["11"]),
    ],
)
def test_cudas_of_a_closure_of_easyconfigs(items: list[tuple[str, str]], cuda: str | None, majors: list[str]) -> None:
    rows = [
        {"name": n, "version": v, "easyconfig": f"{n}-{v}.eb", "origin": "easybuild", "sha256": "0" * 64}
        for n, v in items
    ]
    versions = {"framework": "5.4.1", "easyblocks": "5.4.1", "easybuild_sha256": "0" * 64}
    lock = EasyBuildLock.model_validate({**versions, "recipe": "", "rpath": False, "items": rows})
    facts = lock_facts(lock)
    assert (facts.cuda, sorted(facts.majors or ())) == (cuda, majors)
    judge_lock(facts, recipe())


@pytest.mark.parametrize(
    ("reason", "names"),
    [
        ("ssh, scp: a newer OpenSSH", {"ssh", "scp"}),
        ("left: the patch of the shared channel adds it", {"left"}),
        ("the patch of the shared channel adds it", set()),
        ("ssh", set()),
        ("", set()),
        (": why", set()),
    ],
)
def test_reason_names_what_it_accepts_before_its_colon(reason: str, names: set[str]) -> None:
    assert named_in(reason) == names
