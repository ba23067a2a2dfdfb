"""`envmgr shell-init` in real shells: which generation a shell gets, and that it keeps it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.helpers.lmod_shell import LMOD, avail_lines, on_stdout, with_packages
from tests.helpers.sandbox import Sandbox
from tests.helpers.waiting import DEADLINE

SHELLS = ("bash", "zsh", "sh", "tcsh")


@pytest.fixture
def prefix(sandbox: Sandbox) -> Path:
    """Two generations with one module each; 2 is current."""
    for number in (1, 2):
        folder = sandbox.prefix / "generations" / f"000{number}"
        (folder / "modules" / "app").mkdir(parents=True)
        (folder / "modules" / "app" / "1.lua").write_text(f'setenv("APP", "{number}")\n')
        LMOD.build_spider_cache(folder / "modules", folder / "spider")
        (folder / "lmodrc.lua").write_text(LMOD.lmodrc_text(folder / "spider"))
    (sandbox.prefix / "current").symlink_to("generations/0002")
    return sandbox.prefix


def run(sandbox: Sandbox, shell: str, script: str, *, before: str = "", **env: str) -> list[str]:
    """What `script` prints after `before` and the lines of shell-init; nothing may go to stderr."""
    lines = sandbox.ok("shell-init", shell).stdout
    file = sandbox.root / "script"
    file.write_text(f"{before}\n{lines}{script}\n")
    options = {"bash": ["--noprofile", "--norc"], "zsh": ["-f"], "tcsh": ["-f"]}.get(shell, [])
    environ = {"PATH": "/usr/bin:/bin", "HOME": str(sandbox.root), **env}
    done = subprocess.run(
        [shell, *options, file], env=environ, capture_output=True, text=True, check=False, timeout=DEADLINE
    )
    assert done.stderr == ""
    return done.stdout.splitlines()


@pytest.mark.parametrize("shell", SHELLS)
def test_new_shell_gets_the_current_generation(sandbox: Sandbox, prefix: Path, shell: str) -> None:
    script = 'module load app; echo "$APP"; echo "$ENVMGR_PIN"; echo "$LMOD_RC"; echo "$LMOD_CACHED_LOADS"'
    pin = prefix / "generations/0002"
    assert run(sandbox, shell, script) == ["2", str(pin), f"{pin}/lmodrc.lua", "yes"]


@pytest.mark.parametrize("shell", SHELLS)
def test_generation_and_cache_of_another_prefix_stay_behind_this_one(
    sandbox: Sandbox, prefix: Path, shell: str
) -> None:
    pin, other = prefix / "generations/0002", "/other/generations/0007"
    env = {"MODULEPATH": f"{other}/modules", "LMOD_RC": f"{other}/lmodrc.lua"}
    said = run(sandbox, shell, 'echo "$MODULEPATH"; echo "$LMOD_RC"', **env)
    assert said == [f"{pin}/modules:{other}/modules", f"{pin}/lmodrc.lua:{other}/lmodrc.lua"]


@pytest.mark.parametrize("shell", SHELLS)
def test_avail_shows_entries_and_headings_and_spider_finds_the_packages(
    sandbox: Sandbox, prefix: Path, shell: str
) -> None:
    folder = prefix / "generations/0002"
    with_packages(folder / "modules/app/1.lua")
    LMOD.build_spider_cache(folder / "modules", folder / "spider")
    lines = run(sandbox, shell, on_stdout(shell, "avail"))
    assert avail_lines(lines) == [f"{folder}/modules", "app/1"]
    found = run(sandbox, shell, on_stdout(shell, "spider numpy"))
    assert "numpy/1.26.4 (E)" in "".join(found)


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("value", ["yes", ""])
def test_own_word_on_avail_stays(sandbox: Sandbox, prefix: Path, shell: str, value: str) -> None:
    assert prefix.is_dir()
    before = f"setenv LMOD_AVAIL_EXTENSIONS '{value}'" if shell == "tcsh" else f"export LMOD_AVAIL_EXTENSIONS='{value}'"
    assert run(sandbox, shell, 'echo "[$LMOD_AVAIL_EXTENSIONS]"', before=before) == [f"[{value}]"]
    assert run(sandbox, shell, 'echo "[$LMOD_AVAIL_EXTENSIONS]"', LMOD_AVAIL_EXTENSIONS=value) == [f"[{value}]"]


@pytest.mark.parametrize("shell", ["zsh", "tcsh"])  # one text for bash, zsh and sh; another for csh
@pytest.mark.parametrize(
    ("pin", "expected"),
    [
        ("{prefix}/generations/0001", "1"),
        ("{prefix}/generations/0099", "2"),
        ("/another/prefix/generations/0001", "2"),
        ("", "2"),
    ],
    ids=["kept while its generation is there", "gone", "of another prefix", "empty"],
)
def test_inherited_pin(sandbox: Sandbox, prefix: Path, shell: str, pin: str, expected: str) -> None:
    environ = {"ENVMGR_PIN": pin.format(prefix=prefix)}
    assert run(sandbox, shell, 'module load app; echo "$APP"', **environ) == [expected]


@pytest.mark.parametrize("shell", SHELLS)
def test_own_folders_of_jupyter_stay_and_none_is_run(sandbox: Sandbox, prefix: Path, shell: str) -> None:
    own = f"/a `touch {sandbox.root}/ran`:/it's \\n $HOME"
    given = f"{own}:{prefix}/current:{prefix}/generations/0001"
    lines = run(
        sandbox, shell, "printenv JUPYTER_PATH; printenv LMOD_PACKAGE_PATH", JUPYTER_PATH=given, LMOD_PACKAGE_PATH=own
    )
    assert lines[0] == f"{own}:{prefix}/generations/0002"
    assert lines[1].startswith(f"{own}:")
    assert not (sandbox.root / "ran").exists()


@pytest.mark.parametrize("shell", SHELLS)
def test_open_shell_keeps_its_generation_after_a_publish(sandbox: Sandbox, prefix: Path, shell: str) -> None:
    flip = f"rm {prefix}/current; ln -s generations/0001 {prefix}/current"
    script = f'{flip}; module load app; echo "$APP"; module unload app; module load app; echo "$APP"'
    assert run(sandbox, shell, script) == ["2", "2"]


@pytest.mark.parametrize("shell", SHELLS)
def test_lines_read_twice_put_the_modules_on_the_path_once(sandbox: Sandbox, prefix: Path, shell: str) -> None:
    once = sandbox.ok("shell-init", shell).stdout
    assert (
        run(sandbox, shell, 'echo "$MODULEPATH"', before=once)[0].split(":").count(f"{prefix}/generations/0002/modules")
        == 1
    )


@pytest.mark.parametrize("shell", SHELLS)
def test_shell_without_a_published_generation_is_left_alone(sandbox: Sandbox, shell: str) -> None:
    assert run(sandbox, shell, "env | grep -c -e ENVMGR -e LMOD_RC") == ["0"]


def test_prefix_that_is_a_link_is_pinned_under_its_own_name(sandbox: Sandbox, prefix: Path) -> None:
    """The module cache names that path: a resolved one would not be found in it."""
    real = prefix.rename(prefix.with_name("real"))
    prefix.symlink_to(real)
    assert run(sandbox, "bash", 'echo "$ENVMGR_PIN"') == [f"{prefix}/generations/0002"]


def test_unknown_shell_names_the_known_ones(sandbox: Sandbox) -> None:
    done = sandbox.run("shell-init", "ksh")
    assert (done.code, done.stdout) == (2, "")
    assert done.stderr == (
        "error[unknown-shell]: no lines for the shell `ksh`\n\nhint: known: bash, zsh, sh, csh, tcsh, fish\n"
    )


def test_shell_that_stops_at_errors_survives_a_prefix_without_a_generation(sandbox: Sandbox) -> None:
    text = sandbox.ok("shell-init", "sh").stdout
    for shell in ("bash", "dash"):
        done = subprocess.run(
            [shell],
            input=f"set -eu\n{text}\necho on\n",
            env={"PATH": "/usr/bin:/bin"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode, done.stdout, done.stderr) == (0, "on\n", "")


def test_inherited_path_of_another_generation_goes(sandbox: Sandbox) -> None:
    sandbox.recipe("hello/1.0", ["hello-prefix"])
    sandbox.ok("lock", "hello/1.0")
    sandbox.ok("build", "hello/1.0")
    gone = f"{sandbox.prefix}/generations/0999/modules"
    own = str(sandbox.root / "own")
    (sandbox.root / "own").mkdir()
    for shell in ("bash", "sh", "zsh"):
        done = subprocess.run(
            [shell],
            input=sandbox.ok("shell-init", shell).stdout + "echo $MODULEPATH\n",
            env={"PATH": "/usr/bin:/bin", "HOME": str(sandbox.root), "MODULEPATH": f"{gone}:{own}"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.stdout == f"{sandbox.prefix}/generations/0001/modules:{own}\n", (shell, done.stderr)


def test_lines_for_sh_give_bash_a_module_command_that_its_children_have(sandbox: Sandbox) -> None:
    sandbox.recipe("hello/1.0", ["hello-prefix"])
    sandbox.ok("lock", "hello/1.0")
    sandbox.ok("build", "hello/1.0")
    done = subprocess.run(
        ["bash", "--norc"],
        input=sandbox.ok("shell-init", "sh").stdout + "bash --norc -c 'module load hello && echo $LOADEDMODULES'\n",
        env={"PATH": "/usr/bin:/bin", "HOME": str(sandbox.root)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "hello/1.0\n", done.stderr


@pytest.mark.parametrize("shell", SHELLS)
def test_candidate_for_who_asks_for_it_and_back(sandbox: Sandbox, prefix: Path, shell: str) -> None:
    (prefix / "current").unlink()
    (prefix / "current").symlink_to("generations/0001")
    (prefix / "candidate").symlink_to("generations/0002")
    assert run(sandbox, shell, "echo $ENVMGR_PIN $ENVMGR_CANDIDATE", ENVMGR_USE="candidate") == [
        f"{prefix}/generations/0002 0002"
    ]
    mine = {"ENVMGR_PIN": f"{prefix}/generations/0002", "ENVMGR_CANDIDATE": "0002"}
    assert run(sandbox, shell, "echo $ENVMGR_PIN", **mine) == [f"{prefix}/generations/0001"]
    (prefix / "candidate").unlink()
    kept = run(sandbox, shell, "echo $ENVMGR_PIN", ENVMGR_USE="candidate", **mine)
    assert kept == [f"{prefix}/generations/0002"]
    assert run(sandbox, shell, "echo $ENVMGR_PIN", ENVMGR_USE="candidate") == [f"{prefix}/generations/0001"]
