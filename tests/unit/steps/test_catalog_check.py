"""Whatever an entry makes a library do, it does not end the check of the others."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from envmgr.backends.conda.backend import CondaBackend
from envmgr.catalog.site import load_site
from envmgr.errors import EnvmgrError, Interrupted
from envmgr.report import SilentReporter
from envmgr.steps import Context
from envmgr.steps.catalog_check import check_catalog
from envmgr.system.run import Runner
from envmgr.verbs.lock import lock

BAD, GOOD = "aaa/1.0", "zzz/1.0"


@pytest.fixture
def ctx(tmp_path: Path) -> Context:
    for entry in (BAD, GOOD):
        folder = tmp_path / "recipes" / entry
        folder.mkdir(parents=True)
        recipe = {"backend": "conda", "input": {"channels": ["conda-forge"], "specs": ["x"]}}
        (folder / "recipe.yaml").write_text(yaml.safe_dump(recipe))
        (folder.parent / "software.yaml").write_text("description: x\n")
    site = tmp_path / "site.yaml"
    site.write_text(yaml.safe_dump({"prefix": str(tmp_path / "prefix"), "catalogs": ["recipes"]}))
    return Context(load_site(site, {}), Runner(), SilentReporter(), {})


@pytest.mark.parametrize(
    "error", [RecursionError("too deep"), MemoryError(), ValueError("x\x1b[31m"), AttributeError("x"), OSError("x")]
)
def test_every_exception_is_a_finding_of_its_entry(
    ctx: Context, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def fail(_: CondaBackend, entry: object, *__: object) -> None:
        raise error if str(entry) == BAD else EnvmgrError("lock-missing", f"{entry} has no lock")

    monkeypatch.setattr(CondaBackend, "load_lock", fail)
    found = check_catalog(ctx, [BAD, GOOD])
    told = {row.where: row.found for row in found.findings if row.check in ("recipe", "lock")}
    assert type(error).__name__ in told[BAD]
    assert told[BAD].isprintable()
    assert told[GOOD] == f"{GOOD} has no lock"
    assert found.checked == 2
    outcomes = {outcome.entry: outcome for outcome in lock(ctx, [BAD, GOOD], check=True).outcomes}
    assert type(error).__name__ in outcomes[BAD].reason
    assert outcomes[GOOD].status == "stale"


def test_a_signal_ends_the_check(ctx: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(*_: object) -> None:
        raise Interrupted

    monkeypatch.setattr(CondaBackend, "faults", stop)
    with pytest.raises(Interrupted):
        check_catalog(ctx, [BAD])
