"""Which GPUs a closure is compiled for: what is said, digests, stale locks, and what `check` says."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import astuple
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from envmgr.backends.easybuild.backend import EasyBuildBackend
from envmgr.backends.easybuild.gpus import capabilities_missing, capabilities_unread, explain_gpus
from envmgr.backends.easybuild.items import chain_of, configuration_of
from envmgr.backends.easybuild.lock import EasyBuildLock, LockedItem, locked_versions, render_lock
from envmgr.backends.easybuild.lock_checks import differing_from_now
from envmgr.backends.easybuild.settings import AMD, CUDA, EasyBuildInput, EasyBuildSettings, Setting
from envmgr.catalog.fitness import NodeFacts
from envmgr.catalog.gpus import Gpu, covers
from envmgr.catalog.settings import site_line
from envmgr.catalog.site import Site, Target, load_site
from envmgr.store.node_facts import FleetFacts, SeenNodes, facts_file
from envmgr.store.prefix import Prefix
from envmgr.system.files import canonical_json, sha256_bytes

TARGET = Target(arch="x86_64", cpu_level="x86-64-v2", os_id="rocky", os_major="9", glibc="2.34")
SAYS = {"cuda_compute_capabilities": ["7.5", "8.6"]}


def site(folder: Path, **said: object) -> Site:
    (folder / "site.yaml").write_text(json.dumps({"prefix": str(folder / "prefix"), "backends": {"easybuild": said}}))
    return load_site(folder / "site.yaml", {})


def item(name: str, *, asks: Sequence[Setting] = (), depends: Sequence[str] = ()) -> LockedItem:
    return LockedItem(
        name=name,
        version="1.0",
        easyconfig=f"{name}-1.0.eb",
        origin="catalog",
        sha256="a" * 64,
        asks=tuple(asks),
        depends=tuple(f"{each}/1.0" for each in depends),
    )


def lock(*items: LockedItem, **said: Any) -> EasyBuildLock:
    return EasyBuildLock(
        recipe="", framework="5.4.1", easyblocks="5.4.1", easybuild_sha256="0" * 64, rpath=False, items=items, **said
    )


def digests(of: EasyBuildLock, where: Site) -> dict[str, str]:
    """name -> sha256 of what decides its bytes."""
    backend, found = EasyBuildBackend(), {}

    def find(entry: Any, identity: object) -> Any:
        found[entry.name] = sha256_bytes(canonical_json(identity))
        return backend.install(entry, identity, where, TARGET)

    chain_of(of, "x86-64-v2", find)
    return found


# What may be said


@pytest.mark.parametrize("model", [EasyBuildSettings, EasyBuildInput])
def test_values_are_put_in_one_order(model: type[EasyBuildSettings | EasyBuildInput]) -> None:
    said = {
        "cuda_compute_capabilities": ["10.0", "9.0a", "8.6", "9.0", "8.6"],
        "amdgcn_capabilities": ["gfx90a", "gfx1100"],
    }
    more = {"easyconfig": "a-1.eb"} if model is EasyBuildInput else {}
    made = model.model_validate({**said, **more})
    assert made.cuda_compute_capabilities == ("8.6", "9.0", "9.0a", "10.0")
    assert made.amdgcn_capabilities == ("gfx1100", "gfx90a")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("cuda_compute_capabilities", [7.5]),
        ("cuda_compute_capabilities", "7.5"),
        ("cuda_compute_capabilities", ["75"]),
        ("cuda_compute_capabilities", ["sm_75"]),
        ("cuda_compute_capabilities", ["9.0+PTX"]),
        ("cuda_compute_capabilities", ["7.5 "]),
        ("amdgcn_capabilities", ["90a"]),
        ("amdgcn_capabilities", ["gfx90a,gfx942"]),
        ("amdgcn_capabilities", ["gfx11-2-3-generic"]),
    ],
)
def test_other_values_are_refused(field: str, value: object) -> None:
    with pytest.raises(ValidationError):
        EasyBuildSettings.model_validate({field: value})


@pytest.mark.parametrize("value", ["gfx90a", "gfx1100", "gfx11-generic", "gfx9-4-generic"])
def test_architectures_of_amd(value: str) -> None:
    assert EasyBuildSettings.model_validate({"amdgcn_capabilities": [value]}).amdgcn_capabilities == (value,)


def test_recipe_that_says_nothing_has_the_digest_that_it_always_had() -> None:
    plain = EasyBuildInput(easyconfig="zlib-1.3.1.eb")
    assert plain.digest() == "5bd0728f9006aaa89680dc5bdd0c8c2c5a0251e5338409f0d977f58f89e775a0"
    assert EasyBuildInput(easyconfig="zlib-1.3.1.eb", cuda_compute_capabilities=("7.5",)).digest() != plain.digest()


# Locks and digests

BELOW, ASKING, ABOVE = item("below"), item("asking", asks=[CUDA], depends=["below"]), item("above", depends=["asking"])


def test_only_items_that_ask_and_what_stands_on_them_have_the_values_in_their_digests(tmp_path: Path) -> None:
    where = site(tmp_path)
    plain = digests(lock(BELOW, item("asking", depends=["below"]), ABOVE), where)
    without = digests(lock(BELOW, ASKING, ABOVE), where)
    assert without == plain, "an item that asks of a site that says nothing is as before"
    said = digests(lock(BELOW, ASKING, ABOVE, **SAYS), where)
    assert {name for name in said if said[name] != plain[name]} == {"asking", "above"}
    assert digests(lock(BELOW, ASKING, ABOVE, cuda_compute_capabilities=["8.6", "7.5"]), where) == said
    assert digests(lock(BELOW, ASKING, ABOVE, cuda_compute_capabilities=["8.6"]), where)["asking"] != said["asking"]


def test_only_items_that_ask_get_easybuild_s_option() -> None:
    both = lock(BELOW, item("asking", asks=[CUDA, AMD]), **SAYS, amdgcn_capabilities=["gfx90a"])
    below, asking = (configuration_of(both, each, "x86-64-v2") for each in both.items)
    assert {name: asking[name] for name in asking.keys() - below.keys()} == {
        "cuda-compute-capabilities": ["7.5", "8.6"],
        "amdgcn-capabilities": ["gfx90a"],
    }


def test_what_is_shown_of_an_item_tells_its_gpus() -> None:
    assert locked_versions(lock(BELOW, ASKING, **SAYS)) == {
        "easybuild-framework": "5.4.1",
        "below": "1.0 aaaaaaaa",
        "asking": "1.0 aaaaaaaa for 7.5, 8.6",
    }


def test_lock_says_who_asks_and_no_more_than_that() -> None:
    assert "asks" not in render_lock(lock(BELOW))
    document = yaml.safe_load(render_lock(lock(BELOW, ASKING, **SAYS)))
    assert [each.get("asks") for each in document["items"]] == [None, ["cuda_compute_capabilities"]]
    assert EasyBuildLock.model_validate(document) == lock(BELOW, ASKING, **SAYS)
    with pytest.raises(ValidationError, match="no item asks for cuda_compute_capabilities"):
        lock(BELOW, **SAYS)


def test_lock_is_stale_by_the_values_only_where_an_item_asks(tmp_path: Path) -> None:
    wanted = EasyBuildInput(easyconfig="a-1.0.eb")
    now = site(tmp_path, cuda_compute_capabilities=["9.0"])
    assert differing_from_now(lock(BELOW), wanted, now) == []
    assert differing_from_now(lock(BELOW, ASKING, cuda_compute_capabilities=["9.0"]), wanted, now) == []
    assert differing_from_now(lock(BELOW, item("rocm", asks=[AMD])), wanted, now) == []
    assert differing_from_now(lock(BELOW, ASKING, **SAYS), wanted, now) == [
        "backends.easybuild.cuda_compute_capabilities says 9.0, the lock 7.5, 8.6"
    ]
    assert differing_from_now(lock(BELOW, ASKING, **SAYS), wanted, site(tmp_path)) == [
        "backends.easybuild.cuda_compute_capabilities says nothing, the lock 7.5, 8.6"
    ]
    own = EasyBuildInput(easyconfig="a-1.0.eb", cuda_compute_capabilities=("7.5", "8.6"))
    assert differing_from_now(lock(BELOW, ASKING, **SAYS), own, now) == []
    assert differing_from_now(lock(BELOW, ASKING), own, now) == [
        "input.cuda_compute_capabilities says 7.5, 8.6, the lock nothing"
    ]


def test_refusal_names_the_first_of_many_easyconfigs() -> None:
    error = capabilities_missing("top.eb", [["rocm.eb", AMD], *([f"a{number}.eb", CUDA] for number in range(12))])
    assert (error.reference, error.message) == (
        "capabilities-missing",
        "top.eb needs cuda_compute_capabilities, which neither site.yaml nor the recipe says",
    )
    assert (error.context[0], error.context[-1]) == ("a0.eb has a template of it", "and 4 more")


# What `check` says


def gpu(vendor: str, arch: str) -> NodeFacts:
    return NodeFacts(gpus=(Gpu(vendor=vendor, arch=arch, name="a GPU"),))


def audited(where: Site, **nodes: NodeFacts) -> None:
    path = facts_file(Prefix(where.prefix))
    path.parent.mkdir(parents=True, exist_ok=True)
    seen = tuple(SeenNodes(nodes=(node,), time=1.0, facts=facts) for node, facts in nodes.items())
    path.write_text(FleetFacts(schema=1, seen=seen).model_dump_json(by_alias=True))


def told(where: Site) -> list[tuple[str, ...]]:
    return [astuple(fact) for fact in explain_gpus(where)]


FLEET = {
    "c1": gpu("nvidia", "10.0"),
    "c2": gpu("nvidia", "7.5"),
    "c3": gpu("nvidia", "7.5"),
    "c4": gpu("nvidia", ""),
    "a1": gpu("amd", "gfx90a"),
}


def test_nothing_is_said_without_an_audit_or_a_setting(tmp_path: Path) -> None:
    where = site(tmp_path)
    assert told(where) == []
    audited(where, c1=NodeFacts(), c2=gpu("nvidia", ""))
    assert told(where) == []
    audited(where, **FLEET)
    assert told(where) == []
    facts_file(Prefix(where.prefix)).write_text("damaged")
    assert told(where) == []


def test_gpus_outside_of_the_values_are_told_with_the_line_that_has_them(tmp_path: Path) -> None:
    where = site(tmp_path, cuda_compute_capabilities=["7.0"], amdgcn_capabilities=["gfx9-generic"])
    audited(where, **FLEET)
    assert [fact[1:] for fact in told(where) if fact[1] == "warning"] == [
        (
            "warning",
            "no code for 10.0 on c1, seen by the last audits",
            'under `backends.easybuild` in site.yaml: `cuda_compute_capabilities: ["7.0", "10.0"]`',
        ),
        (
            "warning",
            "no code for gfx90a on a1, seen by the last audits",
            'under `backends.easybuild` in site.yaml: `amdgcn_capabilities: ["gfx9-generic", "gfx90a"]`',
        ),
    ]


@pytest.mark.parametrize(
    ("vendor", "values", "arch", "expected"),
    [
        ("nvidia", ["7.5"], "7.5", True),
        ("nvidia", ["7.0"], "7.5", True),
        ("nvidia", ["8.6"], "8.0", False),
        ("nvidia", ["9.0"], "10.0", False),
        ("nvidia", ["9.0a"], "9.0", True),
        ("amd", ["gfx90a"], "gfx90a", True),
        ("amd", ["gfx90a"], "gfx908", False),
        ("amd", ["gfx11-generic"], "gfx1100", True),
        ("amd", ["gfx9-generic"], "gfx90a", False),
        ("amd", ["gfx9-4-generic"], "gfx942", True),
        ("amd", ["gfx13-generic"], "gfx1300", None),
    ],
)
def test_code_for_a_gpu(vendor: str, values: list[str], arch: str, expected: bool | None) -> None:
    assert covers(vendor, values, arch) is expected


@given(
    st.lists(
        st.from_regex(r"[a-z]{1,8}", fullmatch=True).filter(lambda name: yaml.safe_load(name) == name),
        min_size=2,
        max_size=4,
    )
)
def test_line_of_a_field_is_yaml_below_what_it_names(names: list[str]) -> None:
    told = site_line(".".join(names), "'x'")
    _, above, where, line, _ = told.split("`")
    assert where == " in site.yaml: "
    assert above.split(".") == names[:-1]
    assert yaml.safe_load(line) == {names[-1]: "x"}


def test_earlier_easybuild_that_does_not_take_a_value_names_the_setting() -> None:
    error = capabilities_unread("5.0.0", ["cuda_compute_capabilities"], "Found problems\nvalidating")
    assert error.render().startswith(
        "error[capabilities-unread]: EasyBuild 5.0.0 does not take the values of cuda_compute_cap"
    )
