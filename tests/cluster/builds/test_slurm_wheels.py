"""Wheels on a Python of the catalog, built as Slurm jobs: nodes see neither catalogs nor the index."""

from __future__ import annotations

import json
import shutil

from tests.helpers.easybuild.slurm_workshop import Shop
from tests.helpers.sandbox import PYTHON
from tests.helpers.wheelhouse import Wheelhouse


def test_base_and_wheels_are_jobs_of_which_the_second_waits(shop: Shop) -> None:
    cluster = shop.cluster
    house = Wheelhouse(cluster.host_prefix / "house")
    house.wheel("one", requires=["dep"], scripts={"one": "one:main"})
    house.wheel("dep")
    settings = {"wheels": {"indexes": {"house": {"url": "file:///cluster/sw/house/simple"}}}}
    shop.write_site(backends=settings)
    cluster.recipe("interpreter/1.0", [f"python {PYTHON}.*"])
    given = {"python": "interpreter/1.0", "requirements": ["one"], "indexes": ["house"]}
    cluster.recipe("wheels/1.0", [], backend="wheels", input=given)
    both = {"channels": ["standin"], "specs": [f"python {PYTHON}.*"], "pip": ["one"], "indexes": ["house"]}
    cluster.recipe("both/1.0", [], input=both)  # wheels beside conda's packages
    assert cluster.envmgr(["lock", "interpreter/1.0", "wheels/1.0", "both/1.0"]).code == 0
    done = cluster.envmgr(["fetch", "wheels/1.0", "both/1.0"])
    assert done.code == 0, done.stderr
    shutil.rmtree(house.folder)
    done = shop.build("wheels", "both/1.0", "--format", "json")
    assert done.code == 0, done.stdout + done.stderr
    assert len(done.data["jobs"]) == 3
    record = json.loads((cluster.host_prefix / "current/generation.json").read_text())
    for entry in ("wheels/1.0", "both/1.0"):
        root = record["entries"][entry]["path"]
        ran = cluster.exec("c1", [f"/cluster/sw/{root}/bin/one"], check=True)
        assert ran.stdout == "one 1.0\n"
