"""A user's own packages on a published entry: only the difference, locked, read-only, as a module in every shell."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from envmgr.people.lock import read_lock
from envmgr.system.files import remove_tree
from tests.helpers.done import Done
from tests.helpers.sandbox import PYTHON, Sandbox
from tests.helpers.standin.channel import Channel
from tests.helpers.wheel_scene import WheelBox, make_wheel_box

ENTRY = "sci/1.0"
SPECS = [f"python {PYTHON}.*", "pip", "six"]


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory, channel: Channel) -> Iterator[WheelBox]:
    """An entry of conda with Python, pip and six 1.17; a package index with others, which has another six, too."""
    box = Sandbox(tmp_path_factory.mktemp("users"), str(channel.folder))
    box.write_site()
    made = make_wheel_box(box)
    made.index(pypi=made.house.simple.as_uri())
    box.recipe(ENTRY, SPECS)
    box.ok("lock", ENTRY)
    box.ok("build", ENTRY)
    made.house.wheel("einops", "0.7", scripts={"einops-tool": "einops:main"})
    made.house.wheel("six", "99.0")
    made.house.wheel("on-six", requires=["six>=1"])
    made.house.wheel("on-new-six", requires=["six>=90"])
    yield made
    remove_tree(box.root / ".local")
    box.clear()


def run(box: Sandbox, *argv: str) -> Done:
    return box.run("user", *argv, HOME=str(box.root))


def user(box: Sandbox, *argv: str) -> dict[str, Any]:
    done = run(box, *argv, "--format", "json")
    assert done.code == 0, done.stdout + done.stderr
    return done.data


def refused(box: Sandbox, *argv: str) -> str:
    done = run(box, *argv)
    assert (done.code, done.stdout) == (2, ""), done.stdout + done.stderr
    return done.stderr


def changes(result: dict[str, Any]) -> list[tuple[str, str, str]]:
    return [(each["name"], each["before"], each["after"]) for each in result["changes"]]


def envs(box: Sandbox) -> Path:
    return box.root / ".local/share/envmgr/envs"


def base_of(box: Sandbox) -> Path:
    """The install that is published now: a test above makes a second one, and their order is by chance."""
    record = json.loads((box.prefix / "current/generation.json").read_text())
    return box.prefix / str(record["entries"][ENTRY]["path"])


def test_environment_has_what_the_entry_lacks_and_nothing_twice(scene: WheelBox) -> None:
    box = scene.box
    made = user(box, "create", "first", "--on", ENTRY, "einops", "on-six", "six")
    assert changes(made) == [("einops", "", "0.7"), ("on-six", "", "1.0")]
    root, base = Path(made["path"]), base_of(box)
    assert (envs(box) / "first").readlink() == root
    assert {stat.S_IMODE(path.lstat().st_mode) & 0o222 for path in root.rglob("*") if not path.is_symlink()} == {0}
    loaded = box.shell("""
        module load user/first
        python -c 'import einops, on_six, six, sys; print(einops.__file__, six.__file__, sys.prefix)'
        einops-tool
        command -v pip
        echo $SCI_ROOT
    """)
    packages = f"lib/python{PYTHON}/site-packages"
    assert (loaded.stderr, loaded.stdout.splitlines()) == (
        "",
        [f"{root}/{packages}/einops.py {base}/{packages}/six.py {root}", "einops 0.7", f"{root}/bin/pip", str(base)],
    )


def test_bytecode_of_all_but_a_packages_own_tests(scene: WheelBox) -> None:
    box = scene.box
    scene.house.wheel("parts", files={"parts_of/__init__.py": "", "parts_of/tests/test_it.py": "", "tests/x.py": ""})
    (home := box.root / "tests").mkdir()  # a name that is no package's folder
    made = box.ok("user", "create", "parts", "--on", ENTRY, "parts", "--format", "json", HOME=str(home)).data
    packages = Path(made["path"]) / f"lib/python{PYTHON}/site-packages"
    found = {str(path.relative_to(packages).parent.parent) for path in packages.rglob("*.pyc")}
    assert found == {".", "parts_of"}
    remove_tree(home)


@pytest.mark.parametrize("shell", ["bash", "zsh", "csh", "fish"])
def test_module_loads_in_every_shell_and_takes_the_place_of_the_entry(scene: WheelBox, shell: str) -> None:
    box = scene.box
    name = f"in-{shell}"
    user(box, "create", name, "--on", ENTRY, "einops")
    loaded = box.shell(f"module load {ENTRY}\nmodule load user/{name}\npython -c 'import einops; print(einops.VERSION)'\necho $LOADEDMODULES\n", shell)  # fmt: skip
    assert loaded.stdout.splitlines() == ["0.7", f"user/{name}"]
    gone = box.shell(f"module load user/{name}\nmodule unload user/{name}\ncommand -v python einops-tool; echo $SCI_ROOT.\n", "bash")  # fmt: skip
    assert "einops-tool" not in gone.stdout
    assert gone.stdout.endswith("\n.\n") or gone.stdout == ".\n"


def test_programs_of_the_entry_start_with_the_environments_python(scene: WheelBox) -> None:
    """A `torchrun` of the entry would else see none of the user's packages."""
    box = scene.box
    scene.house.wheel("launcher", scripts={"launch": "launcher:main"}, files={"launcher.py": "import importlib, sys\n\ndef main():\n    print(importlib.import_module(sys.argv[1]).VERSION)\n"})  # fmt: skip
    scene.entry("launcher/1.0", "launcher", python=scene.base(), indexes=["house"])
    scene.index(pypi=scene.house.simple.as_uri(), house=scene.house.simple.as_uri())
    box.ok("lock", "launcher/1.0")
    box.ok("build", "launcher/1.0")
    user(box, "create", "launches", "--on", "launcher/1.0", "einops")
    assert box.shell("module load user/launches\nlaunch einops\n").stdout == "0.7\n"
    # An entry on the system's Python is a virtual environment itself, on which no other one stands.
    scene.entry("over/1.0", "launcher", python="system", indexes=["house"])
    box.ok("lock", "over/1.0")
    box.ok("build", "over/1.0")
    user(box, "create", "over", "--on", "over/1.0", "einops")
    assert box.shell("module load user/over\nlaunch einops\n").stdout == "0.7\n"


def test_extras_of_what_the_entry_has_bring_what_they_need(scene: WheelBox) -> None:
    box = scene.box
    scene.house.wheel("with-more", requires=["einops; extra == 'more'", "six<1; extra == 'never'"])
    scene.index(pypi=scene.house.simple.as_uri(), house=scene.house.simple.as_uri())
    scene.entry("extras/1.0", "with-more", python=scene.base(), indexes=["house"])
    box.ok("lock", "extras/1.0")
    box.ok("build", "extras/1.0")
    made = user(box, "create", "extra", "--on", "extras/1.0", "with-more[more]")
    assert changes(made) == [("einops", "", "0.7")]
    file = box.root / "extra-wheels.lock"
    run(box, "export", "extra", "--output", str(file))
    (bob := box.root / "extras").mkdir()
    box.ok("user", "create", "his", "--from-lock", str(file), HOME=str(bob))
    assert changes(user(box, "create", "plain", "--on", "extras/1.0", "with-more")) == []


def test_a_clash_names_both_sides_and_the_ways_out(scene: WheelBox) -> None:
    box = scene.box
    said = refused(box, "create", "clash", "--on", ENTRY, "on-new-six")
    assert said.startswith(
        "error[clash]: what you ask for does not fit to sci/1.0\n"
        "  asked for: on-new-six\n"
        "  sci/1.0 has six 1.17.0, which stays\n"
    )
    assert "hint: `--replace six` takes a copy of your own in the place of six 1.17.0" in said
    assert not (envs(box) / "clash").exists()
    made = user(box, "create", "clash", "--on", ENTRY, "on-new-six", "--replace", "six")
    assert changes(made) == [("on-new-six", "", "1.0"), ("six", "", "99.0")]
    assert box.shell("module load user/clash\npython -c 'import six; print(six.VERSION)'\n").stdout == "99.0\n"
    assert "no package nothing" in refused(box, "create", "other", "--on", ENTRY, "--replace", "nothing")


def test_packages_come_and_go_and_the_former_install_stays(scene: WheelBox) -> None:
    box = scene.box
    first = Path(user(box, "create", "changes", "--on", ENTRY, "einops")["path"])
    added = user(box, "add", "changes", "on-six")
    assert changes(added) == [("on-six", "", "1.0")]
    assert added["inodes_before"] > 0
    assert first.is_dir()  # a shell or a job may have it loaded
    assert changes(user(box, "remove", "changes", "einops")) == [("einops", "0.7", "")]
    assert "asked for: on-six" in refused(box, "remove", "changes", "einops")
    scene.house.wheel("on-six", "2.0", requires=["six"])
    assert changes(user(box, "update", "changes", "--dry-run")) == [("on-six", "1.0", "2.0")]
    assert user(box, "show", "changes")["environment"]["packages"] == ["on-six 1.0"]
    assert changes(user(box, "update", "changes")) == [("on-six", "1.0", "2.0")]
    (scene.house.files / "on_six-2.0-py3-none-any.whl").unlink()
    scene.house.write()


def test_lock_gives_a_colleague_the_same_packages(scene: WheelBox) -> None:
    box = scene.box
    made = user(box, "create", "shared", "--on", ENTRY, "einops", "on-six")
    file = box.root / "wheels.lock"
    assert run(box, "export", "shared", "--output", str(file)).code == 0
    lock = read_lock(file)
    assert lock.versions == {"einops": "0.7", "on-six": "1.0"}
    (bob := box.root / "bob").mkdir()
    done = box.ok("user", "create", "his", "--from-lock", str(file), "--format", "json", HOME=str(bob)).data
    assert (done["content"], done["on"]) == (made["content"], ENTRY)
    name = f"lib/python{PYTHON}/site-packages/einops.py"
    assert (Path(done["path"]) / name).read_bytes() == (Path(made["path"]) / name).read_bytes()
    file.write_text(file.read_text().replace(lock.base, "0" * 64))
    assert "error[base-differs]" in refused(box, "create", "late", "--from-lock", str(file))
    file.write_text("# python: 3.11\n# platform: x86_64-manylinux_2_28\n")
    assert "error[lock-invalid]" in refused(box, "create", "late", "--from-lock", str(file))


def test_pip_refuses_and_names_the_verb(scene: WheelBox) -> None:
    box = scene.box
    user(box, "create", "pips", "--on", ENTRY, "einops")
    said = box.shell("module load user/pips\npip install on-six\necho $?\npip list 2>/dev/null | grep -c einops\n")
    assert said.stdout.splitlines() == ["1", "1"]
    assert said.stderr == (
        "error: pip cannot install packages in the environment pips: it has what its lock has\n\n"
        "Packages of your own come by the lock of this environment:\n  envmgr user add pips PACKAGE\n"
    )


def test_list_names_what_the_lock_does_not_have(scene: WheelBox) -> None:
    box = scene.box
    root = Path(user(box, "create", "strange", "--on", ENTRY, "einops")["path"])
    folder = root / f"lib/python{PYTHON}/site-packages"
    folder.chmod(0o755)
    (folder / "Other_Thing-3.1.dist-info").mkdir()
    row = user(box, "show", "strange")["environment"]
    assert (row["base"], row["strangers"]) == ("current", ["other-thing 3.1"])
    assert "strange: its lock does not have other-thing 3.1\n" in run(box, "list").stdout
    assert "Note: Other_Thing-3.1 lies in user/strange, and its lock does not have it." in " ".join(
        box.shell("module load user/strange\n").stderr.split()
    )
    found = box.run("doctor", "--format", "json", HOME=str(box.root)).data["findings"]
    (hint,) = (each["hint"] for each in found if "its lock does not have other-thing 3.1" in each["found"])
    for command in hint.partition("`")[2].partition("`")[0].split(" && "):
        box.ok(*command.split()[1:], HOME=str(box.root))
    assert "its lock does not have" not in box.run("doctor", HOME=str(box.root)).stdout


def test_folder_of_a_users_own_is_used_as_it_is_and_an_environment_may_lie_elsewhere(scene: WheelBox) -> None:
    box = scene.box
    (own := box.root / "own").mkdir()
    (own / "mine.py").write_text("SAID = 1\n")
    (scratch := box.root / "scratch").mkdir()
    made = user(box, "create", "elsewhere", "--on", ENTRY, "--editable", str(own), "--at", str(scratch / "env"))
    assert made["editable"] == [str(own)]
    (own / "mine.py").write_text("SAID = 2\n")
    assert box.shell("module load user/elsewhere\npython -c 'import mine; print(mine.SAID)'\n").stdout == "2\n"
    assert (scratch / "env").readlink() == Path(made["path"])
    assert user(box, "delete", "elsewhere", "--dry-run")["inodes"] == made["inodes"]
    user(box, "delete", "elsewhere")
    assert [*scratch.iterdir()] == []
    assert "no-environment" in refused(box, "delete", "elsewhere")
    assert "user/elsewhere" not in box.shell("module -t avail user 2>&1\n").stdout


def test_environment_goes_on_when_the_entry_has_another_install(scene: WheelBox) -> None:
    """The module stands on paths of the store; a newer install is taken when its user says so."""
    box = scene.box
    user(box, "create", "goes-on", "--on", ENTRY, "einops")
    former = base_of(box)
    box.recipe(ENTRY, [*SPECS, "tabulate"])
    box.ok("lock", ENTRY)
    box.ok("build", ENTRY)
    assert box.shell("module load user/goes-on\npython -c 'import einops, six; print(six.__file__)'\n").stdout.startswith(str(former))  # fmt: skip
    assert user(box, "show", "goes-on")["environment"]["base"] == "newer"
    note = "Note: sci/1.0 has another install now; `envmgr user update goes-on --rebase` takes it."
    said = [box.shell("module load user/goes-on\n").stderr for _ in range(2)]
    assert [note in " ".join(text.split()) for text in said] == [False, False]  # it was said at the load above
    week = envs(box) / ".envmgr/reported-goes-on"
    os.utime(week, (week.stat().st_atime, week.stat().st_mtime - 8 * 86400))
    assert note in " ".join(box.shell("module load user/goes-on\n").stderr.split())
    assert "`envmgr user update goes-on --rebase` takes it" in run(box, "list").stdout
    assert changes(user(box, "add", "goes-on", "on-six")) == [("on-six", "", "1.0")]  # on what it stands on
    user(box, "update", "goes-on", "--rebase")
    assert user(box, "show", "goes-on")["environment"]["base"] == "current"
    assert not box.shell("module load user/goes-on\npython -c 'import six; print(six.__file__)'\n").stdout.startswith(str(former))  # fmt: skip


def test_bad_input_leaves_nothing(scene: WheelBox) -> None:
    box = scene.box
    home = box.root / "nobody"
    home.mkdir()
    for argv, reference in (
        (("create", "x", "--on", "nothing/1.0", "einops"), "not-published"),
        (("create", "x/y", "--on", ENTRY, "einops"), "name-invalid"),
        (("create", "x", "einops"), "entry-missing"),
        (("create", "x", "--on", ENTRY, "no-such-package"), "unsolvable"),
        (("create", "x", "--on", ENTRY, "git+https://host.invalid/x"), "requirement-invalid"),
        (("create", "x", "--on", ENTRY, "-r", "missing.txt"), "file-missing"),
        (("create", "x", "--on", ENTRY, "--editable", "missing"), "folder-missing"),
        (("create", "x", "--on", ENTRY, "einops", "--at", "missing/x"), "place-taken"),
        (("create", "x", "--from-lock", "missing.lock"), "lock-missing"),
        (("add", "x", "einops"), "no-environment"),
        (("show", "x"), "no-environment"),
        (("create", "x", "--on", ENTRY, "einops", "--dry-run"), ""),
    ):
        done = box.run("user", *argv, HOME=str(home))
        assert (f"error[{reference}]" in done.stderr) if reference else done.code == 0, f"{argv}: {done.stderr}"
    assert [*home.iterdir()] == []


def test_entry_that_lost_its_python_is_told_and_no_other_python_is_asked(scene: WheelBox) -> None:
    box, folder = scene.box, base_of(scene.box) / "bin"
    programs = [path for path in folder.iterdir() if path.name.startswith("python3")]
    folder.chmod(0o755)
    for path in programs:
        path.rename(f"{path}.gone")
    try:
        done = run(box, "create", "broken", "--on", ENTRY, "einops")
        assert (done.code, "error[base-broken]" in done.stderr) == (3, True), done.stderr
        assert not os.path.lexists(envs(box) / "broken")
    finally:
        for path in programs:
            Path(f"{path}.gone").rename(path)
        folder.chmod(0o555)


def test_failed_download_leaves_no_environment(scene: WheelBox) -> None:
    """The index promises another file than it has."""
    box = scene.box
    scene.house.wheel("broken", "1.0")
    page = scene.house.simple / "broken"
    promised = {path: path.read_text() for path in page.iterdir()}
    scene.house.wheel("broken", "1.0", files={"other.py": ""})
    for path, text in promised.items():
        path.write_text(text)
    done = run(box, "create", "fails", "--on", ENTRY, "broken")
    assert (done.code, "error[wrong-sha256]" in done.stderr) == (3, True), done.stdout + done.stderr
    assert not os.path.lexists(envs(box) / "fails")
    assert [*(envs(box) / ".envmgr/store/user").glob("*fails*")] == []
    scene.house.write()
    user(box, "create", "fails", "--on", ENTRY, "broken")


def test_home_that_cannot_be_written_gets_a_hint_for_its_owner(scene: WheelBox) -> None:
    done = scene.box.run("user", "create", "nowhere", "--on", ENTRY, "einops", HOME="/proc")
    assert (done.code, "`--at FOLDER` puts an environment elsewhere" in done.stderr) == (3, True), done.stderr


def test_two_creates_at_once_make_one(scene: WheelBox) -> None:
    box = scene.box
    both = [box.start("user", "create", "both", "--on", ENTRY, "einops", HOME=str(box.root)) for _ in range(2)]
    said = [process.communicate(timeout=300) for process in both]
    assert sorted(process.returncode for process in both) == [0, 2], said
    assert sum("name-taken" in stderr for _, stderr in said) == 1


@pytest.mark.parametrize("all_of_it", [False, True])
def test_environment_whose_folder_is_gone_is_told_and_can_be_deleted(scene: WheelBox, all_of_it: bool) -> None:
    box = scene.box
    (place := box.root / "disk").mkdir()
    root = Path(user(box, "create", "gone", "--on", ENTRY, "einops", "--at", str(place / "env"))["path"])
    remove_tree(place if all_of_it else root)  # a scratch file system that was emptied
    row = next(each for each in user(box, "list")["environments"] if each["name"] == "gone")
    assert row["fault"].startswith("there is no ")
    user(box, "delete", "gone")
    remove_tree(place)


def test_gc_keeps_what_an_environment_stands_on_and_says_for_whom(scene: WheelBox) -> None:
    box = scene.box
    made = user(box, "create", "holder", "--on", ENTRY, "einops")
    folder = box.prefix / "var/users"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o1777
    held = base_of_module(box, "holder")
    assert made["held"] > "2026"
    box.recipe(ENTRY, [*SPECS, "packaging"])
    box.ok("lock", ENTRY)
    box.ok("build", ENTRY)
    policies = dict(box.policies)
    box.policies |= {"keep_generations": 1, "keep_days": 0}
    box.write_site()
    kept = {row["path"]: row["reason"] for row in box.ok("gc", "--now", "--format", "json").data["kept"]}
    assert kept[held].startswith("environments of root (")
    assert ", held until " in kept[held]
    assert (box.prefix / held).is_dir()
    assert box.shell("module load user/holder\npython -c 'import einops'\n").returncode == 0
    for name in user(box, "list")["environments"]:
        user(box, "delete", name["name"])
    assert [*folder.iterdir()] == []
    box.ok("gc", "--now")
    assert not (box.prefix / held).is_dir()
    box.policies.clear()
    box.policies |= policies
    box.write_site()


def base_of_module(box: Sandbox, name: str) -> str:
    text = (envs(box) / f".envmgr/modules/user/{name}.lua").read_text()
    return text.partition(f'"{box.prefix}/')[2].partition('"')[0].removesuffix("/bin")


def test_delete_also_takes_what_a_killed_run_has_left(scene: WheelBox) -> None:
    box = scene.box
    for name in ("half", "half-1"):
        user(box, "create", name, "--on", ENTRY, "einops")
    store = envs(box) / ".envmgr/store/user"
    (manifest,) = (each for each in store.glob("half-????????.manifest.json"))
    manifest.unlink()
    (store / f".staging-{manifest.name.partition('.')[0]}/lib").mkdir(parents=True)
    user(box, "delete", "half")
    assert {each.name.removesuffix(".manifest.json")[:-9] for each in store.glob("*half*")} == {"half-1"}
    assert user(box, "show", "half-1")["environment"]["packages"] == ["einops 0.7"]


def test_what_was_asked_for_is_kept_also_where_no_package_changes(scene: WheelBox) -> None:
    box = scene.box
    user(box, "create", "asked", "--on", ENTRY, "on-six")
    made = user(box, "add", "asked", "on-six>=1", "six>=1")
    assert changes(made) == []
    assert user(box, "show", "asked")["environment"]["requirements"] == ["on-six>=1", "six>=1"]
    scene.house.wheel("on-six", "3.0", requires=["six"])
    assert changes(user(box, "add", "asked", "einops")) == [("einops", "", "0.7")]  # the others stay as they are
    (scene.house.files / "on_six-3.0-py3-none-any.whl").unlink()
    scene.house.write()


def test_former_install_is_kept_from_the_day_on_which_it_was_left(scene: WheelBox) -> None:
    box = scene.box
    first = Path(user(box, "create", "long", "--on", ENTRY, "einops")["path"])
    manifest = first.with_name(f"{first.name}.manifest.json")
    os.utime(manifest, (0, 0))
    second = Path(user(box, "add", "long", "on-six")["path"])
    assert first.is_dir()
    os.utime(manifest, (0, 0))
    third = Path(user(box, "remove", "long", "on-six")["path"])
    assert (third == first, second.is_dir()) == (True, True)
    user(box, "add", "long", "six")
    os.utime(second.with_name(f"{second.name}.manifest.json"), (0, 0))
    user(box, "add", "long", "six>=1")
    assert not second.exists()


def test_a_prefix_that_cannot_be_written_costs_only_the_hold(scene: WheelBox) -> None:
    box = scene.box
    folder = box.prefix / "var/users"
    kept = folder.with_name("users.kept")
    folder.rename(kept)
    folder.write_text("no folder")
    try:
        made = user(box, "create", "unheld", "--on", ENTRY, "einops")
        assert (made["held"], bool(made["not_held"])) == ("", True)
        user(box, "delete", "unheld")
    finally:
        folder.unlink()
        kept.rename(folder)


def test_links_of_others_are_no_environments(scene: WheelBox) -> None:
    box = scene.box
    envs(box).mkdir(parents=True, exist_ok=True)
    (envs(box) / "stray").symlink_to("x")
    assert "stray" not in {each["name"] for each in user(box, "list")["environments"]}
    assert "name-taken" in refused(box, "create", "stray", "--on", ENTRY, "einops")
    (envs(box) / "stray").unlink()


def test_diff_of_a_jobs_output_compares_the_environment_with_what_it_is_now(scene: WheelBox) -> None:
    box = scene.box
    made = user(box, "create", "ran", "--on", ENTRY, "einops==0.7")
    output = box.root / "ran-7.out"
    output.write_text(f"envmgr: user/ran, generation 1, digest {made['path'][-8:]}, on c1\n")

    def diff() -> Any:
        return box.ok("diff", str(output), "--format", "json", HOME=str(box.root)).data["entries"]

    assert diff() == []
    scene.house.wheel("einops", "0.8")
    now = user(box, "add", "ran", "einops>=0.8")
    changed = [{"name": "einops", "old": "0.7", "new": "0.8"}]
    assert diff() == [{"entry": "user/ran", "change": "changed", "packages": changed}]
    remove_tree(Path(made["path"]).parent)  # and the one that it is now
    assert now["path"] != made["path"]
