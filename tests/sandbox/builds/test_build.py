"""From a recipe to a module that loads, as an administrator does it: every verb, its text, its JSON, its exit code."""

from __future__ import annotations

import getpass
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import envmgr
from envmgr.system.files import remove_tree
from tests.helpers.sandbox import Sandbox
from tests.helpers.scenes import HELLO, RUNS, data, error_of, locked, log_of, plain, snapshot
from tests.helpers.standin.channel import Channel
from tests.helpers.standin.server import Fault, serve
from tests.helpers.waiting import DEADLINE


def states(box: Sandbox) -> dict[str, str]:
    entries = box.ok("list", "--format", "json").data["entries"]
    return {e["entry"]: e["state"] for e in entries if not e["shipped"]}


# The way of one entry


def test_first_build_says_what_it_does_and_what_came_of_it(box: Sandbox) -> None:
    done = box.ok("build", "hello/1.0")
    tree = data(box, "build", "hello/1.0", "--dry-run")["steps"][0]["planned"]["path"]
    assert re.sub(r"[\d.]+ s\b", "TIME", re.sub(r"tree [0-9a-f]{12}", "tree DIGEST", plain(done.stdout, box))) == (
        "hello/1.0: built  store/hello/1.0-DIGEST  tree DIGEST\n"
        "test hello/1.0 `runs`: ok in TIME\n"
        "published hello/1.0: generation 1 is current\n"
        f"log: ROOT/prefix/var/log/{log_of(done.stdout).name}\n"
    )
    assert re.sub(r"[\d.]+ s\b", "TIME", done.stderr) == (
        "hello/1.0 link: 1 package in TIME\n"
        "hello/1.0 check: done in TIME\n"
        "generation 1 modules: 1 module in TIME\n"
        "generation 1 spider cache: done in TIME\n"
        "generation 1 www: done in TIME\n"
        "generation 1 portal: done in TIME\n"
        "hello/1.0 test: 1 test in TIME\n"
    )
    assert (box.prefix / tree / "bin/hello-prefix").is_file()
    assert f"hello/1.0: building {box.prefix / tree}" in log_of(done.stdout).read_text()
    assert box.leftovers() == []
    loaded = box.shell("module load hello/1.0; hello-prefix; module -t avail")
    assert loaded.stdout == f"hello from {box.prefix / tree}\n"
    assert "hello/1.0" in loaded.stderr.splitlines()


def test_published_entry_is_left_alone(box: Sandbox) -> None:
    box.ok("build", "hello/1.0")
    before = snapshot(box.prefix)
    done = box.ok("build", "hello/1.0")
    assert (done.stdout, done.stderr) == ("nothing to do: hello/1.0 is published in generation 1\n", "")
    assert snapshot(box.prefix) == before  # no log, no lock, no byte


def test_run_with_nothing_to_do_imports_nothing_that_makes_installs_or_asks_nodes(box: Sandbox) -> None:
    box.ok("build", "hello/1.0")
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "envmgr", "build", "hello/1.0"],
        cwd=box.root,
        env=box.environ(),
        capture_output=True,
        text=True,
        check=True,
        timeout=DEADLINE,
    )
    assert done.stdout == "nothing to do: hello/1.0 is published in generation 1\n"
    imported = set(re.findall(r"(\S+)$", done.stderr, re.MULTILINE))
    assert "envmgr.publish.plan" in imported
    assert {
        "envmgr.steps.build_run",
        "envmgr.builds.install",
        "envmgr.nodes",
        "envmgr.smoke.here",
        "jinja2",
        "rattler",
    } & imported == set()
    backends = {name for name in imported if name.startswith("envmgr.backends.")} - {"envmgr.backends._only_if"}
    assert backends == {  # the backend itself is found by its name, which -X importtime does not see
        f"envmgr.backends.conda.{part}" for part in ("cuda", "lock_checks", "lock", "lockfile", "models")
    }


def test_progress_over_http(box: Sandbox, channel: Channel) -> None:
    with serve(channel.folder, {"noarch/hello-prefix*": Fault("slow", rate=20_000)}) as server:
        box.mirror = server.url
        box.write_site()
        done = box.ok("build", "hello/1.0")
    assert re.match(r"hello/1\.0 download: 1\.4 kB in [\d.]+ s\nhello/1\.0 link: 1 package in ", done.stderr)
    assert box.current() == 1


def test_build_without_publishing_then_publish(box: Sandbox) -> None:
    done = box.ok("build", "--no-publish", "hello/1.0")
    assert "hello/1.0: built  store/hello/" in done.stdout
    assert box.current() is None
    assert states(box) == {"hello/1.0": "built", "other/1.0": "locked"}
    again = box.ok("build", "--no-publish", "hello/1.0")
    assert re.match(r"nothing to build: hello/1\.0 is in the store \(`envmgr publish` .*\)\n$", again.stdout)
    published = data(box, "publish")
    assert (published["generation"], published["parent"]) == (1, None)
    assert [t["status"] for t in published["tests"]] == ["passed"]
    assert box.ok("publish").stdout == "nothing to do: hello/1.0 is published in generation 1\n"


def test_states_from_declared_to_outdated(sandbox: Sandbox) -> None:
    sandbox.recipe("hello/1.0", HELLO)
    seen = [states(sandbox)["hello/1.0"]]
    for argv in (["lock"], ["build", "--no-publish"], ["publish"]):
        sandbox.ok(*argv, "hello/1.0")
        seen.append(states(sandbox)["hello/1.0"])
    sandbox.recipe("hello/1.0", [*HELLO, "shared"])
    seen.append(states(sandbox)["hello/1.0"])
    sandbox.ok("lock", "hello/1.0")
    seen.append(states(sandbox)["hello/1.0"])
    sandbox.ok("build", "hello/1.0")
    seen.append(states(sandbox)["hello/1.0"])
    assert seen == ["declared", "locked", "built", "published", "outdated", "outdated", "published"]


def test_list_tells_what_is_published_without_a_recipe(box: Sandbox) -> None:
    box.ok("build", "hello/1.0")
    shutil.rmtree(box.root / "recipes/hello")
    found = [e for e in data(box, "list")["entries"] if e["entry"] == "hello/1.0"]
    assert [(e["state"], e["notes"]) for e in found] == [("published", ["no catalog has its recipe any more"])]


def test_changed_text_of_the_module_is_published_without_a_new_install(box: Sandbox) -> None:
    box.ok("build", "hello/1.0")
    box.recipe("hello/1.0", HELLO, tests=RUNS, help="Say hello.")
    dry = data(box, "build", "hello/1.0", "--dry-run")
    assert [(s["build"], s["publish"]) for s in dry["steps"]] == [("reuse", "module")]
    assert states(box)["hello/1.0"] == "outdated"
    done = data(box, "build", "hello/1.0")
    assert (done["built"], done["generation"]) == ([], 2)
    assert [(e["entry"], e["change"]) for e in data(box, "diff")["entries"]] == [("hello/1.0", "module")]
    assert "Say hello." in box.shell("module help hello/1.0").stderr


def test_changed_policy_renders_every_module_again(box: Sandbox) -> None:
    box.ok("build", "hello/1.0", "other/1.0")
    box.policies["driver_gate"] = "refuse"
    box.write_site()
    dry = data(box, "build", "hello/1.0", "--dry-run")
    assert (dry["rerender"], dry["steps"][0]["publish"]) == (True, "unchanged")
    done = data(box, "build", "hello/1.0")
    assert (done["rerender"], done["generation"], done["built"]) == (True, 2, [])
    assert box.ok("build", "hello/1.0").stdout == "nothing to do: hello/1.0 is published in generation 2\n"


def test_changed_template_renders_every_module_again(box: Sandbox, tmp_path: Path) -> None:
    """Another envmgr, as after an upgrade: the same package beside other templates."""
    box.ok("build", "hello/1.0", "other/1.0")
    source = Path(envmgr.__file__).parent
    shutil.copytree(source, tmp_path / "new/envmgr", ignore=shutil.ignore_patterns("__pycache__", "data"))
    for folder in ("modulefiles", "recipes"):
        shutil.copytree(source.parent / folder, tmp_path / "new" / folder)
    template = tmp_path / "new/modulefiles/module.lua.j2"
    template.write_text("-- a new line in every module\n" + template.read_text())
    done = box.ok("build", "hello/1.0", "--format", "json", PYTHONPATH=str(tmp_path / "new")).data
    assert (done["rerender"], done["generation"]) == (True, 2)
    for entry in ("hello", "other"):
        first = (box.prefix / f"current/modules/{entry}/1.0.lua").read_text().splitlines()[0]
        assert first == "-- a new line in every module"


# Several entries


def test_several_entries_side_by_side(box: Sandbox) -> None:
    names = [f"many{n}/1.0" for n in range(3)]
    for name in names:
        locked(box, name, ["shared"], tests=[{"name": "there", "run": "true"}])
    done = data(box, "build", "-j", "2", "hello/1.0", *names)
    assert sorted(done["built"]) == ["hello/1.0", *names]
    assert done["generation"] == 1
    assert len({done["trees"][n] for n in names}) == 1  # one lock, one tree
    assert [t["status"] for t in done["tests"]] == ["passed"] * 4


def test_all_means_the_whole_catalog(box: Sandbox) -> None:
    """A dry run: the shipped entries would be fetched from the real channels. Licences are acknowledged one by one."""
    done = data(box, "build", "--all", "--dry-run")
    listed = [e["entry"] for e in data(box, "list")["entries"]]
    loaded = {  # by their `depends:`
        "mpi4py/4.1-mpich4.3": "mpich/4.3",
        "mpi4py/4.1-openmpi4.1": "openmpi/4.1",
        "tensorrt/10.7": "cuda/12.9",
    }
    everything = list(dict.fromkeys(each for name in listed for each in (loaded.get(name), name) if each))
    licensed = [e for e in everything if e.startswith(("anaconda/", "cuda/", "horovod/0.28-cuda11.7", "tensorrt/"))]
    assert licensed == done["left_out"]
    assert [s["planned"]["entry"] for s in done["steps"]] == [e for e in everything if e not in licensed]
    assert {s["build"] for s in done["steps"]} == {"build"}
    box.policies["licences"] = ["anaconda-terms", "cuda-eula", "cudnn-eula", "tensorrt-eula"]
    box.write_site()
    done = data(box, "build", "--all", "--dry-run")
    assert done["left_out"] == []
    assert [s["planned"]["entry"] for s in done["steps"]] == everything


def test_dependencies_are_built_and_loaded_first(box: Sandbox) -> None:
    locked(box, "app/1.0", ["shared"], depends=["hello/1.0"], tests=[{"name": "uses", "run": "hello-prefix"}])
    done = data(box, "build", "app/1.0")
    assert done["built"] == ["hello/1.0", "app/1.0"]
    loaded = box.shell('module load app/1.0; echo "$LOADEDMODULES"; module unload app/1.0; echo "[$LOADEDMODULES]"')
    assert loaded.stdout == "hello/1.0:app/1.0\n[]\n"
    refused = box.run("publish", "--remove", "hello/1.0")
    assert refused.code == 3
    assert error_of(refused, box) == (
        "error[dependency-missing]: a published entry would lose what it depends on\n"
        "  app/1.0 depends on hello/1.0\n"
        "\n"
        "hint: remove the dependents too, or keep the dependency"
    )
    assert box.current() == 1
    box.ok("publish", "--remove", "hello/1.0", "--remove", "app/1.0")
    assert states(box) == {"app/1.0": "built", "hello/1.0": "built", "other/1.0": "locked"}


def test_deprecated_entry_says_so_at_load_and_in_lists(box: Sandbox) -> None:
    box.recipe("hello/1.0", HELLO, deprecated={"message": "use hello/2.0", "date": "2099-12-31"})
    box.ok("build", "hello/1.0")
    loaded = box.shell("module load hello/1.0; hello-prefix")
    assert loaded.returncode == 0
    assert "hello/1.0 is deprecated and goes away on 2099-12-31: use hello/2.0" in " ".join(loaded.stderr.split())
    notes = next(e["notes"] for e in data(box, "list")["entries"] if e["entry"] == "hello/1.0")
    assert notes == ["deprecated, goes on 2099-12-31"]


def test_deprecated_entry_whose_date_has_passed_is_a_warning_of_catalog_check(box: Sandbox) -> None:
    box.recipe("hello/1.0", HELLO, deprecated={"message": "use hello/2.0", "date": "2020-01-31"})
    said = box.run("check").stdout
    assert "warning" in said
    assert "deprecated.date 2020-01-31 has passed" in said


def test_default_and_hidden(box: Sandbox) -> None:
    box.recipe("hello/2.0", HELLO, hidden=True)
    box.recipe("hello/1.0", HELLO, default=True)
    box.recipe("hello/1.5", HELLO)
    box.ok("lock", "hello/2.0", "hello/1.5")
    box.ok("build", "hello/1.0", "hello/1.5", "hello/2.0")
    done = box.shell(
        'module -t avail hello; module load hello; echo "$LOADEDMODULES"; module load hello/2.0; echo "$LOADEDMODULES"'
    )
    assert done.stdout == "hello/1.0\nhello/2.0\n"
    assert "hello/1.5" in done.stderr
    assert "hello/2.0" not in done.stderr.split("The following")[0]


# Generations


def test_remove_rollback_history_and_diff(box: Sandbox) -> None:
    box.ok("build", "hello/1.0")
    box.ok("build", "other/1.0")
    removed = data(box, "publish", "--remove", "hello/1.0")
    assert (removed["generation"], removed["parent"]) == (3, 2)
    gone = box.shell("module load hello/1.0")
    assert gone.returncode != 0
    back = data(box, "rollback")
    assert (back["before"], back["after"]) == (3, 2)
    assert box.shell("module load hello/1.0; hello-prefix").returncode == 0
    assert data(box, "rollback", "3")["after"] == 3
    assert data(box, "rollback", "3") == {"schema": "envmgr.rollback/1", "before": 3, "after": 3, "dry_run": False}
    history = data(box, "history")
    rows = [(g["number"], g["current"], g["changes"], g["reason"]) for g in history["generations"]]
    assert rows == [
        (1, False, ["+ hello/1.0"], "build hello/1.0"),
        (2, False, ["+ other/1.0"], "build other/1.0"),
        (3, True, ["- hello/1.0"], "publish --remove hello/1.0"),
    ]
    assert [(f["from"], f["to"]) for f in history["flips"]] == [(None, 1), (1, 2), (2, 3), (3, 2), (2, 3)]
    assert {g["user"] for g in history["generations"]} == {getpass.getuser()}
    assert [(e["entry"], e["change"]) for e in data(box, "diff", "1", "3")["entries"]] == [
        ("hello/1.0", "removed"),
        ("other/1.0", "added"),
    ]


def test_diff_tells_packages(box: Sandbox) -> None:
    locked(box, "lib/1.0", ["shared 1.0"])
    box.ok("build", "lib/1.0")
    locked(box, "lib/1.0", ["shared 2.0", "hello-prefix"])
    box.ok("build", "lib/1.0")
    assert data(box, "diff")["entries"] == [
        {
            "entry": "lib/1.0",
            "change": "changed",
            "packages": [
                {"name": "hello-prefix", "old": "", "new": "1.0 0"},
                {"name": "shared", "old": "1.0 0", "new": "2.0 0"},
            ],
        }
    ]


def test_gc_keeps_what_policy_and_generations_need(box: Sandbox) -> None:
    box.policies |= {"keep_generations": 2, "keep_days": 0}
    box.write_site()
    box.ok("build", "hello/1.0")
    first = data(box, "list", "hello/1.0")["install"]
    for specs in ([*HELLO, "shared"], [*HELLO, "hello-activate"]):
        box.recipe("hello/1.0", specs, tests=RUNS)
        box.ok("lock", "hello/1.0")
        box.ok("build", "hello/1.0")
    before = snapshot(box.prefix)
    dry = data(box, "gc", "--dry-run")
    assert snapshot(box.prefix) == before
    done = data(box, "gc")
    assert (dry["generations"], dry["installs"]) == (done["generations"], done["installs"])
    assert done["generations"] == [1]
    assert done["installs"] == [str(Path(first).relative_to(box.prefix))]
    assert dry["size"] == done["size"] > 0
    assert not Path(first).exists()
    assert box.leftovers() == []
    assert data(box, "rollback")["after"] == 2  # its install is kept
    refused = box.run("rollback", "1")
    assert refused.code == 3
    box.ok("test")
    box.ok("verify")


def test_test_and_verify(box: Sandbox) -> None:
    box.ok("build", "hello/1.0", "other/1.0")
    tests = data(box, "test")
    assert [(t["entry"], t["test"], t["status"]) for t in tests["tests"]] == [
        ("hello/1.0", "runs", "passed"),
        ("other/1.0", "load", "passed"),
    ]
    assert data(box, "verify")["checked"] == ["hello/1.0", "other/1.0"]
    assert data(box, "verify", "other/1.0")["checked"] == ["other/1.0"]
    flag = box.root / "broken"
    box.recipe("hello/1.0", HELLO, tests=[{"name": "flag", "run": f"test ! -e {flag}"}])
    box.recipe("hello/1.0", HELLO, tests=[{"name": "flag", "run": f"test ! -e {flag}"}], help="x")
    box.ok("build", "hello/1.0")
    flag.touch()
    done = box.run("test", "hello/1.0", "--format", "json")
    assert done.code == 1
    assert [(t["status"], t["detail"]) for t in done.data["tests"]] == [("failed", "exit status 1")]


def test_gpu_tests_are_skipped_and_told_where_there_is_none(box: Sandbox) -> None:
    expected = "failed" if Path("/dev/nvidia0").exists() else "skipped"
    locked(box, "gpu/1.0", HELLO, tests=[*RUNS, {"name": "gpu", "run": "nvidia-smi && false", "needs": ["gpu"]}])
    done = box.run("build", "gpu/1.0")
    assert done.code == (0 if expected == "skipped" else 3)
    if expected == "skipped":
        assert "test gpu/1.0 `gpu`: not tried (no NVIDIA GPU on this node)\n" in done.stdout


# What verbs promise: JSON, dry runs without effect


def test_copy_and_init_speak_json(box: Sandbox, tmp_path: Path) -> None:
    shipped = next(e["entry"] for e in data(box, "list")["entries"] if e["shipped"])
    copied = data(box, "copy", shipped)
    assert set(copied) == {"schema", "entry", "target", "files", "dry_run"}
    assert copied["schema"] == "envmgr.copy/1"
    assert Path(copied["target"]) == box.root / "recipes" / shipped
    assert "recipe.yaml" in copied["files"]
    assert {p.name for p in Path(copied["target"]).iterdir()} == set(copied["files"])
    assert (Path(copied["target"]).parent / "software.yaml").is_file()
    again = box.run("copy", shipped)
    assert again.code == 2
    assert error_of(again, box) == (
        f"error[entry-exists]: ROOT/recipes/{shipped} exists\n\nhint: edit it there, or remove it first"
    )
    made = data(box, "init", str(tmp_path / "fresh"), "--prefix", str(tmp_path / "fresh-prefix"))
    assert set(made) == {"schema", "site", "catalog", "prefix", "dry_run"}
    assert data(box, "list", "--site", str(tmp_path / "fresh"))["generation"] is None


@pytest.mark.parametrize(
    "line",
    [
        "lock hello/1.0",
        "lock new/1.0",
        "build new/1.0",
        "build other/1.0",
        "publish built/1.0",
        "publish --remove hello/1.0",
        "rollback 1",
        "gc",
        "init elsewhere",
    ],
)
def test_dry_runs_change_nothing(dry_box: Sandbox, line: str) -> None:
    roots = [dry_box.root]
    before = snapshot(*roots)
    done = dry_box.run(*line.split(), "--dry-run")
    assert done.code == (3 if line == "build new/1.0" else 0)
    assert done.stdout or done.code
    assert snapshot(*roots) == before


@pytest.fixture(scope="module")
def dry_box(tmp_path_factory: pytest.TempPathFactory, channel: Channel) -> Iterator[Sandbox]:
    """Two generations, one entry built but not published, one only locked, one not locked; garbage to collect."""
    box = Sandbox(tmp_path_factory.mktemp("dry"), str(channel.folder))
    box.policies |= {"keep_generations": 1, "keep_days": 0}
    box.write_site()
    for entry in ("hello/1.0", "built/1.0", "other/1.0"):
        locked(box, entry, HELLO)
    box.ok("build", "hello/1.0")
    box.ok("build", "--no-publish", "built/1.0")
    box.ok("publish", "--remove", "hello/1.0")
    box.ok("rollback")
    box.recipe("new/1.0", HELLO)
    (box.prefix / "store/left/.staging-1.0-01234567").mkdir(parents=True)
    yield box
    remove_tree(box.prefix)


def test_dry_run_of_a_first_build_makes_no_prefix(box: Sandbox) -> None:
    done = box.ok("build", "hello/1.0", "--dry-run")
    assert "hello/1.0: build store/hello/1.0-DIGEST (1 package, 1.4 kB to download); module:" in plain(
        done.stdout, box
    ) or ("hello/1.0: build store/hello/1.0-DIGEST" in plain(done.stdout, box))
    assert done.stderr == ""
    assert not box.prefix.exists()
