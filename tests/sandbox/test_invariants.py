"""The design's invariants 1, 2, 3, 5 and 7, each with what breaks when it is broken. Invariant 3 is also in test_bad_days."""

from __future__ import annotations

import json
import os
import re
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from envmgr.system.files import sha256_file
from tests.helpers.sandbox import PYTHON, Sandbox
from tests.helpers.scenes import error_of, locked, plain, snapshot
from tests.helpers.standin import package as standin
from tests.helpers.standin.channel import Channel
from tests.helpers.standin.wheels import compressor
from tests.helpers.waiting import DEADLINE, wait_for

HELLO = ["hello-prefix"]


def build(box: Sandbox, entry: str, specs: list[str], **fields: Any) -> dict[str, Any]:
    locked(box, entry, specs, **fields)
    return box.ok("build", entry, "--format", "json").data


def record(box: Sandbox, number: int | None = None) -> dict[str, Any]:
    folder = box.prefix / ("current" if number is None else f"generations/{number:04d}")
    found: dict[str, Any] = json.loads((folder / "generation.json").read_text())
    return found


def path_of(box: Sandbox, entry: str, number: int | None = None) -> Path:
    return box.prefix / str(record(box, number)["entries"][entry]["path"])


# 1. A published install never changes; a rebuilt recipe gets another path


def test_a_changed_recipe_gets_another_path_and_the_old_install_stays_as_it_was(sandbox: Sandbox) -> None:
    build(sandbox, "hello/1.0", HELLO)
    old = path_of(sandbox, "hello/1.0")
    before = snapshot(old, old.with_name(f"{old.name}.manifest.json"), sandbox.prefix / "generations/0001")
    build(sandbox, "hello/1.0", [*HELLO, "hello-activate"])
    new = path_of(sandbox, "hello/1.0")
    assert new != old
    assert new.parent == old.parent
    assert snapshot(old, old.with_name(f"{old.name}.manifest.json"), sandbox.prefix / "generations/0001") == before
    assert (old / "bin/hello-prefix").read_text().splitlines()[1] == f'echo "hello from {old}"'


def test_installs_and_generations_are_read_only(sandbox: Sandbox) -> None:
    build(sandbox, "hello/1.0", HELLO)
    roots = [path_of(sandbox, "hello/1.0"), sandbox.prefix / "generations/0001"]
    for root in roots:
        for path in [root, *root.rglob("*")]:
            if not path.is_symlink():
                assert path.stat().st_mode & 0o222 == 0, path
    assert next(sandbox.prefix.glob("store/hello/*.manifest.json")).stat().st_mode & 0o222 == 0


def test_installs_share_no_file_with_each_other_or_the_cache(sandbox: Sandbox) -> None:
    """A hard link would let a user who can write one of them change the others."""
    build(sandbox, "hello/1.0", HELLO)
    build(sandbox, "twin/1.0", HELLO)
    files = [p for p in sandbox.prefix.rglob("*") if p.is_file() and not p.is_symlink()]
    assert [p for p in files if p.stat().st_nlink > 1] == []


def test_a_job_that_runs_keeps_what_it_loaded(sandbox: Sandbox) -> None:
    build(sandbox, "hello/1.0", HELLO)
    old = path_of(sandbox, "hello/1.0")
    go, said = sandbox.root / "go", sandbox.root / "said"
    init = sandbox.ok("shell-init", "bash").stdout
    job = f"""{init}
        module load hello/1.0
        echo "$HELLO_ROOT $ENVMGR_GENERATION" >{said}.part; mv {said}.part {said}
        while [ ! -e {go} ]; do sleep 0.02; done
        hello-prefix; echo "$HELLO_ROOT"; echo "${{MODULEPATH##*/generations/}}"
        module unload hello/1.0; echo "left: ${{HELLO_ROOT-none}}"; command -v hello-prefix || echo "no hello-prefix"
        module load hello/1.0; echo "$HELLO_ROOT"
    """
    shell = subprocess.Popen(
        ["bash", "--noprofile", "--norc"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={"PATH": "/usr/bin:/bin", "HOME": str(sandbox.root)},
    )
    sandbox.started.append(shell)  # killed at the test's end, if it still runs
    assert shell.stdin is not None
    shell.stdin.write(job)
    shell.stdin.flush()
    wait_for(lambda: said.exists() or shell.poll() is not None, what="the job's module")
    build(sandbox, "hello/1.0", [*HELLO, "hello-activate"])
    sandbox.ok("gc")
    go.touch()
    output, _ = shell.communicate(timeout=DEADLINE)
    assert said.read_text() == f"{old} 1\n"
    assert output.splitlines() == [
        f"hello from {old}",
        str(old),
        "0001/modules",
        "left: none",
        "no hello-prefix",
        str(old),
    ]
    fresh = sandbox.shell('module load hello/1.0; echo "$HELLO_ROOT $ENVMGR_GENERATION"')
    assert fresh.stdout == f"{path_of(sandbox, 'hello/1.0')} 2\n"


def test_rebuilding_the_old_recipe_finds_the_old_install(sandbox: Sandbox) -> None:
    build(sandbox, "hello/1.0", HELLO)
    old = path_of(sandbox, "hello/1.0")
    build(sandbox, "hello/1.0", [*HELLO, "hello-activate"])
    again = build(sandbox, "hello/1.0", HELLO)
    assert again["built"] == []
    assert path_of(sandbox, "hello/1.0") == old


# 2. Modules, spider cache and record come from one generation, which is complete before `current` names it


def check_generation(box: Sandbox, folder: Path) -> dict[str, Any]:
    """A generation is one thing: every file is in its record, every record's file is there, all name this number only."""
    found: dict[str, Any] = json.loads((folder / "generation.json").read_text())
    present = {str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file()}
    assert present == {*found["files"], "generation.json"}
    for path, digest in found["files"].items():
        assert sha256_file(folder / path) == digest, path
    number = folder.name
    assert found["number"] == int(number)
    modules = {p.removeprefix("modules/").removesuffix(".lua") for p in found["files"] if p.startswith("modules/")}
    assert {m for m in modules if not m.endswith(".modulerc")} == set(found["entries"])
    for path in ("lmodrc.lua", "spider/spiderT.lua"):
        named = set(re.findall(r"generations/(\d+)", (folder / path).read_text()))
        assert named <= {number}, f"{path} names {named}"
    assert re.findall(r"generations/(\d+)", (folder / "lmodrc.lua").read_text())
    for entry in found["entries"]:
        text = (folder / "modules" / f"{entry}.lua").read_text()
        assert f'pushenv("ENVMGR_GENERATION", "{int(number)}")' in text
        assert str(box.prefix / found["entries"][entry]["path"]) in text
        assert f'["{entry}"]' in (folder / "spider/spiderT.lua").read_text()
    return found


def test_each_generation_is_one_consistent_whole(sandbox: Sandbox) -> None:
    build(sandbox, "hello/1.0", HELLO, default=True)
    build(sandbox, "hello/1.1", HELLO)
    build(sandbox, "other/1.0", ["shared"], hidden=True)
    sandbox.ok("publish", "--remove", "hello/1.1")
    for number in range(1, 5):
        found = check_generation(sandbox, sandbox.prefix / f"generations/{number:04d}")
        assert found["parent"] == (number - 1 or None)


def test_link_current_always_leads_to_a_complete_generation(sandbox: Sandbox) -> None:
    """Readers look as fast as they can while generations are published, rolled back and removed."""
    build(sandbox, "hello/1.0", HELLO)
    build(sandbox, "other/1.0", ["shared"])
    stop, faults, looks = threading.Event(), [], 0

    def read() -> None:
        nonlocal looks
        while not stop.is_set():
            try:
                folder = sandbox.prefix / os.readlink(sandbox.prefix / "current")  # noqa: PTH115 - as node-setup does
                check_generation(sandbox, folder)
            except Exception as error:  # noqa: BLE001 - told by the assertion below
                faults.append(repr(error))
            looks += 1

    readers = [threading.Thread(target=read) for _ in range(2)]
    end = time.monotonic() + DEADLINE
    try:
        for reader in readers:
            reader.start()
        rounds = 0
        while rounds < 2 or (looks <= 50 and time.monotonic() < end):
            sandbox.ok("publish", "--remove", "other/1.0")
            sandbox.ok("publish", "other/1.0")
            sandbox.ok("rollback")
            sandbox.ok("rollback", str(max(numbers(sandbox))))
            rounds += 1
    finally:
        stop.set()
        for reader in readers:
            reader.join()
    assert faults == []
    assert looks > 50


def numbers(box: Sandbox) -> list[int]:
    return sorted(int(p.name) for p in (box.prefix / "generations").iterdir())


def test_numbers_are_never_used_again(sandbox: Sandbox) -> None:
    build(sandbox, "hello/1.0", HELLO)
    locked(sandbox, "bad/1.0", HELLO, tests=[{"name": "bad", "run": "false"}])
    assert sandbox.run("build", "bad/1.0").code == 3  # takes 2
    build(sandbox, "other/1.0", ["shared"])  # 3
    sandbox.ok("rollback", "1")
    build(sandbox, "more/1.0", ["shared"])  # 4, on top of 1
    assert record(sandbox)["parent"] == 1
    assert set(record(sandbox)["entries"]) == {"hello/1.0", "more/1.0"}
    sandbox.policies |= {"keep_generations": 1, "keep_days": 0}
    sandbox.write_site()
    gone = sandbox.ok("gc", "--format", "json").data
    assert gone["generations"] == [1, 3]
    assert numbers(sandbox) == [1, 2, 3, 4]  # the folders keep them taken
    sandbox.ok("publish", "--remove", "more/1.0")
    assert sandbox.current() == 5
    assert sandbox.run("rollback", "3").code == 3


# 3. Whatever happens, `current` names a complete generation: see test_bad_days. Here: a shell does not need envmgr


def test_a_shell_works_without_locks_or_writable_prefix(sandbox: Sandbox) -> None:
    build(sandbox, "hello/1.0", HELLO)
    var = sandbox.prefix / "var"
    var.rename(sandbox.root / "var")
    done = sandbox.shell("module load hello/1.0; hello-prefix")
    assert (done.returncode, done.stderr) == (0, "")
    assert not var.exists()


# 5. Nothing is published that was not checked


def unpublished(box: Sandbox) -> Path:
    locked(box, "hello/1.0", HELLO, tests=[{"name": "runs", "run": "hello-prefix"}])
    box.ok("build", "--no-publish", "hello/1.0")
    manifest = next(box.prefix.glob("store/hello/*.manifest.json"))
    return manifest.with_name(manifest.name.removesuffix(".manifest.json"))


def change(path: Path) -> None:
    path.chmod(0o755)
    path.write_text(path.read_text() + "# changed\n")
    path.chmod(0o555)


def add(path: Path) -> None:
    path.parent.chmod(0o755)
    (path.parent / "extra").write_text("")
    path.parent.chmod(0o555)


def take_away(path: Path) -> None:
    path.parent.chmod(0o755)
    path.unlink()
    path.parent.chmod(0o555)


@pytest.mark.parametrize(
    ("tamper", "told"),
    [
        (change, "bin/hello-prefix: size, sha256 changed"),
        (add, "bin/extra: not in the manifest"),
        (take_away, "bin/hello-prefix: missing"),
        (lambda path: path.chmod(0o775), "bin/hello-prefix: mode changed"),
    ],
)
@pytest.mark.parametrize("verb", ["publish", "build"])
def test_an_install_that_was_tampered_with_is_not_published(
    sandbox: Sandbox, tamper: Callable[[Path], None], told: str, verb: str
) -> None:
    install = unpublished(sandbox)
    tamper(install / "bin/hello-prefix")
    done = sandbox.run(verb, "hello/1.0")
    assert done.code == 3
    assert error_of(done, sandbox) == (
        f"error[install-differs]: ROOT/prefix/store/hello/1.0-DIGEST is not what its manifest says\n"
        f"  {told}\n"
        f"  log: LOG\n"
        f"\n"
        f"hint: files of it changed after the build: remove 1.0-DIGEST.manifest.json, then build hello/1.0 again"
    )
    assert sandbox.current() is None
    install.with_name(f"{install.name}.manifest.json").unlink()  # as the hint says
    assert sandbox.ok("build", "hello/1.0", "--format", "json").data["built"] == ["hello/1.0"]
    assert sandbox.current() == 1


def test_a_package_that_does_not_hold_what_it_promises_is_not_installed(
    sandbox: Sandbox, channel: Channel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The archive's sha256 is right, but its own list of files is not: a broken build of the package."""
    lies: Callable[..., list[standin.Record]] = standin._paths

    def paths(entries: list[standin.Entry]) -> list[standin.Record]:
        return [row | ({"sha256": "00" * 32} if row["_path"] == "share/liar/a" else {}) for row in lies(entries)]

    monkeypatch.setattr(standin, "_paths", paths)
    folder = sandbox.root / "liars"
    entries = tuple(standin.Entry(f"share/liar/{n}", n.encode()) for n in "ab")
    made = standin.Package("liar", "1.0", "0", entries, noarch="generic")
    found = standin.write_package(made, folder, compressor(channel.folder.parent / "wheels"))
    repodata = {"info": {"subdir": "noarch"}, "packages": {}, "packages.conda": {made.file_name: found}}
    (folder / "noarch/repodata.json").write_text(json.dumps(repodata))
    (folder / "linux-64").mkdir()
    (folder / "linux-64/repodata.json").write_text('{"packages": {}, "packages.conda": {}}')
    sandbox.mirror = str(folder)
    sandbox.write_site()
    sandbox.recipe("liar/1.0", ["liar"])
    sandbox.ok("lock", "liar/1.0")
    done = sandbox.run("build", "liar/1.0")
    assert done.code == 3
    assert error_of(done, sandbox) == (
        "error[install-differs]: 1 file of liar/1.0 differs from what the packages promise\n"
        "  share/liar/a: another sha256 than its package says\n"
        "  liar/1.0 was not built\n"
        "  log: LOG\n"
        "\n"
        "hint: the file system or the cache is damaged: run a file system check, then build again"
    )
    assert sandbox.leftovers() == []
    assert not list(sandbox.prefix.glob("store/liar/*"))


def test_smoke_tests_run_through_the_staged_generation_before_the_flip(sandbox: Sandbox) -> None:
    build(sandbox, "base/1.0", ["shared"])
    seen = sandbox.root / "seen"
    test = f'{{ readlink {sandbox.prefix}/current; echo "$MODULEPATH"; echo "$LMOD_RC"; echo "$ENVMGR_GENERATION"; command -v hello-prefix; }} >{seen}'
    build(sandbox, "hello/1.0", HELLO, tests=[{"name": "looks", "run": test}])
    staged = sandbox.prefix / "generations/0002"
    install = path_of(sandbox, "hello/1.0")
    assert seen.read_text().splitlines() == [
        "generations/0001",
        f"{staged}/modules",
        f"{staged}/lmodrc.lua",
        "2",
        f"{install}/bin/hello-prefix",
    ]


def test_smoke_tests_do_not_see_the_callers_shell(sandbox: Sandbox) -> None:
    test = 'test -z "$SECRET$LD_LIBRARY_PATH$PYTHONPATH" && test "$HOME" != "$REAL" && ! test -t 0'
    locked(sandbox, "hello/1.0", HELLO, tests=[{"name": "clean", "run": test}])
    sandbox.ok("build", "hello/1.0", SECRET="x", LD_LIBRARY_PATH="/nowhere", PYTHONPATH="/nowhere")
    assert sandbox.current() == 1


def test_only_modules_whose_text_changes_are_tested_again(sandbox: Sandbox) -> None:
    build(sandbox, "hello/1.0", HELLO, tests=[{"name": "counted", "run": f"echo x >>{sandbox.root}/count"}])
    sandbox.policies["user_site"] = True
    sandbox.write_site()
    locked(sandbox, "py/1.0", ["shared"])
    sandbox.ok("build", "py/1.0")
    # hello has no Python, so the policy does not change its text, and it is not tested again; its render digest is.
    assert (sandbox.root / "count").read_text() == "x\n"
    assert record(sandbox, 1)["render"] != record(sandbox, 2)["render"]


# 7. A user's own environment is safe


@pytest.fixture(scope="module")
def python_box(tmp_path_factory: pytest.TempPathFactory, channel: Channel) -> Iterator[Sandbox]:
    box = Sandbox(tmp_path_factory.mktemp("python"), str(channel.folder))
    box.write_site()
    build(
        box,
        "py/1.0",
        ["python", "numpy", "six", "hello-activate"],
        tests=[{"name": "np", "run": "python -c 'import numpy'"}],
    )
    yield box
    box.clear()


def test_venv_with_system_site_packages_on_top_of_an_entry(python_box: Sandbox) -> None:
    root = path_of(python_box, "py/1.0")
    home = python_box.root
    done = python_box.shell(f"""
        set -e
        module load py/1.0
        python -m venv --system-site-packages --without-pip {home}/venv
        . {home}/venv/bin/activate
        site=$(python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
        echo "x = 1" >"$site/mine.py"
        python - <<'END'
        import mine, numpy, six, sys
        print(sys.prefix)
        print(sys.base_prefix)
        print(mine.__file__.startswith(sys.prefix), numpy.__file__.startswith(sys.base_prefix), float(numpy.ones(3).sum()))
        END
        mkdir "$site/six"; echo "own = True" >"$site/six/__init__.py"
        python -c 'import six; print(six.own)'
        deactivate
        python -c 'import six; print(six.__file__)'
    """)
    assert done.stderr == ""
    assert done.stdout.splitlines() == [
        f"{home}/venv",
        str(root),
        "True True 3.0",
        "True",
        f"{root}/lib/python{PYTHON}/site-packages/six.py",
    ]
    assert python_box.ok("verify").code == 0  # the venv wrote nothing into the install


def test_home_local_is_kept_out_of_python(python_box: Sandbox) -> None:
    site = python_box.root / f".local/lib/python{PYTHON}/site-packages"
    (site / "numpy").mkdir(parents=True, exist_ok=True)
    (site / "numpy/__init__.py").write_text("raise SystemExit('the one in ~/.local')\n")
    (site / "only_here.py").write_text("")
    done = python_box.shell("""
        module load py/1.0
        python -c 'import numpy; print(numpy.__file__)'
        python -c 'import only_here' 2>&1 | tail -1
        module unload py/1.0
        echo "${PYTHONNOUSERSITE-unset}"
        export PYTHONNOUSERSITE=mine
        module load py/1.0; module unload py/1.0
        echo "$PYTHONNOUSERSITE"
    """)
    root = path_of(python_box, "py/1.0")
    assert done.stdout.splitlines() == [
        f"{root}/lib/python{PYTHON}/site-packages/numpy/__init__.py",
        "ModuleNotFoundError: No module named 'only_here'",
        "unset",
        "mine",
    ]


def test_policy_user_site_lets_home_local_in_and_renders_again(python_box: Sandbox) -> None:
    site = python_box.root / f".local/lib/python{PYTHON}/site-packages"
    site.mkdir(parents=True, exist_ok=True)
    (site / "only_there.py").write_text("print('there')")
    before = python_box.current()
    try:
        python_box.policies["user_site"] = True
        python_box.write_site()
        dry = python_box.ok("build", "py/1.0", "--dry-run", "--format", "json").data
        assert (dry["rerender"], [s["publish"] for s in dry["steps"]]) == (True, ["module"])
        python_box.ok("build", "py/1.0")
        assert python_box.current() == (before or 0) + 1
        done = python_box.shell("module load py/1.0; python -c 'import only_there'")
        assert done.stdout == "there\n"
    finally:
        python_box.policies["user_site"] = False
        python_box.write_site()
        python_box.ok("build", "py/1.0")


def test_no_entry_sets_variables_that_reach_into_other_programs(python_box: Sandbox) -> None:
    done = python_box.shell("""
        unset LD_LIBRARY_PATH PYTHONPATH PYTHONHOME LD_PRELOAD
        module load py/1.0
        env | grep -E '^(LD_LIBRARY_PATH|LD_PRELOAD|PYTHONPATH|PYTHONHOME)=' && echo found
        export LD_LIBRARY_PATH=/mine PYTHONPATH=/mine
        module unload py/1.0; module load py/1.0
        echo "$LD_LIBRARY_PATH $PYTHONPATH"
        /usr/bin/env -u PYTHONPATH /bin/ls / >/dev/null && echo ls
    """)
    assert done.stdout.splitlines() == ["/mine /mine", "ls"]
    for module in python_box.prefix.glob("generations/*/modules/*/*.lua"):
        assert not re.search(r'"(LD_LIBRARY_PATH|LD_PRELOAD|PYTHONPATH|PYTHONHOME)"', module.read_text())


@pytest.mark.parametrize("variable", ["LD_LIBRARY_PATH", "PYTHONPATH", "PYTHONHOME", "LD_PRELOAD"])
def test_a_recipe_cannot_set_them_either(sandbox: Sandbox, variable: str) -> None:
    sandbox.recipe("hello/1.0", HELLO, environment={"prepend": {variable: ["${root}/lib"]}})
    done = sandbox.run("lock", "hello/1.0")
    assert done.code == 2
    assert f"environment: {variable} must not be set by a module: it reaches into other programs" in plain(
        done.stderr, sandbox
    )
