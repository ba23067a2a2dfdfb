"""Rendering 1,000 entries and making their spider cache."""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path

from benchmarks.measure import Amount, Claim
from envmgr.modules.lmod import find_lmod
from envmgr.modules.render import render_tree
from envmgr.modules.spec import EnvOp, ModuleSpec
from envmgr.modules.statements import ModulePolicies
from envmgr.system.files import remove_tree, shipped


def claims(count: int = 1000) -> list[Claim]:
    specs = [_spec(number) for number in range(count)]
    lmod = find_lmod(None, os.environ)
    root = Path(tempfile.mkdtemp(prefix="envmgr-bench-"))
    try:
        start = time.perf_counter()
        policies = ModulePolicies(driver_gate="warn", user_site=False)
        texts = render_tree(specs, generation=1, policies=policies, templates=shipped("modulefiles"))
        for path, text in texts.items():
            (root / "modules" / path).parent.mkdir(parents=True, exist_ok=True)
            (root / "modules" / path).write_text(text)
        lmod.build_spider_cache(root / "modules", root / "spider")
        took = time.perf_counter() - start
    finally:
        remove_tree(root)
    return [Amount(f"{count} modules and their spider cache", took, 10)]


def _spec(number: int) -> ModuleSpec:
    root = f"/prefix/store/soft{number // 4}/{number % 4}.0-01234567"
    packages = {f"package{i}": f"{number}.{i} h0_0" for i in range(90)}
    return ModuleSpec(
        name=f"soft{number // 4}",
        version=f"{number % 4}.0",
        root=root,
        digest=f"{number:064x}",
        description="A package of average size",
        environment=(
            EnvOp(kind="prepend", name="PATH", value=f"{root}/bin"),
            EnvOp(kind="set", name="SOFT", value=root),
        ),
        extensions=tuple(f"{name}/{spec.split()[0]}" for name, spec in packages.items()),
        packages=packages,
        python=True,
    )
