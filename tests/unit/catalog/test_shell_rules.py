"""What no module may set: by a recipe, by an activation script of a package, by a module that EasyBuild made."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from envmgr.backends.conda.activate import capture_activation, find_steps
from envmgr.backends.easybuild.flat import read_shown, refuse_forbidden
from envmgr.catalog.recipe import load_recipe
from envmgr.catalog.shell_rules import fault_in_variable
from envmgr.errors import EnvmgrError, InputError
from envmgr.modules.capture import forbidden_changes
from envmgr.modules.capture_run import Shell
from envmgr.system.run import Runner
from tests.helpers.places import ROOT

LOADER = "LD_AUDIT LD_PRELOAD LD_LIBRARY_PATH LD_DEBUG LD_BIND_NOW LD_ORIGIN_PATH LD_PROFILE LD_SHOW_AUXV LD_HWCAP_MASK"
LIBC = "GCONV_PATH GETCONF_DIR GLIBC_TUNABLES LOCPATH MALLOC_TRACE NIS_PATH HOSTALIASES LOCALDOMAIN RES_OPTIONS RESOLV_HOST_CONF"
LMOD = "MODULEPATH MODULEPATH_ROOT MODULESHOME MODULERCFILE MODULES_CMD LMOD_RC LMOD_CMD LMOD_PACKAGE_PATH __LMOD_REF_COUNT_PATH _LMFILES_ _ModuleTable001_ LOADEDMODULES LUA_INIT LUA_INIT_5_4 LUA_PATH LUA_CPATH_5_3 ENVMGR_PIN"
SHELLS = "BASH_ENV ENV BASHOPTS BASH_XTRACEFD SHELLOPTS PROMPT_COMMAND PS0 PS1 PS2 PS4 IFS CDPATH FPATH ZDOTDIR INPUTRC GLOBIGNORE POSIXLY_CORRECT LESSOPEN"
PYTHON = "PYTHONHOME PYTHONPATH PYTHONSTARTUP PYTHONUSERBASE PYTHONINSPECT PYTHONBREAKPOINT PYTHONWARNINGS PYTHONPLATLIBDIR PYTHONPYCACHEPREFIX"
OTHERS = "PERL5OPT PERL5DB RUBYOPT NODE_OPTIONS JAVA_TOOL_OPTIONS _JAVA_OPTIONS TAR_OPTIONS GIT_SSH_COMMAND GIT_EXEC_PATH GIT_CONFIG_GLOBAL GIT_DIR SSH_ASKPASS"
USER = "HOME USER LOGNAME SHELL TMPDIR"
REACHES = f"{LOADER} {LIBC} {LMOD} {SHELLS} {PYTHON} {OTHERS}".split()
FORBIDDEN = [*REACHES, *USER.split()]
# Some of these are set by packages of the shipped locks, or by EasyBuild's modules; others begin or end as forbidden ones.
ALLOWED = (
    "GDAL_DATA SSL_CERT_FILE CMAKE_ARGS CC LDFLAGS LD LD_GOLD LD_RUN_PATH JAVA_HOME JAVA_LD_LIBRARY_PATH R_LIBS PERL5LIB NLSPATH "
    "LIBRARY_PATH PYTHONNOUSERSITE PYTHON PYTHON_ROOT HOST HOMEBREW USERNAME MYLD_PRELOAD ld_preload EBPYTHONPREFIXES GIT_SSL_CAINFO"
).split()


@pytest.mark.parametrize("name", FORBIDDEN)
def test_no_recipe_may_set_it(tmp_path: Path, name: str) -> None:
    path = tmp_path / "catalog/x/1/recipe.yaml"
    path.parent.mkdir(parents=True)
    for way in ("set", "set_default", "prepend", "append"):
        value = "x" if way.startswith("set") else ["x"]
        path.write_text(yaml.safe_dump({"backend": "b", "input": {}, "environment": {way: {name: value}}}))
        with pytest.raises(InputError) as caught:
            load_recipe(path)
        assert f"environment: {name} must not be set by a module: it" in caught.value.context[0]


def test_no_recipe_may_take_the_user_s_path_away(tmp_path: Path) -> None:
    path = tmp_path / "recipe.yaml"
    for way in ("set", "set_default"):
        path.write_text(yaml.safe_dump({"backend": "b", "input": {}, "environment": {way: {"PATH": "/x"}}}))
        with pytest.raises(InputError) as caught:
            load_recipe(path)
        assert "PATH must not be set by a module: the user's own would be gone; `prepend` adds to it" in str(
            caught.value
        )
    path.write_text(yaml.safe_dump({"backend": "b", "input": {}, "environment": {"prepend": {"PATH": ["/x"]}}}))
    assert load_recipe(path).environment.prepend == {"PATH": ("/x",)}


def activation(prefix: Path, text: str) -> Path:
    script = prefix / "etc/conda/activate.d/evil.sh"
    script.parent.mkdir(parents=True, exist_ok=True)
    script.write_text(text)
    return prefix


def test_no_activation_script_may_set_any_of_them(tmp_path: Path) -> None:
    """All in one run, but for one by which `env` prints more than variables: it is refused below."""
    by_bash = {"BASHOPTS", "SHELLOPTS"}  # bash itself fills them: a script can only hand them on
    rows = [f'export {name}="/evil"' for name in FORBIDDEN if name not in {*by_bash, "LD_SHOW_AUXV"}]
    prefix = activation(tmp_path / "prefix", "\n".join([*rows, f"export {' '.join(by_bash)} SOUND=1"]))
    (tmp_path / "run").mkdir()
    steps = find_steps(prefix, tmp_path)
    trace = Shell(steps, Runner(), 600, tmp_path / "run", lambda _: None, "", "").trace("plain", {})
    assert {*FORBIDDEN} - {*forbidden_changes(trace)} == {"LD_SHOW_AUXV"}
    assert "SOUND" not in forbidden_changes(trace)


@pytest.mark.parametrize("name", ["LD_AUDIT", "BASH_ENV", "HOME", "LD_SHOW_AUXV"])
def test_an_activation_script_that_does_is_refused(tmp_path: Path, name: str) -> None:
    prefix = activation(tmp_path, f'export SOUND=1 {name}="/evil"')
    with pytest.raises(EnvmgrError) as caught:
        capture_activation(prefix, Runner())
    assert caught.value.head == f"error[activation-forbidden]: etc/conda/activate.d/evil.sh changes {name}"


def test_no_file_of_variables_may_set_it_either(tmp_path: Path) -> None:
    place = tmp_path / "etc/conda/env_vars.d/evil.json"
    place.parent.mkdir(parents=True)
    place.write_text('{"MODULEPATH": "/evil"}')
    with pytest.raises(EnvmgrError) as caught:
        capture_activation(tmp_path, Runner())
    assert caught.value.head == "error[activation-forbidden]: etc/conda/env_vars.d/evil.json changes MODULEPATH"


def test_what_a_script_uses_for_itself_is_not_refused(tmp_path: Path) -> None:
    text = "IFS=:; for x in a:b; do :; done; unset IFS\nexport SOUND=1\n"
    assert [op.name for op in capture_activation(activation(tmp_path, text), Runner())] == ["SOUND"]


@pytest.mark.parametrize("name", FORBIDDEN)
def test_no_module_of_easybuild_may_set_it(tmp_path: Path, name: str) -> None:
    for statement in (f'setenv("{name}","/evil")', f'prepend_path("{name}","/evil")', f'unsetenv("{name}")'):
        with pytest.raises(EnvmgrError) as caught:
            refuse_forbidden(read_shown(("toy/1.0", f'setenv("SOUND","1")\n{statement}\n')), tmp_path)
        assert caught.value.head == f"error[module-forbidden]: EasyBuild's module toy/1.0 changes {name}"


def test_easybuild_s_software_finds_its_own_libraries(tmp_path: Path) -> None:
    """Where it is linked without RPATH, and for Python's packages; by folders of the store, added to a list, alone."""
    for name in ("LD_LIBRARY_PATH", "PYTHONPATH"):
        sound = f'prepend_path("{name}","{tmp_path}/toy/1.0/lib:{tmp_path}/toy/1.0/lib64")\nsetenv("PATH_OF","x")\n'
        refuse_forbidden(read_shown(("toy/1.0", sound)), tmp_path)
        for wrong in (
            f'prepend_path("{name}","/evil")',
            f'prepend_path("{name}","{tmp_path}/../evil")',
            f'prepend_path("{name}","")',
            f'append_path("{name}","{tmp_path}/toy:/evil")',
            f'setenv("{name}","{tmp_path}/toy")',
        ):
            with pytest.raises(EnvmgrError):
                refuse_forbidden(read_shown(("toy/1.0", wrong + "\n")), tmp_path)


def test_easybuild_s_module_may_not_take_path_away(tmp_path: Path) -> None:
    refuse_forbidden(read_shown(("toy/1.0", 'prepend_path("PATH","/p/bin")\n')), tmp_path)
    with pytest.raises(EnvmgrError) as caught:
        refuse_forbidden(read_shown(("toy/1.0", 'setenv("PATH","/p/bin")\n')), tmp_path)
    assert caught.value.render() == (
        "error[module-forbidden]: EasyBuild's module toy/1.0 changes PATH\n  set /p/bin\n\n"
        "hint: no module may do so: the user's own would be gone; `prepend` adds to it; leave it out of the easyconfig"
    )


@pytest.mark.parametrize("name", ALLOWED)
def test_what_packages_set_for_themselves_stays_allowed(name: str) -> None:
    assert fault_in_variable(name, as_list=False) == ""


def test_the_manual_names_what_is_refused() -> None:
    text = (ROOT / "docs/recipe.md").read_text()
    table = text.partition("| refused | why |\n")[2].partition("\n\n")[0]
    names = {name for row in table.splitlines()[1:] for name in re.findall(r"`(\w+\*?)`", row.split("|")[1])}
    names -= {"LD_GOLD", "LD_RUN_PATH", "PATH", "set", "set_default"}
    assert len(names) > 60
    assert [n for n in sorted(names) if not fault_in_variable(n.replace("*", "X"), as_list=True)] == []
    stems = tuple(name.rstrip("*") for name in names if name.endswith("*"))
    told = [*(n for n in FORBIDDEN if n in names or n.startswith(stems)), "PS1", "PS2"]  # of `PS0` to `PS4`
    assert [n for n in FORBIDDEN if n not in told] == []
