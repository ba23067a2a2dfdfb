"""What is written for other tools, of clusters as data."""

from __future__ import annotations

import re
from typing import Any

import jinja2.sandbox
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from envmgr.catalog.recipe_parts import Requires, SmokeTest
from envmgr.errors import InputError
from envmgr.modules.spec import ModuleSpec
from envmgr.steps.export import Cluster, ClusterPart, SlurmAccess, exporter_names, get_exporter

WORD = re.compile(r"[a-zA-Z_][a-zA-Z0-9_-]*")  # alphanum_ext_string of ReFrame's schemas/config.json


def published(entry: str, **fields: Any) -> ModuleSpec:
    name, version = entry.split("/")
    known = {"root": f"/sw/store/{entry}-0", "digest": "0" * 64, "description": name}
    return ModuleSpec(name=name, version=version, **{**known, **fields})


def reframe(
    *entries: ModuleSpec, parts: tuple[ClusterPart, ...] = (), hosts: tuple[str, ...] = ("login",)
) -> dict[str, Any]:
    cluster = Cluster("lab 1", "/sw", 7, hosts, parts, entries)
    text = get_exporter("reframe").cluster_text(cluster)
    assert text == get_exporter("reframe").cluster_text(cluster)
    return read(text)


def read(text: str) -> dict[str, Any]:
    """As ReFrame reads it. Source: `load_config_yaml` of its core/config.py."""
    found: dict[str, Any] = yaml.safe_load(jinja2.sandbox.SandboxedEnvironment().from_string(text).render())
    return found


def part(name: str = "gpu", nodes: tuple[str, ...] = ("c1", "c2"), **fields: Any) -> ClusterPart:
    return ClusterPart(
        **{
            "name": name,
            "nodes": nodes,
            "folded": ",".join(nodes),
            "slurm": None,
            "gpu": False,
            "entries": (),
            **fields,
        }
    )


def test_an_entry_is_an_environment_with_its_module_and_its_tests() -> None:
    test = SmokeTest(name="solve", run="python -c 'print(1)'", needs=("gpu",), timeout=60)
    entry = published("pytorch/2.1-cuda11.8", python=True, requires=Requires(nvidia_driver="450.80.02"), tests=(test,))
    (environment,) = reframe(entry)["environments"]
    assert environment == {
        "name": "pytorch-2_1-cuda11_8",
        "modules": ["pytorch/2.1-cuda11.8"],
        "cc": "cc",
        "cxx": "c++",
        "ftn": "gfortran",
        "features": ["envmgr", "pytorch", "python", "cuda"],
        "extras": {
            "entry": "pytorch/2.1-cuda11.8",
            "version": "2.1-cuda11.8",
            "root": "/sw/store/pytorch/2.1-cuda11.8-0",
            "digest": "0" * 64,
            "tests": [{"name": "solve", "run": "python -c 'print(1)'", "needs": ["gpu"], "nodes": 1, "timeout": 60.0}],
        },
        "target_systems": ["lab_1"],
    }


@pytest.mark.parametrize(
    ("given", "way"),
    [
        (
            part(slurm=SlurmAccess(("--partition=gpu", "--exclude=c3"), accounting=False)),
            {"scheduler": "squeue", "launcher": "srun", "access": ["--partition=gpu", "--exclude=c3"]},
        ),
        (part(slurm=SlurmAccess((), accounting=True)), {"scheduler": "slurm", "launcher": "srun", "access": []}),
        (part(), {"scheduler": "ssh", "launcher": "local", "sched_options": {"ssh_hosts": ["c1", "c2"]}}),
        (part(nodes=()), {"scheduler": "local", "launcher": "local"}),
    ],
    ids=["slurm", "slurm with accounts", "ssh", "here"],
)
def test_a_group_is_a_partition_reached_as_its_nodes_are(given: ClusterPart, way: dict[str, Any]) -> None:
    (system,) = reframe(parts=(given,))["systems"]
    (partition,) = system["partitions"]
    assert {key: value for key, value in partition.items() if key in way or key.startswith("sched")} == way


def test_a_partition_offers_the_entries_that_run_there_and_says_if_it_has_gpus() -> None:
    entries = (published("a/1.0"), published("b/2.0"))
    parts = (part(entries=("a/1.0",), gpu=True), part("cpu nodes", entries=("a/1.0", "b/2.0")))
    (system,) = reframe(*entries, parts=parts)["systems"]
    assert [(p["name"], p["environs"], p["features"]) for p in system["partitions"]] == [
        ("gpu", ["a-1_0"], ["gpu"]),
        ("cpu_nodes", ["a-1_0", "b-2_0"], []),
    ]


def test_the_system_is_found_on_its_hosts_with_and_without_a_domain_and_on_no_other() -> None:
    (system,) = reframe(hosts=("login1.lab.example", "login2"))["systems"]
    patterns = [re.compile(text) for text in system["hostnames"]]
    for host, found in {
        "login1": True,
        "login1.lab.example": True,
        "login2": True,
        "login2.x": True,
        "login22": False,
        "xlogin1": False,
    }.items():
        assert any(p.match(host) for p in patterns) == found, host


def test_entries_whose_names_become_one_word_get_names_of_their_own() -> None:
    entries = tuple(published(entry) for entry in ("a/1.0", "a/1+0", "a/1_0"))
    found = reframe(*entries, parts=(part(entries=("a/1+0",)),))
    assert [e["name"] for e in found["environments"]] == ["a-1_0", "a-1_0_2", "a-1_0_3"]
    assert found["systems"][0]["partitions"][0]["environs"] == ["a-1_0_2"]


_PART = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,8}", fullmatch=True)


@given(st.lists(st.tuples(_PART, _PART), unique=True, max_size=6))
def test_every_name_is_one_that_reframe_takes(pairs: list[tuple[str, str]]) -> None:
    entries = tuple(published(f"{name}/{version}") for name, version in pairs)
    environments = reframe(*entries)["environments"]
    names = [environment["name"] for environment in environments]
    assert len(set(names)) == len(entries)
    assert all(WORD.fullmatch(word) for e in environments for word in (e["name"], *e["features"]))
    assert [e["modules"] for e in environments] == [[entry.entry] for entry in entries]


@given(st.text(st.sampled_from("{}%# ' \"\\$\n:-a\u00e4"), min_size=1, max_size=12))
def test_a_test_of_an_entry_comes_back_whatever_it_says(words: str) -> None:
    (environment,) = reframe(published("a/1.0", tests=(SmokeTest(name="x", run=words),)))["environments"]
    assert [test["run"] for test in environment["extras"]["tests"]] == [words]


def test_words_of_the_template_language_are_an_entrys_own() -> None:
    words = "echo ${#list[@]} {{ hostname }} {% endraw %} {{{ {#}"
    (environment,) = reframe(published("a/1.0", tests=(SmokeTest(name="x", run=words),)))["environments"]
    assert environment["extras"]["tests"][0]["run"] == words


def test_an_unknown_tool_is_told_with_the_nearest() -> None:
    assert "reframe" in exporter_names()
    with pytest.raises(InputError) as error:
        get_exporter("refarme")
    assert (
        str(error.value) == "error[unknown-exchange]: nothing is written for `refarme`\n\nhint: did you mean reframe?"
    )
    with pytest.raises(InputError, match="unknown-exchange") as error:
        get_exporter("../x")
    known = "conda-lock, environment, explicit, pixi, pylock, reframe, requirements"
    assert error.value.hint == f"known: {known}"
