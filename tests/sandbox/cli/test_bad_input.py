"""Bad input: whole messages, the right exit code, nothing left behind, and the next ordinary run works."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pytest

from envmgr.system.files import remove_tree
from envmgr.system.files import shipped as shipped_folder
from tests.helpers.sandbox import Sandbox
from tests.helpers.scenes import error_of, locked, processes
from tests.helpers.standin.channel import Channel
from tests.helpers.wording import pydantic_says

HELLO = ["hello-prefix"]
FINE = {"tests": [{"name": "runs", "run": "hello-prefix"}]}


def published(box: Sandbox) -> Sandbox:
    """One entry, locked and published; whatever fails must leave it so."""
    locked(box, "hello/1.0", HELLO, **FINE)
    box.ok("build", "hello/1.0")
    return box


@pytest.fixture
def box(sandbox: Sandbox) -> Sandbox:
    return published(sandbox)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory, channel: Channel) -> Iterator[Sandbox]:
    """One site for all that is refused: no refusal may change it. It has hello/1.10 too, which is not built."""
    box = Sandbox(tmp_path_factory.mktemp("shared"), str(channel.folder))
    box.write_site()
    box.recipe("hello/1.10", HELLO)
    yield published(box)
    remove_tree(box.prefix)


def refused(box: Sandbox, code: int, *argv: str, **extra: str) -> str:
    """Run what must fail; returns its message. Nothing may have changed."""
    generations = sorted(p.name for p in (box.prefix / "generations").iterdir())
    done = box.run(*argv, **extra)
    text = error_of(done, box)
    assert done.code == code, done.stderr
    assert box.current() == 1
    assert sorted(p.name for p in (box.prefix / "generations").iterdir()) == generations
    assert box.leftovers() == []
    assert processes(box) == []
    return text


def ordinary_run(box: Sandbox) -> None:
    """The next run of something else works: nothing was left in a bad state."""
    locked(box, "other/1.0", ["hello-activate"])
    box.ok("build", "other/1.0")
    assert box.ok("test", "--format", "json").data["tests"][-1]["status"] == "passed"


@pytest.mark.parametrize("verb", ["build", "publish", "lock", "list", "copy"])
def test_unknown_entry_names_the_nearest(shared: Sandbox, verb: str) -> None:
    text = refused(shared, 2, verb, "helo/1.0")
    assert text == (
        f"error[unknown-entry]: no catalog has helo/1.0\n"
        f"  searched: ROOT/recipes, {shipped_folder('recipes')}\n"
        f"\n"
        f"hint: did you mean hello/1.0, hello/1.10?"
    )


def test_name_without_version_lists_the_versions(shared: Sandbox) -> None:
    assert refused(shared, 2, "build", "hello") == (
        "error[entry-syntax]: `hello` is a name; which version?\n\nhint: there are hello/1.0, hello/1.10"
    )


def test_word_that_is_no_entry(shared: Sandbox) -> None:
    assert refused(shared, 2, "build", "../etc") == (
        "error[entry-syntax]: `../etc` is not an entry: bad name `..`\n"
        "  letters, digits and . _ + - are allowed, and the first must be a letter or digit"
    )


def test_nothing_named(shared: Sandbox) -> None:
    assert refused(shared, 2, "build") == (
        "error[nothing-named]: name at least one entry, or --all\n\nhint: `envmgr list` shows what there is"
    )


@pytest.mark.parametrize("verb", ["test", "verify", "publish --remove"])
def test_entry_that_is_not_published(shared: Sandbox, verb: str) -> None:
    assert refused(shared, 2, *verb.split(), "helo/1.0") == (
        "error[not-published]: helo/1.0 is not published\n  generation 1\n\nhint: did you mean hello/1.0?"
    )


def test_publish_of_what_is_not_built(shared: Sandbox) -> None:
    locked(shared, "unbuilt/2024a", ["hello-activate"])
    assert refused(shared, 3, "publish", "unbuilt/2024a") == (
        "error[not-built]: unbuilt/2024a is not built\n\nhint: run `envmgr build unbuilt/2024a`"
    )


def test_generation_that_does_not_exist(shared: Sandbox) -> None:
    assert refused(shared, 3, "rollback", "7") == (
        "error[no-generation]: there is no generation 7\n"
        "  ROOT/prefix/generations/0007/generation.json\n"
        "\n"
        "hint: `envmgr history` lists them"
    )


def test_rollback_of_the_first_generation(shared: Sandbox) -> None:
    assert refused(shared, 3, "rollback") == (
        "error[no-generation]: generation 1 is the first: there is nothing to go back to"
    )


@pytest.mark.parametrize(
    "argv", [["rollback"], ["rollback", "1"], ["publish", "--remove", "x/1"], ["test"], ["verify"], ["diff"]]
)
def test_verbs_before_the_first_publish(sandbox: Sandbox, argv: list[str]) -> None:
    done = sandbox.run(*argv)
    assert done.code == 3
    assert error_of(done, sandbox) == (
        "error[nothing-published]: nothing is published in ROOT/prefix, as this host sees it\n"
        "  there is no folder ROOT/prefix\n\n"
        "hint: `envmgr build ENTRY`; if another machine has it, mount it here first"
    )
    assert not sandbox.prefix.exists()


def test_yaml_syntax_names_file_line_and_column(box: Sandbox) -> None:
    recipe = box.root / "recipes/hello/1.0/recipe.yaml"
    good = recipe.read_text()
    recipe.write_text("schema: 1\nbackend: conda\ninput: {channels: [standin\ntests: []\n")
    text = refused(box, 2, "build", "hello/1.0")
    assert re.fullmatch(
        r"error\[yaml-syntax\]: ROOT/recipes/hello/1\.0/recipe\.yaml:[45]:\d+: .*expected ',' or '\]'.*", text
    ), text
    recipe.write_text(good)
    ordinary_run(box)


def test_backend_input_faults(shared: Sandbox) -> None:
    folder = shared.recipe("faulty/2024a", HELLO)
    shared.ok("lock", "faulty/2024a")
    recipe = json.loads((folder / "recipe.yaml").read_text())
    recipe["input"] = {"channels": ["standin"], "spec": HELLO}
    (folder / "recipe.yaml").write_text(json.dumps(recipe))
    text = refused(shared, 2, "build", "faulty/2024a")
    assert text.startswith("error[recipe-invalid]: ")
    assert "input.spec: unknown field" in text
    assert f"input.specs: {pydantic_says('missing')}" in text


def test_unknown_backend(shared: Sandbox) -> None:
    shared.recipe("guix/2024a", HELLO, backend="guix")
    text = refused(shared, 2, "build", "guix/2024a")
    assert text.startswith("error[unknown-backend]: there is no backend `guix`")
    assert "known: conda" in text


def test_missing_software_file(shared: Sandbox) -> None:
    shared.recipe("nobody/2024a", HELLO)
    (shared.root / "recipes/nobody/software.yaml").unlink()
    assert refused(shared, 2, "build", "nobody/2024a") == (
        "error[file-missing]: software file ROOT/recipes/nobody/software.yaml does not exist\n\n"
        "hint: one line is enough, which `module whatis` shows: "
        "`echo 'description: …' >ROOT/recipes/nobody/software.yaml`"
    )


def test_site_faults_each_with_line_and_field(box: Sandbox) -> None:
    (box.root / "site.yaml").write_text("schema: 1\nprefix: relative\npolicies:\n  keep_day: 3\n")
    done = box.run("build", "hello/1.0")
    assert done.code == 2
    assert error_of(done, box) == (
        "error[site-invalid]: ROOT/site.yaml has 2 faults\n"
        "  ROOT/site.yaml:2: prefix: must be an absolute path: the same on every node\n"
        "  ROOT/site.yaml:4: policies.keep_day: unknown field"
    )


def test_site_file_that_is_named_but_missing(box: Sandbox) -> None:
    done = box.run("list", ENVMGR_SITE=str(box.root / "nowhere.yaml"))
    assert done.code == 2
    assert error_of(done, box) == "error[site-missing]: ROOT/nowhere.yaml does not exist\n  named by $ENVMGR_SITE"


def test_lock_that_is_no_yaml(shared: Sandbox) -> None:
    folder = shared.recipe("merged/2024a", HELLO)
    (folder / "conda-lock.yml").write_text("version: 1\n<<<<<<< HEAD\n")
    text = refused(shared, 2, "build", "merged/2024a")
    assert text.startswith("error[yaml-syntax]: ROOT/recipes/merged/2024a/conda-lock.yml:"), text


def test_dependency_cycle(shared: Sandbox) -> None:
    for entry, other in (("a/1", "b/1"), ("b/1", "a/1")):
        shared.recipe(entry, HELLO, depends=[other])
        shared.ok("lock", entry)
    assert refused(shared, 2, "build", "a/1") == "error[dependency-cycle]: a/1 depends on itself\n  a/1 -> b/1 -> a/1"


def test_licence_that_the_site_has_not_acknowledged(box: Sandbox) -> None:
    locked(box, "closed/1.0", HELLO)
    software = box.root / "recipes/closed/software.yaml"
    software.write_text(json.dumps({**json.loads(software.read_text()), "acknowledge": "NVIDIA-EULA"}))
    assert refused(box, 3, "build", "closed/1.0") == (
        "error[licence-not-acknowledged]: closed/1.0 comes under a licence that the site has not acknowledged\n"
        "  NVIDIA-EULA: https://example.org\n"
        "\n"
        "hint: read it; then add `NVIDIA-EULA` to policies.licences in site.yaml"
    )
    box.policies["licences"] = ["NVIDIA-EULA"]
    box.write_site()
    box.ok("build", "closed/1.0")


def test_prefix_too_long(sandbox: Sandbox) -> None:
    deep = sandbox.root / "p" / ("d" * 120) / ("e" * 120)
    sandbox.settings["prefix"] = str(deep)
    sandbox.write_site()
    locked(sandbox, "hello/1.0", HELLO)
    done = sandbox.run("build", "hello/1.0")
    path = deep / "store/hello/1.0-01234567"
    assert done.code == 3
    assert error_of(done, sandbox) == (
        f"error[prefix-too-long]: the install path of hello/1.0 has {len(str(path))} characters; "
        f"packages have room for 255\n"
        f"  ROOT/p/{'d' * 120}/{'e' * 120}/store/hello/1.0-DIGEST\n"
        f"\n"
        f"hint: choose a shorter prefix in site.yaml"
    )
    assert not (sandbox.root / "p").exists()


def test_prefix_that_is_a_file(sandbox: Sandbox) -> None:
    sandbox.prefix.write_text("")
    locked(sandbox, "hello/1.0", HELLO)
    done = sandbox.run("build", "hello/1.0")
    assert done.code == 3
    assert error_of(done, sandbox) == (
        "error[prefix-unreadable]: cannot read ROOT/prefix/current\n  [Errno 20] Not a directory: 'ROOT/prefix/current'"
    )
    sandbox.prefix.unlink()
    sandbox.ok("build", "hello/1.0")


def test_lmod_missing_is_told_before_anything_is_fetched(sandbox: Sandbox) -> None:
    sandbox.settings["lmod"] = {"dir": str(sandbox.root / "lmod")}
    sandbox.write_site()
    locked(sandbox, "hello/1.0", HELLO)
    done = sandbox.run("build", "hello/1.0")
    assert done.code == 3
    assert error_of(done, sandbox) == (
        "error[lmod-missing]: there is no Lmod in ROOT/lmod\n"
        "  looked in ROOT/lmod\n"
        "\n"
        "hint: `apt-get install lmod` (Debian, Ubuntu) or `dnf install epel-release && dnf install Lmod` (Rocky, Alma, "
        "RHEL); if it lies in another folder, name that in site.yaml: lmod: {dir: …}"
    )
    assert not sandbox.prefix.exists()
    sandbox.ok("build", "--no-publish", "hello/1.0")  # the store does not need it
    assert sandbox.current() is None
    del sandbox.settings["lmod"]
    sandbox.write_site()
    sandbox.ok("build", "hello/1.0")
    assert sandbox.current() == 1


def test_failing_smoke_test_publishes_nothing_and_the_install_is_reused(box: Sandbox) -> None:
    box.recipe(
        "bad/1.0",
        HELLO,
        tests=[{"name": "good", "run": "hello-prefix"}, {"name": "bad", "run": "echo one; echo two >&2; exit 4"}],
    )
    box.ok("lock", "bad/1.0")
    before = box.current()
    done = box.run("build", "bad/1.0")
    assert done.code == 3
    assert error_of(done, box) == (
        "error[smoke-test-failed]: 1 smoke test of bad/1.0 failed\n"
        "  bad/1.0 `bad`:\n"
        "    one\n"
        "    two\n"
        "    exit status 4\n"
        "  log: LOG\n"
        "\n"
        "hint: nothing was published; fix the recipe or its tests, then `envmgr build bad/1.0` (installs are kept)"
    )
    assert box.current() == before
    assert box.leftovers() == []
    assert json.loads((box.prefix / "generations/0002/abandoned.json").read_text())["reason"].startswith(
        "error[smoke-test-failed]"
    )
    assert sorted(p.name for p in (box.prefix / "generations/0002").iterdir()) == ["abandoned.json"]
    box.recipe("bad/1.0", HELLO, tests=[{"name": "good", "run": "hello-prefix"}])
    again = box.ok("build", "bad/1.0", "--format", "json").data
    assert again["built"] == []
    assert (box.current(), again["generation"], again["parent"]) == (3, 3, 1)


def test_smoke_test_of_a_module_that_does_not_load_shows_what_lmod_said(box: Sandbox) -> None:
    box.recipe("foe/1.0", ["shared"], conflicts=["hello"])
    box.recipe("one/1.0", ["shared"], depends=["hello/1.0", "foe/1.0"])
    box.ok("lock", "foe/1.0", "one/1.0")
    done = box.run("build", "one/1.0")
    assert done.code == 3
    text = error_of(done, box)
    assert text.startswith("error[smoke-test-failed]: 1 smoke test of one/1.0 failed\n  one/1.0 `load`:\n"), text
    assert 'Cannot load module "foe/1.0" because these module(s) are loaded:' in " ".join(text.split())
    assert "    exit status 97\n" in text
    assert box.current() == 1


def test_long_output_of_a_smoke_test_is_shortened_in_the_middle(box: Sandbox) -> None:
    locked(box, "bad/1.0", HELLO, tests=[{"name": "talks", "run": "seq 1000; exit 3"}])
    text = error_of(box.run("build", "bad/1.0"), box)
    shown = [line.strip() for line in text.splitlines() if line.startswith("    ")]
    assert shown == [
        "1",
        "2",
        "3",
        "4",
        "5",
        "6",
        "7",
        "(982 more lines)",
        *(str(n) for n in range(990, 1001)),
        "exit status 3",
    ]


@pytest.mark.parametrize(
    ("run", "end"),
    [
        ("sleep 1200", "no end after 2 s"),
        ("kill -SEGV $$", "ended by SIGSEGV"),
        ("sh -c 'kill -KILL $$'", "ended by SIGKILL (out of memory?)"),
        ("no-such-command-here", "exit status 127"),
    ],
)
def test_smoke_tests_that_end_badly(box: Sandbox, run: str, end: str) -> None:
    locked(box, "bad/1.0", HELLO, tests=[{"name": "it", "run": run, "timeout": 2 if "sleep" in run else 120}])
    done = box.run("build", "bad/1.0")
    assert done.code == 3
    assert f"    {end}\n" in done.stderr
    assert box.current() == 1
    assert processes(box) == []


def test_smoke_test_that_leaves_a_process_does_not_hang_nor_keep_it(box: Sandbox) -> None:
    locked(
        box, "daemon/1.0", HELLO, tests=[{"name": "it", "run": f"bash -c 'cd {box.root}; sleep 1200' & echo started"}]
    )
    box.ok("build", "daemon/1.0")
    assert processes(box) == []


def test_catalog_that_cannot_be_written(shared: Sandbox) -> None:
    first = shared.ok("list", "--format", "json").data["entries"]
    entry = next(e["entry"] for e in first if e["shipped"])
    text = refused(shared, 3, "lock", entry)
    assert text.startswith(
        f"error[catalog-read-only]: {entry} is in the catalog that ships with envmgr, which is never changed\n"
    )
    assert text.endswith(f"hint: `envmgr copy {entry}` takes it into your own catalog (`envmgr init` makes one)")
