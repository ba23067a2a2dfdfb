from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import envmgr
from envmgr.store.tree import scan_tree, tree_digest
from tests.helpers.places import ROOT
from tests.helpers.sandbox import Sandbox
from tests.helpers.verbs import VERBS
from tests.helpers.waiting import DEADLINE

OPTIONS = {verb: {word for each in VERBS[verb].params for word in each.opts} for verb in VERBS}
HEAVY = ["rich", "rattler", "yaml", "jinja2", "packaging", "conda_lock", "ClusterShell"]

# Those write only the files that options name.
CHANGING = sorted(verb for verb in VERBS if verb not in ("adopt", "audit", "sbom") and "--dry-run" in OPTIONS[verb])


def python(code: str, *argv: str, folder: Path = ROOT, **environ: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code, *argv],
        cwd=folder,
        env={"PATH": os.environ["PATH"], "HOME": str(folder), "PYTHONPATH": str(ROOT), **environ},
        capture_output=True,
        text=True,
        check=False,
        timeout=DEADLINE,
    )


@pytest.mark.parametrize(
    ("argv", "heavy"), [(["--help"], False), (["nope"], False), (["user", "--help"], False), (["history"], True)]
)
def test_start_imports_nothing_heavy_before_a_verb_runs(tmp_path: Path, argv: list[str], heavy: bool) -> None:
    (tmp_path / "site.yaml").write_text("prefix: /nowhere\n")
    code = (
        "import atexit, sys\n"
        f"atexit.register(lambda: print([each for each in {HEAVY} if each in sys.modules]))\n"
        "from envmgr.cli.app import main; main()\n"
    )
    assert (python(code, *argv, folder=tmp_path).stdout.splitlines()[-1] != "[]") is heavy


def test_every_verb_has_a_format() -> None:
    assert [verb for verb in VERBS if "--format" not in OPTIONS[verb]] == []


def test_every_verb_takes_a_site_except_the_one_that_makes_it_and_those_that_need_none() -> None:
    assert [verb for verb in VERBS if "--site" not in OPTIONS[verb]] == ["init", "schema"]


def test_every_verb_takes_site_and_format_before_it_or_refuses_them_as_after_it() -> None:
    """With --help, which is one start for all; what the option does is below."""
    code = (
        "import contextlib, io, json, sys\n"
        "from envmgr.cli.app import main\n"
        "found = {}\n"
        "for verb in json.loads(sys.argv[1]):\n"
        "    both = []\n"
        "    for argv in (['--site', 'x', '--format=json', *verb.split()], [*verb.split(), '--site', 'x', '--format=json']):\n"
        "        sys.argv, text = ['envmgr', *argv, '--help'], io.StringIO()\n"
        "        with contextlib.redirect_stdout(text), contextlib.redirect_stderr(text):\n"
        "            try: main()\n"
        "            except SystemExit as end: both.append([end.code, text.getvalue()])\n"
        "    found[verb] = both\n"
        "print(json.dumps(found))\n"
    )
    found = json.loads(python(code, json.dumps([*VERBS])).stdout)
    # An alias with `--site` opens pages, too; `init` makes the site.
    assert [verb for verb, (before, after) in found.items() if before != after] == ["init", "schema"]
    assert [verb for verb, (before, _) in found.items() if before[0] != 0] == ["init"]


def test_site_before_the_verb_is_as_after_it_and_two_that_differ_are_refused(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / f"{name}.yaml").write_text(f"prefix: {tmp_path}/{name}\nname: {name}\n")
    script = "from envmgr.cli.app import main; main()"

    def said(*argv: str) -> tuple[int, str]:
        done = python(script, *argv, folder=tmp_path, ENVMGR_SITE=str(tmp_path / "two.yaml"))
        return done.returncode, done.stdout + done.stderr

    for argv in (["--site", "one.yaml", "check"], ["--site=one.yaml", "check", "--site", "./one.yaml"]):
        assert f"site: {tmp_path}/one.yaml\n" in said(*argv)[1]
    assert f"site: {tmp_path}/two.yaml\n" in said("check")[1]  # as the variable says
    code, text = said("--site", "one.yaml", "--format", "json", "check", "--site=two.yaml")
    assert (code, json.loads(text)["reference"]) == (2, "option-twice")
    code, text = said("--format", "table", "history", "--format", "json")
    assert code == 2
    assert text == (
        "error[option-twice]: --format is given twice: `table` before the verb, and `json` after it\n\n"
        "hint: leave one of them out\n"
    )
    assert json.loads(said("--format", "json", "history")[1])["schema"] == "envmgr.history/1"
    assert "No such option: --nope" in said("--site", "one.yaml", "history", "--nope")[1]
    assert said("--site")[0] == 2
    assert "Missing command." in said("--site", "one.yaml")[1]


def test_dry_runs_change_nothing(sandbox: Sandbox) -> None:
    sandbox.recipe("app/1.0", ["hello-prefix"])
    shipped = next(e["entry"] for e in sandbox.ok("list", "--format", "json").data["entries"] if e["shipped"])
    (sandbox.root / "named.txt").write_text("six\n")
    before = tree_digest(scan_tree(sandbox.root))
    arguments = {
        "apply": [],
        "build": ["app/1.0"],
        "copy": [shipped],
        "export": ["--to", "reframe", "--output", "reframe.yaml"],
        "fetch": ["app/1.0"],
        "gc": [],
        "import": ["named.txt", "--as", "six/1.0"],
        "init": ["new"],
        "job": ["app/1.0", "--output", "job.sh"],
        "lock": ["app/1.0"],
        "new": ["fresh/1.0", "six"],
        "node-setup": ["--apply", "--here"],
        "page": ["--output", "www"],
        "promote": [],
        "publish": ["--remove", "app/1.0"],
        "report": ["--pull-request", "--output", "report.md"],
        "rollback": [],
        "sign": [],
        "stage": ["app/1.0", "--nodes", "c1"],
        "user add": ["mine", "one"],
        "user create": ["mine", "--on", "app/1.0", "one"],
        "user delete": ["mine"],
        "user export": ["mine", "--output", "mine.toml"],
        "user kernel": ["mine"],
        "user remove": ["mine", "one"],
        "user update": ["mine"],
    }
    assert sorted(arguments) == CHANGING
    home = str(sandbox.root)
    codes = {verb: sandbox.run(*verb.split(), *argv, "--dry-run", HOME=home).code for verb, argv in arguments.items()}
    assert {verb: codes[verb] for verb in ("copy", "gc", "import", "init", "lock", "new")} == dict.fromkeys(
        ("copy", "gc", "import", "init", "lock", "new"), 0
    )
    assert all(
        codes[verb] in (2, 3)
        for verb in arguments
        if verb in ("build", "export", "fetch", "job", "page", "stage", "publish", "rollback", "sign")
        or verb.startswith("user ")
    )
    assert tree_digest(scan_tree(sandbox.root)) == before


def test_version_is_that_of_the_package(sandbox: Sandbox) -> None:
    done = sandbox.run("--version")
    assert (done.code, done.stdout, done.stderr) == (0, f"envmgr {envmgr.__version__}\n", "")


@pytest.mark.parametrize(
    ("argv", "text"),
    [
        (["nope"], "No such command 'nope'"),
        (["user", "nope"], "No such command 'nope'"),
        (["list", "--nope"], "No such option: --nope"),
        (["history", "extra"], "unexpected extra argument"),
        (["find"], "Missing argument"),
        (["rollback", "last"], "Invalid value for"),
        (["build", "a/1", "--jobs", "0"], "Invalid value for '-j' / '--jobs'"),
        (["list", "--format", "xml"], "'xml' is not one of 'table', 'json'"),
    ],
)
def test_usage_error_exits_2_and_says_where_help_is(sandbox: Sandbox, argv: list[str], text: str) -> None:
    done = sandbox.run(*argv)
    assert (done.code, done.stdout) == (2, "")
    assert text in " ".join(done.stderr.split())
    assert done.stderr.startswith("Usage: ")
    assert "Try '" in done.stderr


@pytest.mark.parametrize("argv", [[], ["user"]])
def test_no_verb_shows_the_verbs(sandbox: Sandbox, argv: list[str]) -> None:
    done = sandbox.run(*argv)
    assert "Usage:" in done.stdout + done.stderr
    assert ("Commands:" if argv else "Maintain:") in done.stdout + done.stderr


@pytest.mark.parametrize("place", ["conda-forge", "=x", "conda-forge="])
def test_lock_refuses_a_channel_that_is_no_pair(sandbox: Sandbox, place: str) -> None:
    done = sandbox.run("lock", "--channel", place)
    assert (done.code, done.stdout) == (2, "")
    assert done.stderr == f"error[bad-channel]: `{place}` is not NAME=URL-OR-FOLDER\n"


def test_error_as_text_is_on_stderr(sandbox: Sandbox) -> None:
    done = sandbox.run("list", "app")
    assert (done.code, done.stdout) == (2, "")
    assert done.stderr == (
        "error[entry-syntax]: `app` is not an entry\n\nhint: entries are written name/version: pytorch/2.1-cuda11.8\n"
    )


def test_error_as_json_is_on_stdout(sandbox: Sandbox) -> None:
    done = sandbox.run("list", "app", "--format", "json")
    assert (done.code, done.stderr) == (2, "")
    assert done.data == {
        "schema": "envmgr.error/1",
        "reference": "entry-syntax",
        "message": "`app` is not an entry",
        "context": [],
        "hint": "entries are written name/version: pytorch/2.1-cuda11.8",
        "log": "",
        "exit_code": 2,
    }


def test_error_of_the_site_is_json_too(sandbox: Sandbox) -> None:
    done = sandbox.run("list", "--site", "/no/site.yaml", "--format", "json")
    assert (done.code, done.stderr) == (2, "")
    assert (done.data["reference"], done.data["context"]) == ("site-missing", ["named by --site"])


BROKEN = """
import sys
import envmgr.catalog.site
from envmgr.cli.app import main

def load_site(path, environ):
    {fault}

envmgr.catalog.site.load_site = load_site
sys.argv = ["envmgr", "list"]
main()
"""


def test_bug_exits_4_with_what_is_needed_to_report_it(tmp_path: Path) -> None:
    done = python(BROKEN.format(fault="raise ZeroDivisionError('by nothing')"), folder=tmp_path)
    assert (done.returncode, done.stdout) == (4, "")
    lines = done.stderr.splitlines()
    assert lines[0] == "Traceback (most recent call last):"
    assert lines[-4:] == [
        "ZeroDivisionError: by nothing",
        f"error[bug]: envmgr {envmgr.__version__} did not expect this",
        "",
        "hint: report it with the lines on stderr above",
    ]


def test_site_object_without_what_is_needed_is_a_bug(tmp_path: Path) -> None:
    done = python(BROKEN.format(fault="return object()"), folder=tmp_path)
    assert done.returncode == 4
    assert f"error[bug]: envmgr {envmgr.__version__} did not expect this\n" in done.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("fmt", ["table", "json"])
def test_signal_exits_130(tmp_path: Path, number: signal.Signals, fmt: str) -> None:
    code = f"""
import os, sys, time
import envmgr.catalog.entries
from envmgr.cli.app import main

def entries(self):
    os.kill(os.getpid(), {int(number)})
    time.sleep(10)

envmgr.catalog.entries.Catalog.entries = entries
sys.argv = ["envmgr", "check", "--format", {fmt!r}]
main()
"""
    (tmp_path / "site.yaml").write_text(f"prefix: {tmp_path / 'prefix'}\n")
    done = python(code, folder=tmp_path)
    assert done.returncode == 130
    text = "stopped by a signal"
    if fmt == "table":
        assert (done.stdout, done.stderr) == ("", f"error[interrupted]: {text}\n")
    else:
        assert done.stderr == ""
        assert json.loads(done.stdout)["message"] == text


@pytest.mark.parametrize("command", ["list", "list --format json", "--help"])
def test_broken_pipe_is_quiet(sandbox: Sandbox, command: str) -> None:
    done = subprocess.run(
        ["bash", "-c", f'"$PY" -m envmgr {command} | head -0'],
        cwd=sandbox.root,
        env=sandbox.environ(PY=sys.executable),
        capture_output=True,
        text=True,
        check=False,
        timeout=DEADLINE,
    )
    assert (done.stdout, done.stderr) == ("", "")


def test_broken_pipe_is_no_failure_of_a_verb(sandbox: Sandbox) -> None:
    script = 'set -o pipefail; "$PY" -m envmgr list | true'
    done = subprocess.run(
        ["bash", "-c", script], cwd=sandbox.root, env=sandbox.environ(PY=sys.executable), check=False, timeout=DEADLINE
    )
    assert done.returncode == 0


def test_module_and_entry_point_are_the_same(sandbox: Sandbox) -> None:
    code = "from importlib.metadata import entry_points; (e,) = entry_points(group='console_scripts', name='envmgr'); print(e.value)"
    assert python(code).stdout == "envmgr.cli.app:main\n"
    assert sandbox.run("--version").stdout == f"envmgr {envmgr.__version__}\n"
