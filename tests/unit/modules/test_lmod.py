"""Lmod as a tool: finding it, its cache, its parser, the environment of a module, the start of a smoke test."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

import pytest

from envmgr.errors import EnvmgrError
from envmgr.modules.lmod import LOAD_FAILED, Lmod, find_lmod
from envmgr.system.run import Runner, clean_env
from tests.helpers.lmod_shell import LMOD, make_tree, op, spec

# --- finding it


@pytest.fixture
def installation(tmp_path) -> Path:
    """Another Lmod: its package folder, with links to the real one's parts."""
    package = tmp_path / "apps" / "lmod"
    package.mkdir(parents=True)
    for part in ("init", "libexec"):
        (package / part).symlink_to(LMOD.package / part)
    return package


@pytest.mark.parametrize("folder", [".", "libexec"])
def test_find_lmod_takes_the_sites_folder_or_its_libexec(installation: Path, folder: str) -> None:
    environ = {"LMOD_PKG": "/usr/share/lmod/lmod"}
    assert find_lmod(installation / folder, environ).package == installation


@pytest.mark.parametrize(("variable", "at"), [("LMOD_PKG", ""), ("LMOD_DIR", "libexec"), ("LMOD_CMD", "libexec/lmod")])
def test_find_lmod_takes_the_one_of_the_callers_shell(installation: Path, variable: str, at: str) -> None:
    found = find_lmod(None, {variable: str(installation / at)})
    assert (found.package, found.commands) == (installation, installation / "libexec")


def test_find_lmod_looks_in_the_usual_places_when_the_environment_is_empty_or_stale() -> None:
    assert find_lmod(None, {}).commands.samefile("/usr/share/lmod/lmod/libexec")
    assert find_lmod(None, {"LMOD_PKG": "/gone"}).commands.samefile("/usr/share/lmod/lmod/libexec")


def test_find_lmod_takes_the_newest_version_folder_when_there_is_no_link(monkeypatch, tmp_path) -> None:
    for version in ("8.6.19", "8.7.9", "8.7.60"):
        (tmp_path / version).mkdir()
        for part in ("init", "libexec"):
            (tmp_path / version / part).symlink_to(LMOD.package / part)
    monkeypatch.setattr("envmgr.modules.lmod.USUAL_FOLDERS", (tmp_path,))
    assert find_lmod(None, {}).package == tmp_path / "8.7.60"


def test_find_lmod_never_takes_another_than_the_site_names(tmp_path) -> None:
    with pytest.raises(EnvmgrError) as caught:
        find_lmod(tmp_path, {"LMOD_PKG": str(LMOD.package)})
    hint = (
        "hint: `apt-get install lmod` (Debian, Ubuntu) or `dnf install epel-release && dnf install Lmod` (Rocky, Alma, RHEL);"
        " if it lies in another folder, name that in site.yaml: lmod: {dir: …}"
    )
    assert caught.value.render().splitlines() == [
        f"error[lmod-missing]: there is no Lmod in {tmp_path}",
        f"  looked in {tmp_path}",
        "",
        hint,
    ]


def test_find_lmod_says_where_it_looked(monkeypatch, tmp_path) -> None:
    monkeypatch.setattr("envmgr.modules.lmod.USUAL_FOLDERS", (tmp_path / "share",))
    with pytest.raises(EnvmgrError) as caught:
        find_lmod(None, {"LMOD_DIR": "/gone/libexec"})
    assert caught.value.message == "Lmod is not here"
    assert caught.value.context == (f"looked in /gone/libexec, {tmp_path}/share/lmod",)


def test_version_is_the_one_that_lmod_tells() -> None:
    text = (LMOD.package / "init" / "bash").read_text()
    assert f'LMOD_VERSION="{LMOD.version()}"' in text


def test_init_script_exists_for_known_shells_only() -> None:
    assert LMOD.init_script("sh") == LMOD.package / "init" / "sh"
    with pytest.raises(EnvmgrError) as caught:
        LMOD.init_script("elvish")
    assert caught.value.message == "Lmod has no start-up file for the shell `elvish`"


# --- the cache


def test_spider_cache_is_what_load_and_avail_read(tmp_path) -> None:
    tree = make_tree(tmp_path, spec("app/1"), spec("app/2", default=True))
    tree.cache()
    assert sorted(path.name for path in (tmp_path / "spider").iterdir())[::2] == ["spiderT.lua", "timestamp"]
    # What only the cache knows now: a module added behind its back is not seen.
    shutil.copy(tree.modules / "app/1.lua", tree.modules / "app/9.lua")
    (tree.modules / "app/.modulerc.lua").unlink()
    cached = tree.shell("module -t avail 2>&1; module load app && echo $LOADEDMODULES", LMOD_CACHED_LOADS="yes")
    assert cached.stdout.splitlines() == [f"{tree.modules}:", "app/", "app/1", "app/2", "app/2"]
    fresh = tree.shell("module --ignore_cache -t avail 2>&1")
    assert fresh.stdout.splitlines() == [f"{tree.modules}:", "app/", "app/1", "app/2", "app/9"]


def test_spider_cache_belongs_to_the_folder_as_spelled(tmp_path) -> None:
    tree = make_tree(tmp_path / "real", spec("app/1"))
    (tmp_path / "link").symlink_to("real")
    LMOD.build_spider_cache(tmp_path / "link" / "modules", tmp_path / "link" / "spider")
    text = (tree.folder / "spider" / "spiderT.lua").read_text()
    assert f'"{tmp_path}/link/modules/app/1.lua"' in text
    assert f"{tmp_path}/real" not in text


def test_spider_cache_does_not_depend_on_the_callers_home_or_lmod_settings(tmp_path, monkeypatch) -> None:
    tree = make_tree(tmp_path, spec("app/1"))
    (tmp_path / ".lmodrc.lua").write_text("error('the rc file of the user was read')\n")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("LMOD_RC", str(tmp_path / ".lmodrc.lua"))
    LMOD.build_spider_cache(tree.modules, tmp_path / "spider")
    assert "app/1" in (tmp_path / "spider" / "spiderT.lua").read_text()


class AsNobody(Runner):
    """Runs everything as an ordinary user."""

    def run(self, argv, **options):
        return super().run(["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", *argv], **options)


@pytest.mark.skipif(os.geteuid() != 0, reason="the other tests run as a user already")
def test_spider_cache_is_built_by_a_user_too() -> None:
    with tempfile.TemporaryDirectory() as folder:
        tree = make_tree(Path(folder), spec("app/1"))
        for path in (tree.folder, *tree.folder.rglob("*")):
            os.chown(path, 65534, 65534)
        Lmod(LMOD.package, LMOD.commands, AsNobody()).build_spider_cache(tree.modules, tree.folder / "spider")
        assert "app/1" in (tree.folder / "spider" / "spiderT.lua").read_text()
        assert {path.stat().st_uid for path in (tree.folder / "spider").iterdir()} == {65534}


def test_spider_cache_fails_with_what_lmod_said(tmp_path) -> None:
    tree = make_tree(tmp_path, spec("app/1"))
    (tmp_path / "file").touch()
    spider = tmp_path / "file" / "spider"
    with pytest.raises(EnvmgrError) as caught:
        LMOD.build_spider_cache(tree.modules, spider)
    command = f"{LMOD.commands}/update_lmod_system_cache_files -d {spider} -t {spider}/timestamp {tree.modules}"
    lines = caught.value.render().splitlines()
    assert lines[:2] == [
        f"error[spider-cache-failed]: Lmod could not make its cache of {tree.modules}",
        f"  `{command[:300]}` failed: exit status 1",
    ]
    assert len(lines) == 3
    assert lines[2].startswith("  mkdir: cannot create directory ")
    assert lines[2].endswith(": Not a directory")


@pytest.mark.parametrize("folder", ["with space", "a:b", "star*"])
def test_spider_cache_refuses_a_folder_that_lmods_script_would_split(tmp_path, folder: str) -> None:
    (tmp_path / folder).mkdir()
    with pytest.raises(EnvmgrError) as caught:
        LMOD.build_spider_cache(tmp_path / folder, tmp_path / "spider")
    reason = f"{tmp_path / folder} must be absolute and without spaces, colons, backslashes and wildcards"
    assert caught.value.context == (reason,)
    assert not (tmp_path / "spider").exists()


def test_spider_cache_of_no_folder_is_an_error_and_not_an_empty_cache(tmp_path) -> None:
    with pytest.raises(EnvmgrError) as caught:
        LMOD.build_spider_cache(tmp_path / "none", tmp_path / "spider")
    assert caught.value.context == ("there is no such folder",)


def test_lmodrc_names_folder_and_timestamp() -> None:
    assert LMOD.lmodrc_text(Path('/odd"dir')) == (
        'scDescriptT = {\n  {\n    ["dir"] = "/odd\\"dir",\n    ["timestamp"] = "/odd\\"dir/timestamp",\n  },\n}\n'
    )


# --- the parser


def test_check_syntax_accepts_every_rendered_file(tmp_path) -> None:
    tree = make_tree(tmp_path, spec("app/1", op("set-default", "A", "1"), op("prepend", "MANPATH", "/m"), default=True))
    LMOD.check_syntax(sorted(tree.modules.rglob("*.lua")))
    LMOD.check_syntax([])


def test_check_syntax_names_file_line_and_reason_of_every_fault(tmp_path) -> None:
    deep = tmp_path / ("long-folder-name-" * 8)  # Lua itself cuts long names short
    deep.mkdir()
    texts = {"a.lua": 'help("fine")\n', "b.lua": 'help("x"\n\nwhatis("y")\n', "c.lua": "x = = 1\n", "d.lua": "\x1bLua"}
    for name, text in texts.items():
        (deep / name).write_text(text)
    with pytest.raises(EnvmgrError) as caught:
        LMOD.check_syntax([*(deep / name for name in texts), deep / "gone.lua"])
    assert caught.value.reference == "module-syntax"
    assert caught.value.message == "4 modulefiles are not valid Lua"
    assert caught.value.context == (
        f"{deep}/b.lua:3: ')' expected (to close '(' at line 1) near 'whatis'",
        f"{deep}/c.lua:1: unexpected symbol near '='",
        f"{deep}/d.lua: attempt to load a binary chunk (mode is 't')",
        f"{deep}/gone.lua: No such file or directory",
    )


def test_check_syntax_uses_the_lua_that_lmod_names(tmp_path) -> None:
    (tmp_path / "lmod").write_text("#!/nowhere/lua5.9 -x\n")
    broken = Lmod(tmp_path, tmp_path, Runner())
    with pytest.raises(EnvmgrError) as caught:
        broken.check_syntax([tmp_path / "a.lua"])
    assert caught.value.message == "cannot run `/nowhere/lua5.9`"


# --- the start of a smoke test


def prologue_run(tree, entry: str, script: str = "echo $LOADEDMODULES $MODULEPATH", lmod: Lmod = LMOD, **env: str):
    text = lmod.module_shell_prologue(tree.modules, tree.lmodrc, entry) + script
    return Runner().run(["bash", "-c", text], env=clean_env(**env), check=False)


def test_prologue_loads_the_entry_whatever_the_shell_had_before(tmp_path) -> None:
    tree = make_tree(tmp_path / "new", spec("app/1", depends=("lib/1",)), spec("lib/1"))
    other = make_tree(tmp_path / "old", spec("app/1"), spec("lib/9"))
    tree.cache()
    inherited = other.shell("module load lib/9; env -0")
    env = dict(
        i.partition("=")[::2] for i in inherited.stdout.split("\0") if i.startswith(("LMOD", "_", "MODULE", "LOADED"))
    )
    assert env["LOADEDMODULES"] == "lib/9"
    done = prologue_run(tree, "app/1", **env)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"lib/1:app/1 {tree.modules}\n", "")


@pytest.mark.parametrize("options", ["set -e", "set -u", "set -euo pipefail"])
def test_prologue_works_under_the_strictness_of_a_test(tmp_path, options: str) -> None:
    tree = make_tree(tmp_path, spec("app/1"))
    tree.cache()
    text = f"{options}\n{LMOD.module_shell_prologue(tree.modules, tree.lmodrc, 'app/1')}echo $APP_ROOT"
    done = Runner().run(["bash", "-c", text], check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "/store/app/1-01234567\n", "")


def test_prologue_ends_with_its_own_status_when_loading_fails(tmp_path) -> None:
    tree = make_tree(tmp_path, spec("app/1"))
    tree.cache()
    done = prologue_run(tree, "app/2")
    assert (done.returncode, done.stdout) == (LOAD_FAILED, "")
    assert done.stderr.splitlines()[-1] == f"envmgr: on {os.uname().nodename}: cannot load app/2"


def test_prologue_ends_with_its_own_status_when_lmod_or_the_modules_are_absent(tmp_path) -> None:
    tree = make_tree(tmp_path, spec("app/1"))
    tree.cache()
    node = os.uname().nodename
    absent = prologue_run(tree, "app/1", lmod=Lmod(Path("/no/lmod"), Path("/no/lmod/libexec"), Runner()))
    assert (absent.returncode, absent.stdout) == (LOAD_FAILED, "")
    assert absent.stderr == f"envmgr: on {node}: Lmod is not there: cannot read /no/lmod/init/bash\n"
    shutil.rmtree(tree.modules)
    unmounted = prologue_run(tree, "app/1")
    assert (unmounted.returncode, unmounted.stdout) == (LOAD_FAILED, "")
    assert unmounted.stderr == f"envmgr: on {node}: the modules are not there: no folder {tree.modules}\n"


def test_prologue_notices_an_lmod_that_does_nothing(tmp_path) -> None:
    tree = make_tree(tmp_path, spec("app/1"))
    tree.cache()
    (tmp_path / "lmod" / "init").mkdir(parents=True)
    (tmp_path / "lmod" / "init" / "bash").write_text("module() { eval ''; }\n")
    done = prologue_run(tree, "app/1", lmod=Lmod(tmp_path / "lmod", tmp_path / "lmod/libexec", Runner()))
    assert (done.returncode, done.stderr) == (
        LOAD_FAILED,
        f"envmgr: on {os.uname().nodename}: Lmod did not load app/1\n",
    )
