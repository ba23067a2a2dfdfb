"""The kernels of a generation: what their names say of GPUs, and what they run with."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from envmgr.catalog.fitness import NodeFacts
from envmgr.catalog.gpus import Gpu, GpuNeeds
from envmgr.catalog.names import Entry
from envmgr.modules.spec import EnvOp, ModuleSpec, Pip
from envmgr.modules.statements import ModulePolicies
from envmgr.publish.kernels import render_kernels
from envmgr.publish.records import has_kernel
from envmgr.store.manifest import InstallFacts
from envmgr.store.node_facts import Observed, facts_file, merge_facts
from envmgr.store.prefix import Install, Prefix

NEEDS = GpuNeeds(cuda="11.8", codes=("7.0", "8.0"))


def node(arch: str = "7.5", driver: str = "535.183.01", library: str | None = None) -> NodeFacts:
    gpu = Gpu(vendor="nvidia", arch=arch, name="NVIDIA GeForce", driver=driver)
    return NodeFacts(driver=driver, gpus=(gpu,), library=library or driver)


def spec(name: str, *environment: EnvOp, **more: object) -> ModuleSpec:
    given = {"pip": Pip(folder=f"/sw/{name}/bin", minor="3.11", writes=False), "kernel": True, **more}
    return ModuleSpec(name=name, version="1", root=f"/sw/store/{name}/1-0", digest="0" * 64, description="", environment=environment, **given)  # type: ignore[arg-type]  # fmt: skip


def rendered(tmp_path: Path, observed: Observed, *specs: ModuleSpec) -> dict[str, dict]:  # type: ignore[type-arg]
    prefix = Prefix(tmp_path)
    if observed:
        facts_file(prefix).parent.mkdir(parents=True)
        facts = merge_facts(None, observed, {}, 0)
        facts_file(prefix).write_text(facts.model_dump_json(by_alias=True))
    texts = render_kernels({each.entry: each for each in specs}, 12, ModulePolicies(), prefix)
    return {path: json.loads(text) for path, text in texts.items()}


def shown(tmp_path: Path, observed: Observed) -> str:
    (found,) = rendered(tmp_path, observed, spec("ml", gpu=NEEDS)).values()
    return str(found["display_name"])


@pytest.mark.parametrize(
    ("observed", "said"),
    [
        ({}, ""),
        ({node(): ["c1"]}, ""),
        ({NodeFacts(): ["login"]}, ""),
        ({node("6.1"): ["c1", "c2", "c3"], node(): ["c4"]}, "; no GPU code for c[1-3]"),
        ({node(driver="440.33.01"): ["c2"]}, "; GPU driver too old on c2"),
        ({node(library="525.60.13"): ["c2"], node("6.1"): ["g1"]}, "; GPU driver broken on c2; no GPU code for g1"),
        ({node("6.1"): [f"n{number}x{number % 7}" for number in range(0, 60, 3)]}, "; no GPU code for 20 nodes"),
    ],
)
def test_display_name_says_where_the_last_audit_saw_that_gpu_programs_fail(tmp_path, observed: Observed, said: str) -> None:  # fmt: skip
    assert shown(tmp_path, observed) == f"ml/1 (generation 12{said})"


def test_name_that_no_node_can_have_keeps_nobody_from_a_publish(tmp_path: Path) -> None:
    assert shown(tmp_path, {node("6.1"): ["c[1-"]}) == "ml/1 (generation 12)"


def test_damaged_facts_keep_nobody_from_a_publish(tmp_path: Path) -> None:
    facts_file(Prefix(tmp_path)).parent.mkdir(parents=True)
    facts_file(Prefix(tmp_path)).write_text("{")
    assert shown(tmp_path, {}) == "ml/1 (generation 12)"


def test_kernel_has_what_the_entry_loads_before_it_and_only_entries_with_ipykernel_have_one(tmp_path: Path) -> None:
    low = spec("low", EnvOp(kind="prepend", name="PATH", value="/sw/low/bin"), kernel=False, pip=None)
    top = spec("top", EnvOp(kind="prepend", name="PATH", value="/sw/top/bin"), depends=("low/1",))
    ((path, found),) = rendered(tmp_path, {}, low, top).items()
    assert path == "kernels/top-1/kernel.json"
    assert found["argv"] == ["/sw/top/bin/python3", "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    assert found["env"]["PATH"] == "/sw/generations/0012/shims/top/1:/sw/top/bin:/sw/low/bin:${PATH}"
    assert found["env"]["LOW_ROOT"] == "/sw/store/low/1-0"
    assert found["metadata"] == {"envmgr": {"entry": "top/1", "generation": 12, "unfit": []}}


@pytest.mark.parametrize(
    ("own", "below", "found"),
    [
        (("bin/python", "lib/python3.11/site-packages/ipykernel-6.29.5.dist-info/METADATA"), (), True),  # conda, wheels
        (("lib/python3.11/site-packages/ipykernel-5.5.dist-info/METADATA",), ("bin/python3",), True),  # EasyBuild
        (("bin/x",), ("bin/python3", "lib64/python3.11/site-packages/ipykernel-4.10.egg-info/PKG-INFO"), True),
        (("bin/python",), ("bin/python", "lib/python3.11/site-packages/ipykernel-6.0.dist-info/METADATA"), False),
        (("bin/python", "lib/python3.11/site-packages/ipykernel_tools-1.0.dist-info/METADATA"), (), False),
        (("bin/python",), ("bin/python3",), False),
    ],
)
def test_ipykernel_is_found_where_the_python_of_the_module_looks(
    tmp_path: Path, own: tuple[str, ...], below: tuple[str, ...], found: bool
) -> None:
    made = []
    for name, files in (("top", own), ("low", below)):
        install = Install(Prefix(tmp_path), Entry(name, "1"), "0" * 64)
        for file in files:
            (install.path / file).parent.mkdir(parents=True, exist_ok=True)
            (install.path / file).touch()
        made.append(install)
    top, low = made
    assert has_kernel(top, InstallFacts(python="3.11", needs=(low.relative,))) is found
    assert not has_kernel(top, InstallFacts(needs=(low.relative,)))  # its module brings no Python
