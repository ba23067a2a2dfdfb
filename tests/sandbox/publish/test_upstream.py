"""A user's own prefix on the site's: its installs are used where they are, held, verified, and never built again or written."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.helpers.sandbox import Sandbox
from tests.helpers.standin.channel import Channel
from tests.helpers.upstream_scene import APP, OTHER, Two, install_in, two_prefixes
from tests.helpers.wheel_scene import BASE


@pytest.fixture
def two(channel: Channel) -> Iterator[Two]:
    with two_prefixes(str(channel.folder)) as made:
        yield made


def state(prefix: Path) -> list[tuple[str, int, float]]:
    return sorted((str(path), path.lstat().st_uid, path.lstat().st_mtime) for path in prefix.rglob("*"))


def stored(box: Sandbox) -> list[str]:
    return sorted(path.parent.name for path in box.prefix.glob("store/*/*.manifest.json"))


def set_site(two: Two, **settings: object) -> None:
    two.own.settings |= settings
    two.own.write_site()
    two.give()


def test_python_of_the_upstream_is_used_by_every_verb_and_nothing_is_written_there(two: Two) -> None:
    before = state(two.central.prefix)
    planned = two.own.ok("build", APP, "--dry-run")
    *lines, last = planned.stdout.splitlines()[1:]
    assert lines == ["  one  1.0  py3-none-any", f"  upstream  {two.python}"]
    assert last.startswith(f"{APP}: its recipe has no test")
    assert two.own.ok("build", APP, "--dry-run", "--format", "json").data["steps"][0]["planned"]["upstream"] == [
        str(two.python)
    ]
    two.own.ok("fetch", APP)
    assert [path for path in (two.own.prefix / "cache/conda").rglob("*") if path.is_file()] == []
    assert f"\n  upstream  {two.python}\n" in two.own.ok("build", APP).stdout
    assert stored(two.own) == ["app"]
    assert two.own.ok("build", APP).stdout == f"nothing to do: {APP} is published in generation 1\n"
    listed = {e["entry"]: e for e in two.own.ok("list", "--format", "json").data["entries"]}
    assert listed[APP]["notes"] == [f"stands on the upstream's {BASE}"]
    assert (listed[BASE]["state"], listed[BASE]["notes"]) == ("built", [f"upstream: {two.python}"])
    assert two.own.ok("show", APP, "--format", "json").data["notes"] == [f"stands on the upstream's {BASE}"]
    assert two.own.ok("show", BASE, "--format", "json").data["install"] == str(two.python)
    record = json.loads((two.own.prefix / "generations/0001/generation.json").read_text())
    assert record["entries"][APP]["needs"] == [str(two.python)]
    assert {*record["manifests"]} == {record["entries"][APP]["path"], str(two.python)}
    for argv in (("verify",), ("verify", "--all"), ("verify", "--repair"), ("publish",), ("site", "check"), ("gc",)):
        two.own.ok(*argv)
    two.own.ok("remove", APP)
    two.own.ok("rollback", "1")
    assert state(two.central.prefix) == before
    # The lock does not say where the Python is.
    assert "upstream" not in (two.own.root / f"recipes/{APP}/wheels.lock").read_text()


def test_families_hold_across_both_and_the_own_module_needs_no_other_modulepath(two: Two) -> None:
    two.own.ok("build", APP)
    root = install_in(two.own, APP)
    load = f"module load {APP} && command -v python && python -c 'import one_more; print(one_more.word)'\n"
    right = f"{root}/bin/python\n1\n"
    alone = two.shell(load, central=False)
    assert (alone.stdout, alone.stderr) == (right, "")
    both = two.shell(f"{load}module load {OTHER}; echo $LOADEDMODULES; command -v python\n")
    assert both.stdout == f"{right}{OTHER}\n{install_in(two.central, OTHER)}/bin/python\n"
    assert f'replacing "{APP}" with "{OTHER}"' in both.stderr
    back = two.shell(f"module load {OTHER}\n{load}echo $LOADEDMODULES\nmodule unload {APP}; command -v python\n")
    assert back.stdout.startswith(f"{right}{APP}\n")
    assert f'replacing "{OTHER}" with "{APP}"' in back.stderr
    assert str(root) not in back.stdout.splitlines()[-1]
    # Each prefix's Lmod cache is named: neither site's lines take away the other's.
    caches = two.shell("echo $LMOD_RC").stdout.strip().split(":")
    assert caches == [f"{box.prefix}/generations/0001/lmodrc.lua" for box in (two.own, two.central)]


@pytest.mark.parametrize("shell", ["bash", "tcsh", "fish"])
def test_shell_below_another_keeps_the_generations_of_both_prefixes(two: Two, shell: str) -> None:
    two.own.ok("build", APP)
    shown = "echo $MODULEPATH; echo $LMOD_RC\n"
    first = two.shell(f"{shown}printenv\n", shell=shell)
    lists = first.stdout.splitlines()[:2]
    assert [line.count("/generations/0001/") for line in lists] == [2, 2], first.stderr
    inherited = dict(line.split("=", 1) for line in first.stdout.splitlines()[2:] if re.match("[A-Z_]+=/", line))
    two.central.ok("remove", OTHER)
    below = two.shell(shown, shell=shell, env=inherited)
    assert below.stdout.splitlines() == lists, below.stderr
    assert two.shell(shown, shell=shell).stdout.count("/generations/0002/") == 2


def test_module_that_depends_on_another_loads_with_one_modulepath_and_with_two(two: Two) -> None:
    wanted = {"python": BASE, "requirements": ["one"], "indexes": ["house"]}
    two.own.recipe(APP, [], backend="wheels", input=wanted, depends=[OTHER], families=[])
    two.give()
    two.own.ok("lock", APP)
    two.own.ok("build", APP)
    assert stored(two.own) == ["app"], "the module of what it depends on is published here, on the upstream's install"
    for central in (True, False):
        loaded = two.shell(f"module load {APP}; echo $LOADEDMODULES; echo $OTHER_ROOT; pip --version", central=central)
        lines = loaded.stdout.splitlines()
        assert lines[:2] == [f"{OTHER}:{APP}", str(install_in(two.central, OTHER))], loaded.stderr
    text = (two.own.prefix / f"generations/0001/modules/{OTHER}.lua").read_text()
    assert f"{two.central.prefix}/generations" not in text
    assert two.own.ok("verify").code == 0


def test_bare_publish_publishes_nothing_of_the_upstream_that_nobody_named(two: Two) -> None:
    two.own.ok("build", APP, "--no-publish")
    assert "new" not in two.own.ok("publish", "--dry-run").stdout.replace(f"{APP}: reuse", "").replace("module new", "")
    two.own.ok("publish")
    modules = two.own.prefix / "generations/0001/modules"
    assert sorted(path.parent.name for path in modules.glob("*/*.lua")) == ["app"]
    two.own.ok("build", BASE)
    assert stored(two.own) == ["app"]
    loaded = two.shell(f"module load {BASE}; command -v python; echo $PYTHON_ROOT", central=False)
    assert loaded.stdout.splitlines() == [f"{two.python}/bin/python", str(two.python)]
    # Where the path is not written down, modules tell it, also those of the upstream's installs.
    two.own.ok("remove", APP)
    (two.own.prefix / "prefix.json").unlink()
    two.own.ok("publish", BASE)


def test_own_install_comes_first_and_what_stands_on_one_of_two_pythons_stays_there(two: Two) -> None:
    set_site(two, upstream=None)
    two.own.ok("build", APP)
    assert stored(two.own) == ["app", "python"]
    set_site(two, upstream=str(two.central.prefix))
    assert two.own.ok("build", APP).stdout.startswith("nothing to do")
    # The upstream has the whole entry, on its own Python; and here is a Python, too.
    shutil.copytree(two.own.root / "recipes", two.central.root / "recipes", dirs_exist_ok=True)
    two.central.settings |= {"backends": two.own.settings["backends"]}
    two.central.write_site()
    two.give()
    two.central.ok("build", APP)
    two.own.ok("remove", APP)
    for path in (p for p in two.own.prefix.glob("store/app/*")):
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    two.own.ok("build", APP)
    assert stored(two.own) == ["python"]
    assert two.shell(f"module load {APP}; command -v python", central=False).stdout == (
        f"{install_in(two.central, APP)}/bin/python\n"
    )


def test_gc_of_the_upstream_keeps_what_its_downstreams_use(two: Two) -> None:
    two.own.ok("build", APP)
    two.central.ok("remove", BASE)
    path = f"store/{BASE.split('/')[0]}/{two.python.name}"
    for pattern in (str(two.own.prefix), f"{two.own.root.parent}/*/prefix"):
        kept = two.gc(downstream=[pattern]).data
        assert (kept["installs"], kept["kept_all"]) == ([], [])
        assert [k["reason"] for k in kept["kept"] if k["path"] == path] == [f"the downstream {two.own.prefix}"]
        assert "downstreams" in kept["asked"]
    two.own.ok("verify")


def test_gc_of_the_upstream_keeps_what_an_unpublished_install_and_a_waiting_run_use(two: Two) -> None:
    two.own.ok("build", APP, "--no-publish")
    two.central.ok("remove", BASE)
    assert two.gc("--dry-run", downstream=[str(two.own.prefix)]).data["installs"] == []
    for path in two.own.prefix.glob("store/app/*"):
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    assert len(two.gc("--dry-run", downstream=[str(two.own.prefix)]).data["installs"]) == 1
    hold = two.own.prefix / "var/jobs/holds/login-1-1.json"
    hold.write_text(json.dumps({"schema": 1, "installs": [str(two.python)]}))
    assert two.gc("--dry-run", downstream=[str(two.own.prefix)]).data["installs"] == []


@pytest.mark.parametrize("fault", ["away", "unmounted", "pipe", "link", "closed-file"])
def test_gc_of_the_upstream_keeps_everything_where_a_downstream_cannot_be_read(two: Two, fault: str) -> None:
    two.own.ok("build", APP)
    two.central.ok("remove", BASE)
    record, place = two.own.prefix / "generations/0001", two.own.prefix
    if fault == "away":
        place.rename(place.with_name("elsewhere"))
        place = place.with_name("elsewhere")
    elif fault == "unmounted":
        place.rename(place.with_name("elsewhere"))
        two.own.prefix.mkdir()
        place = place.with_name("elsewhere")
    elif fault == "pipe":
        record.chmod(0o755)
        (record / "generation.json").unlink()
        os.mkfifo(record / "generation.json")
    elif fault == "link":
        record.parent.rename(place / "real")
        record.parent.symlink_to(place / "real")
    else:
        record.chmod(0o755)
        (record / "generation.json").unlink()
        (record / "generation.json").symlink_to("/etc/shadow")
    done = two.gc(downstream=[str(two.own.prefix)]).data
    assert (done["generations"], done["installs"]) == ([], [])
    assert [re.sub(":.*", "", reason) for reason in done["kept_all"]] == ["downstream"]
    assert str(two.own.prefix) in done["kept_all"][0]
    assert two.python.is_dir()
    if fault in ("away", "unmounted"):
        shutil.rmtree(two.own.prefix, ignore_errors=True)
        place.rename(two.own.prefix)


def test_install_that_the_upstream_removed_is_reported_and_the_hint_mends_it(two: Two) -> None:
    two.own.ok("build", APP)
    two.central.ok("remove", BASE)
    assert two.gc(downstream=[]).data["installs"], "nobody told the upstream"
    done = two.own.run("verify", "--format", "json")
    assert done.code == 1
    (finding,) = done.data["findings"]
    assert (finding["check"], finding["where"]) == ("install", APP)
    assert finding["hint"].endswith(f"or `envmgr build {APP}` stands it on one of this prefix")
    assert two.own.run("verify", "--repair").code == 1
    loaded = two.shell(f"module load {APP} && echo loaded", central=False)
    assert f"{APP} stands on {two.central.prefix}/store" in " ".join(loaded.stderr.split())
    assert loaded.stdout == ""
    notes = {e["entry"]: e["notes"] for e in two.own.ok("list", "--format", "json").data["entries"]}[APP]
    assert any(re.search("^broken: .* is gone; build it again$", note) for note in notes)
    warning = (
        f"warning: {APP} does not load: {two.own.prefix.parent.parent}/{two.central.root.name}/prefix/store/python/"
    )
    assert warning in two.own.ok("publish").stderr
    two.own.ok("build", APP)
    assert stored(two.own) == ["app", "app", "python"]
    assert "warning" not in two.own.ok("publish").stderr
    assert two.own.ok("verify").code == 0
    assert two.shell(f"module load {APP} && echo loaded", central=False).stdout == "loaded\n"
    back = two.own.run("rollback", "1")
    assert back.code == 3
    assert f"hint: the upstream has them no more: `envmgr build {APP}` makes others in this prefix" in back.stderr


def test_changed_file_of_the_upstream_is_reported_stops_builds_and_is_never_repaired(two: Two) -> None:
    two.own.ok("build", APP)
    file = two.python / "bin" / "tampered"
    two.python.joinpath("bin").chmod(0o755)
    file.write_text("x")
    done = two.own.run("verify", "--format", "json")
    ask = f"it is the upstream's: ask the administrators of {two.central.prefix} for `envmgr verify --repair`"
    assert {finding["hint"] for finding in done.data["findings"]} == {ask}
    assert two.own.run("verify", "--repair").code == 1
    assert file.exists()
    two.wheels.entry("more/1.0", "one", python=BASE)
    two.give()
    two.own.ok("lock", "more/1.0")
    refused = two.own.run("build", "more/1.0")
    assert refused.code == 3
    assert "error[install-differs]" in refused.stderr
    assert f"hint: {ask}" in refused.stderr
    assert stored(two.own) == ["app"]


def test_upstream_that_is_away_is_an_error_and_never_a_reason_to_build(two: Two) -> None:
    two.own.ok("build", APP)
    away = two.central.prefix.with_name("away")
    two.central.prefix.rename(away)
    try:
        for argv in (("build", APP), ("publish",)):
            done = two.own.run(*argv)
            if argv[0] == "build":
                assert (done.code, done.stderr.splitlines()[0]) == (
                    3,
                    f"error[upstream-unusable]: the upstream {two.central.prefix} cannot be used",
                )
        assert two.own.run("verify").code == 1
        for argv in (("history",), ("list",), ("gc", "--dry-run"), ("site", "check"), ("rollback", "1")):
            two.own.run(*argv)
        assert stored(two.own) == ["app"]
        said = two.shell(f"module load {APP} || echo refused", central=False)
        assert "it is not mounted here, or it was removed" in " ".join(said.stderr.split())
        assert said.stdout == "refused\n"
    finally:
        away.rename(two.central.prefix)
    assert two.own.ok("build", APP).stdout.startswith("nothing to do")


def test_site_check_has_a_row_for_the_upstream(two: Two) -> None:
    def row(**settings: object) -> tuple[str, str]:
        set_site(two, **settings)
        facts = two.own.run("site", "check", "--format", "json").data["facts"]
        return next((f["status"], f["text"]) for f in reversed(facts) if f["field"] == "upstream")

    central, here = str(two.central.prefix), two.own.root
    status, text = row()
    assert (status, text.partition("; ")[0]) == ("ok", f"{central}, 2 installs, used where they are")
    assert row(cpu_level="x86-64-v3") == ("warning", f"{OTHER}, {BASE}: the same lock is another install there")
    two.own.settings.pop("cpu_level")
    assert row(upstream=f"{central}x")[1].endswith("No such file or directory")
    two.own.recipe(OTHER, ["python", "numpy"])
    two.give()
    two.own.ok("lock", OTHER)
    assert row(upstream=central) == (
        "warning",
        f"{OTHER}: the upstream has published another lock, so this site builds its own",
    )
    shutil.rmtree(here / "recipes/other")
    (here / "empty").mkdir()
    assert row(upstream=str(here / "empty"))[1].endswith("it is no prefix of envmgr: it has no store")
    (here / "link").symlink_to(central)
    assert row(upstream=str(here / "link")) == (
        "error",
        f"the upstream {here}/link cannot be used; it was made for {central}",
    )
    place = two.central.prefix / "prefix.json"
    text = place.read_text()
    place.chmod(0o644)
    place.write_text(text.replace('"schema": 1', '"schema": 9'))
    assert "has format 9" in row(upstream=central)[1]
    place.write_text(text)
    if two.own.wrap:
        two.central.prefix.chmod(0o700)
        assert row()[1].endswith("Permission denied")
        two.central.prefix.chmod(0o755)
    assert row()[0] == "ok"


@pytest.mark.parametrize(
    ("upstream", "said"),
    [
        ("relative", "must be an absolute path"),
        ("{own}", "is the site's own prefix"),
        ("{own}/inside", "lies in the other"),
        ("{root}", "lies in the other"),
        ("/a b", "must be without spaces"),
    ],
)
def test_bad_upstream_is_refused_when_the_site_is_read(sandbox: Sandbox, upstream: str, said: str) -> None:
    sandbox.settings["upstream"] = upstream.format(own=sandbox.prefix, root=sandbox.root)
    sandbox.write_site()
    done = sandbox.run("list")
    assert (done.code, done.stderr.partition("]")[0]) == (2, "error[site-invalid")
    assert said in done.stderr
