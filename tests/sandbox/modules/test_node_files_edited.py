"""Files of node-setup that somebody edited, cut or converted: a login still ends, and starts no more processes than before.

Every shell runs on a copy of this machine's /etc, in a pid namespace that ends when one of them starts too many.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from envmgr.system.files import remove_tree, shipped
from tests.helpers.node_scene import SHELLS, Scene
from tests.helpers.waiting import DEADLINE, HANGS

BOUNDED = Path(__file__).parents[2] / "helpers/bounded.sh"
MOST = 250
"""Processes of one login; a good one starts some forty."""

HOME = "/etc/envmgr/node"
READ = [
    f"{HOME}/settings",
    f"{HOME}/pin",
    f"{HOME}/lmod/bin/module",
    f"{HOME}/task-prolog",
    "/etc/profile.d/zz-envmgr.sh",
    "/etc/profile.d/zz-envmgr.csh",
    "/etc/fish/conf.d/zz-envmgr.fish",
]
HOOK = [f"{HOME}/lmod/{name}.lua" for name in ("SitePackage", "prepend", "collections", "newer", "restore", "closure")]
BLOCKS = ["/etc/bash.bashrc", "/etc/zsh/zshenv", "/etc/csh.cshrc"]


def first_line_gone(text: str) -> str:
    return text.partition("\n")[2]


def last_line_cut(text: str) -> str:
    return text.removesuffix("\n")[:-1]


def crlf(text: str) -> str:
    return text.replace("\n", "\r\n")


def emptied(_: str) -> str:
    return ""


EDITS = (first_line_gone, last_line_cut, crlf)


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    """A machine like Debian, whatever it is really."""
    made = Scene(tmp_path)
    made.generation(1)
    for folder in ("zsh", "fish/conf.d"):
        (made.etc / folder).mkdir(parents=True, exist_ok=True)
    for name in ("bashrc", "zshenv"):
        (made.etc / name).unlink(missing_ok=True)
    for name in BLOCKS:
        (made.folder / name[1:]).write_text(f"# {name}\n")
    made.do("apply")
    yield made
    remove_tree(tmp_path / "sw")


def on_node(scene: Scene, path: str) -> Path:
    return scene.folder / path[1:]


def logins(scene: Scene, lines: list[str]) -> list[list[str]]:
    """(label, status or `storm` or `hung`, last line of stdout) of each."""
    script = scene.folder / "logins"
    script.write_text("\n".join(lines) + "\n")
    argv = ["unshare", "--pid", "--fork", "--mount-proc", "sh", BOUNDED, str(MOST), str(int(DEADLINE)), script]
    done = scene.run(*map(str, argv), timeout=HANGS)
    return [line.split("\t") for line in done.stdout.splitlines()]


def every_shell(script: str = "echo on", shells: tuple[str, ...] = tuple(SHELLS)) -> list[str]:
    return [f"{name.replace(' ', '-')} {shlex.join([*SHELLS[name], script])}" for name in shells]


def after(command: str, label: str, lines: list[str]) -> list[str]:
    """Each login with a command before it."""
    return [f"{label}-{name} {command}; {login}" for name, login in (line.split(" ", 1) for line in lines)]


def works(scene: Scene, lines: list[str]) -> None:
    found = logins(scene, lines)
    assert found == [[line.split(" ", 1)[0], "0", "on"] for line in lines]


PLAIN = ("bash by ssh", "dash login", "zsh", "tcsh")
"""One of each kind of shell."""
QUIET = "module -q --version >& /dev/null; echo on"
"""As bash, zsh and csh understand it: Lmod reads the hook."""
MODES = (0, 0o600, 0o644, 0o777)


@pytest.mark.parametrize("path", [*READ, *HOOK, *BLOCKS])
def test_login_works_and_ends_with_a_file_that_was_edited(scene: Scene, path: str) -> None:
    text = on_node(scene, path).read_text()
    shells = tuple(SHELLS) if path.endswith(("pin", "csh", "zz-envmgr.sh", "fish")) else PLAIN
    lines = []
    for edit in EDITS:
        (scene.folder / f"run/{edit.__name__}").write_text(edit(text), newline="")
        lines += after(f"cat /run/{edit.__name__} >{path}", edit.__name__, every_shell(shells=shells))
    lines += after(f"cat /run/{EDITS[0].__name__} >{path}", "again", every_shell(shells=("tcsh",)))
    for mode in MODES if path in READ else ():
        lines += after(f"chmod {mode:o} {path}", f"{mode:o}", every_shell(shells=("dash login", "tcsh")))
    works(scene, lines)


@pytest.mark.parametrize(
    ("path", "shells", "script"),
    [
        *((path, PLAIN, "echo on") for path in (f"{HOME}/settings", *BLOCKS)),
        *((path, ("dash login",), "echo on") for path in (f"{HOME}/signed.sh", f"{HOME}/pin")),
        ("/etc/profile.d/zz-envmgr.sh", ("bash login", "dash login", "zsh"), "echo on"),
        ("/etc/profile.d/zz-envmgr.csh", ("tcsh", "csh"), "echo on"),
        *((path, ("zsh",), QUIET) for path in HOOK[:2]),
    ],
)
def test_login_works_with_a_file_that_was_cut_after_any_line(
    scene: Scene, path: str, shells: tuple[str, ...], script: str
) -> None:
    if path.endswith("signed.sh"):
        on_node(scene, path).write_bytes((shipped("nodesetup") / "signed.sh").read_bytes())
        settings = on_node(scene, f"{HOME}/settings")
        settings.write_text(f"{settings.read_text()}signed=refuse\n")
    text = on_node(scene, path).read_text().splitlines(keepends=True)
    lines = []
    for number, line in enumerate(text):
        if line.startswith(" ") and len(text) > 200 and number % 8:  # inside of a function every cut is one error
            continue
        (scene.folder / f"run/{number}").write_text("".join(text[:number]))
        lines += after(f"cat /run/{number} >{path}", str(number), every_shell(script, shells))
    works(scene, lines)


def near_loops(text: list[str]) -> Iterator[int]:
    """Lines of loops, with the three before: without one of them a loop may never end."""
    begins = [n for n, line in enumerate(text) if line.lstrip().startswith(("while ", "for ")) or "|| while " in line]
    for begin in begins:
        end = next(n for n in range(begin, len(text)) if "done" in text[n].replace(";", " ").split())
        yield from range(begin - 3, end + 1)


@pytest.mark.parametrize("name", ["pin", "signed.sh"])
def test_login_works_and_ends_without_a_line_of_a_loop(scene: Scene, name: str) -> None:
    path = on_node(scene, f"{HOME}/{name}")
    path.write_bytes((shipped("nodesetup") / name).read_bytes())
    if name == "signed.sh":
        settings = on_node(scene, f"{HOME}/settings")
        settings.write_text(f"{settings.read_text()}signed=refuse\n")
    text = path.read_text().splitlines(keepends=True)
    lines = []
    for number in sorted(set(near_loops(text))):
        (scene.folder / f"run/{number}").write_text("".join([*text[:number], *text[number + 1 :]]))
        lines += after(f"cat /run/{number} >{HOME}/{name}", str(number), every_shell(shells=("dash login",)))
    assert lines
    works(scene, lines)


@pytest.mark.parametrize("shell", ["bash login", "dash login", "zsh", "tcsh", "fish"])
def test_pin_that_never_ends_is_stopped_and_the_login_says_so_in_one_line(scene: Scene, shell: str) -> None:
    pin = on_node(scene, f"{HOME}/pin")
    text = pin.read_text()
    assert text.count("        *) break ;;\n") == 3
    pin.write_text(text.replace("        *) break ;;\n", ""))
    done = scene.run(*SHELLS[shell], "echo on")
    assert (done.returncode, done.stdout) == (0, "on\n")
    assert done.stderr == (
        f"envmgr: {HOME}/pin is damaged, and was stopped: modules may be missing. "
        "Tell the administrators: `envmgr node-setup --apply` fixes it.\n"
    )


def test_task_whose_pin_never_ends_starts(scene: Scene) -> None:
    pin = on_node(scene, f"{HOME}/pin")
    pin.write_text(pin.read_text().replace("        *) break ;;\n", ""))
    assert scene.run(f"{HOME}/task-prolog").returncode == 0


READERS = {"sh": ".", "bash": ".", "zsh": ".", "csh": "source", "tcsh": "source"}
"""Shell -> its word for reading a file."""


@pytest.mark.parametrize("edit", [emptied, first_line_gone, last_line_cut])
def test_pin_that_was_edited_starts_no_storm_whoever_reads_it(scene: Scene, edit: Callable[[str], str]) -> None:
    """At a login; where a shell reads it, or starts it as a program: it does what it can, and ends."""
    pin = on_node(scene, f"{HOME}/pin")
    pin.write_text(edit(pin.read_text()))
    pin.chmod(0o755)
    works(scene, every_shell())
    lines = [f"{name}-reads {shlex.join([name, '-c', f'{word} {HOME}/pin'])}" for name, word in READERS.items()]
    lines += [
        f"{name}-starts {shlex.join([name, '-c', f'{HOME}/pin {dialect}'])}"
        for name in READERS
        for dialect in ("sh", "csh")
    ]
    found = logins(scene, lines)
    assert [row[0] for row in found] == [line.split(" ", 1)[0] for line in lines]
    assert {row[1] for row in found}.isdisjoint({"storm", "hung"}), found


def test_modules_load_whatever_the_first_line_of_pin(scene: Scene) -> None:
    """Who starts it says which shell reads it."""
    pin = on_node(scene, f"{HOME}/pin")
    pin.write_text(first_line_gone(pin.read_text()))
    pin.chmod(0o644)
    script = "module load hello; echo $HELLO"
    labels = [name.replace(" ", "-") for name in SHELLS]
    assert logins(scene, every_shell(script)) == [[label, "0", "1"] for label in labels]


def test_a_site_s_start_up_file_that_calls_module_does_not_start_itself(scene: Scene) -> None:
    """Without Lmod `module` is the program, and without a first line a csh reads it: with its start-up files."""
    program = on_node(scene, f"{HOME}/lmod/bin/module")
    program.write_text(first_line_gone(program.read_text()))
    settings = on_node(scene, f"{HOME}/settings")
    settings.write_text(f"{settings.read_text()}lmod_usual=/nowhere\n")
    (scene.etc / "csh.cshrc").write_text(f"{(scene.etc / 'csh.cshrc').read_text()}module load hello\n")
    ((_, status, _),) = logins(scene, every_shell(shells=("tcsh",)))
    assert status not in ("storm", "hung")


def test_two_programs_of_ours_do_not_call_each_other_for_ever(scene: Scene) -> None:
    (scene.folder / "run/bin").mkdir()
    copy = scene.folder / "run/bin/module"
    copy.write_bytes(on_node(scene, f"{HOME}/lmod/bin/module").read_bytes())
    copy.chmod(0o755)
    done = logins(scene, [f"both PATH=/usr/bin:/bin:{HOME}/lmod/bin:/run/bin {HOME}/lmod/bin/module load hello"])
    assert done == [["both", "127", ""]]


def test_a_task_starts_whatever_pin_is(scene: Scene) -> None:
    """slurmd ends a task where TaskProlog fails."""
    for text in ("", "exit 3\n", "if\n", "\0", "kill $$\n"):
        on_node(scene, f"{HOME}/pin").write_text(text)
        assert scene.run(f"{HOME}/task-prolog").returncode == 0, text


def test_without_the_file_that_reads_the_check_a_site_that_refuses_gives_no_modules(scene: Scene) -> None:
    settings = on_node(scene, f"{HOME}/settings")
    settings.write_text(f"{settings.read_text()}signed=refuse\n")
    for text in (None, "", "LATE=1200\n"):
        if text is not None:
            on_node(scene, f"{HOME}/signed.sh").write_text(text)
        assert scene.said("dash", "-lc", "echo ${ENVMGR_PIN-none}") == ["none"]
