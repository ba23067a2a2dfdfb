"""The audit's check of generations: files that are not as recorded, and a prefix that was moved, whose modules lead to where it was made."""

from __future__ import annotations

import json
import os
from pathlib import Path

from envmgr.audit.checks import generation
from envmgr.audit.model import Evidence
from envmgr.catalog.recipe_parts import Requires
from envmgr.probe.model import ProbePart
from envmgr.probe.prefix import look_here
from envmgr.system.files import sha256_bytes
from envmgr.system.run import Runner
from tests.helpers.evidence import SHA, audit_plan, evidence, told
from tests.helpers.waiting import DEADLINE

NODE = {"current": "generations/0001", "generation.record": SHA}
ENTRIES = {"a/1": Requires(), "b/2": Requires()}


def test_moved_prefix_is_told_once_with_the_way_back() -> None:
    assert told(generation, evidence({"c1": NODE}, entries=ENTRIES)) == []
    assert told(
        generation, evidence({"c1": NODE, "c2": NODE}, entries=ENTRIES, settings={"prefix": "/net/fs1/sw"})
    ) == [
        (
            "error c[1-2]: /net/fs1/sw: the prefix was made for /sw, and its modules lead there | /sw in site.yaml, and on every node | "
            "mount, link or move it to /sw, and set `prefix: /sw` in site.yaml"
        )
    ]


def test_prefix_that_a_link_or_a_mount_leads_to_is_told_where_none_does() -> None:
    nodes = {"c1": {**NODE, "generation.there": "yes"}, "c2": {**NODE, "generation.there": "no"}}
    found = told(generation, evidence(nodes, entries=ENTRIES, settings={"prefix": "/net/fs1/sw"}))
    assert [line.split(":")[0] for line in found] == ["error c2"]


def test_files_that_are_not_as_recorded_are_named(tmp_path: Path) -> None:
    """The probe is real; the record is as a publish writes it."""
    folder = tmp_path / "generations/0001"
    files = {
        "lmodrc.lua": "a",
        "modules/h/1.lua": "b",
        "spider/timestamp": "",
        "spider/spiderT.lua": "c",
        "www/index.html": "d",
    }
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    sums = {name: sha256_bytes(text.encode()) for name, text in files.items()}
    (folder / "generation.json").write_text(json.dumps({"files": sums, "manifests": {"store/h": SHA}}, indent=1))
    (tmp_path / "current").symlink_to("generations/0001")

    def found() -> list[str]:
        given = evidence({}, entries=ENTRIES, settings={"prefix": str(tmp_path)})
        facts = look_here(audit_plan(given.site), Runner(), DEADLINE, [ProbePart("generation", {"node": text(given)})])
        nodes = {"c1": {**NODE, "generation.there": "yes", "generation.differs": facts.get("generation.differs", "")}}
        return told(generation, evidence(nodes, entries=ENTRIES, settings={"prefix": str(tmp_path)}))

    def text(given: Evidence) -> str:
        return f"prefix={tmp_path} link=generations/0001\n{generation.probe(given.plan)['prefix']}"

    assert found() == []
    (folder / "www/index.html").write_text("nobody's modules")
    (folder / "modules/h/1.lua").unlink()
    (folder / "lmodrc.lua").write_text("another")
    os.utime(folder / "spider/spiderT.lua", (1, 1))
    other, old = found()
    assert other.startswith(
        f"error c1: generation 1: not as published: {folder}/lmodrc.lua, {folder}/modules/h/1.lua | the files that its record names | "
    )
    assert old.startswith(
        f"warning c1: generation 1: older than its time stamp, so Lmod ignores it: {folder}/spider/spiderT.lua | "
    )
