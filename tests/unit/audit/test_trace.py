"""Which line did it: what a traced shell prints, read back; real shells are in tests/cluster/audit/test_ambient.py."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from envmgr.audit.causes import _MOST_NODES, TraceQuestion, Traces, nodes_to_trace, read_traces, trace_part
from envmgr.audit.checks import ambient, contexts
from envmgr.probe.model import CONTEXTS, Fleet, Group
from envmgr.system.shelltext import script_text
from tests.helpers.evidence import evidence, wanted_lines
from tests.helpers.open_folders import open_to_all

SCRIPT = f"trace_names=x trace_pin=/p trace_profile=/q trace_end=:\n{script_text(ambient.__file__.replace('checks/ambient', 'causes'), 'sh')}"
LOGIN = next(c for c in CONTEXTS if c.name == "bash-login")


def place(tmp_path: Path, name: str, *lines: str) -> str:
    (tmp_path / "trace").write_text("".join(f"{line}\n" for line in lines))
    argv = [
        "/bin/sh",
        "-c",
        f'{SCRIPT}\ntrace_untouched() {{ case $1 in /as-shipped/*) ;; *) false ;; esac; }}\ntrace_place "$@"',
        "sh",
        name,
        str(tmp_path / "trace"),
    ]
    return subprocess.run(argv, capture_output=True, text=True, check=True).stdout.strip()


@pytest.mark.parametrize(
    ("lines", "found"),
    [
        (["+/etc/profile.d/a.sh:3<bash:0<:: export X=1"], "/etc/profile.d/a.sh:3"),
        (["+++/etc/a.sh:3</etc/profile:20<bash:0: X=1", "+/etc/a.sh:4<:: export X"], "/etc/a.sh:3"),
        (["+/a:1<:: X=1", "+/b:2<:: X=2", "+/c:3<:: XX=3", "+/c:4<:: echo X=4"], "/b:2"),
        (["+/a:1<:: declare -x X=1"], "/a:1"),
        (["+/a:1<:: alias 'X=echo yes'"], "/a:1"),
        (["+/usr/share/lmod/lmod/init/bash:84</etc/zzz.sh:2<bash:0: X=/opt"], "/etc/zzz.sh:2"),
        (["+/usr/share/lmod/lmod/init/bash:84<bash:0<:: X=/opt"], "/usr/share/lmod/lmod/init/bash:84"),
        (["+/etc/zsh/zshenv:7<: export X=1"], "/etc/zsh/zshenv:7"),
        (["+/a:1<:: export X", "+/b:2<:: export XX"], "/a:1"),
        (["+/a:1<:: declare -rx Y X"], "/a:1"),
        (["+/a:1<:: X=1", "+/as-shipped/b:2<:: X=2"], "/a:1"),
        (["+/as-shipped/a:1<:: X=1", "+/as-shipped/b:2<:: export X"], ""),
        (["+:1<:: X=1"], ""),
        (["+/a:1<:: X=1", "+/b:1e/tmp/evil<:: X=2"], ""),  # no line of bash's
        (["+/b:1e/tmp/evil</a:7<:: X=2"], "/a:7"),
        (["+/b<:: X=2"], ""),
        (["a line of a value: X=1", "+/a:1<:: Y=1"], ""),
    ],
)
def test_place_is_the_last_line_that_sets_it(tmp_path: Path, lines: list[str], found: str) -> None:
    assert place(tmp_path, "X", *lines) == found


@pytest.mark.parametrize(
    ("name", "lines", "found"),
    [
        (":ulimit", ["+/a:1<:: ulimit -v 5", "+/b:2<:: ulimited=1"], "/a:1"),
        (
            ":left",
            ["+/etc/profile:2<:: return", "+/home/a/.bashrc:8<:: return", "+/x.sh:1<:: return"],
            "/etc/profile:2",
        ),
        (":left", ["+/etc/profile.d/x.sh:2<:: return 0"], ""),
        ("IFS", ["+/a:1<:: IFS=:", "+/b:2<:: IFS=,", "+/b:2<:: read -r x"], "/a:1"),
    ],
)
def test_place_of_a_command_and_of_a_file_that_is_left(tmp_path: Path, name: str, lines: list[str], found: str) -> None:
    assert place(tmp_path, name, *lines) == found


def test_place_of_what_brings_a_part_into_a_list_is_the_first(tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    trace.write_text("+/a:1<:: P=/x\n+/b:2<:: P=/opt/m:/x\n+/c:3<:: P=/y:/opt/m:/x\n")
    argv = ["/bin/sh", "-c", f'{SCRIPT}\ntrace_place P "$1" /opt/m', "sh", str(trace)]
    assert subprocess.run(argv, capture_output=True, text=True, check=True).stdout.strip() == "/b:2"


CSH = script_text(ambient.__file__.replace("checks/ambient", "causes"), "csh.sh")


@pytest.mark.parametrize(
    ("text", "argv", "found"),
    [
        ("setenv X 1\nsource {sub}\n", ("X",), "{sub}:2"),
        ("source {sub}\nsetenv X 3\n", ("X",), "{own}:2"),
        ("setenv P /opt/m:/usr\nsetenv P ${{P}}:/y\n", ("P", "/opt/m"), "{own}:1"),
        ("# setenv X 1\nalias python echo\n", ("python",), "{own}:2"),
        ("set path = ( /usr/bin /bin )\n", ("PATH",), "{own}:1"),
        ("echo no\n", ("X",), ""),
    ],
)
def test_real_trace_of_csh_names_file_and_line(tmp_path: Path, text: str, argv: tuple[str, ...], found: str) -> None:
    sub, own = tmp_path / "sub.csh", tmp_path / ".cshrc"
    sub.write_text("# one\nsetenv X 2\n")
    own.write_text(text.format(sub=sub))
    traced = subprocess.run(
        ["csh", "-X", "-c", "true"],
        capture_output=True,
        text=True,
        check=False,
        env={"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"},
    )
    (tmp_path / "trace").write_text(traced.stdout + traced.stderr)
    script = (
        f'trace_home={tmp_path} trace_pin=/p/\n{CSH}\nname=$1 part=${{2-}}\ntrace_csh "$name" {tmp_path}/trace "$part"'
    )
    done = subprocess.run(["/bin/sh", "-c", script, "sh", *argv], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == found.format(sub=sub, own=own)


def test_real_trace_of_bash_names_the_caller_of_a_function(tmp_path: Path) -> None:
    library, user = tmp_path / "lmod/init", tmp_path / "zzz.sh"
    library.parent.mkdir()
    library.write_text('use() { eval "X=$1; export X"; }\n')
    user.write_text(f". {library}\n\nuse /opt\n")
    script = f'{SCRIPT}\nPS4=$trace_ps4 bash -xc ". {user}" 2>"$1"; trace_place X "$1"'
    argv = ["/bin/sh", "-c", script.replace("PS4=$trace_ps4", 'PS4="$trace_ps4"'), "sh", str(tmp_path / "t")]
    open_to_all(tmp_path)
    tmp_path.chmod(0o777)
    # As root bash takes no PS4 from the environment.
    said = subprocess.run(
        ["setpriv", "--reuid", "65534", "--clear-groups", *argv], capture_output=True, text=True, check=False
    )
    assert said.stdout.strip() == f"{user}:3", said.stderr


def traced(facts: Mapping[str, str]) -> Traces:
    return read_traces(Fleet((Group(facts, ("c1", "c2")),), {}, {}, ()))


def test_who_did_it_is_said_only_where_node_setup_came_before() -> None:
    key = "trace.bash-login.user."
    after = traced({f"{key}MODULEPATH": "/etc/zzz.sh:1", f"{key}:pinned": "yes", "trace.looked.prefix": "yes"})
    assert str(after.place(("c9", "c2"), LOGIN, "user", "MODULEPATH")) == "/etc/zzz.sh:1"
    assert str(after.culprit(("c2",), LOGIN, "user", "MODULEPATH")) == "/etc/zzz.sh:1"
    assert after.culprit(("c2",), LOGIN, "root", "MODULEPATH") is None
    assert traced({f"{key}MODULEPATH": "/etc/zzz.sh:1"}).culprit(("c1",), LOGIN, "user", "MODULEPATH") is None
    ours = traced({f"{key}MODULEPATH": "/etc/envmgr/node/pin:8", f"{key}:pinned": "yes"})
    assert ours.culprit(("c1",), LOGIN, "user", "MODULEPATH") is None


def test_healthy_nodes_are_not_traced_and_sick_ones_once_for_each_value() -> None:
    key = "ctx.bash-login.user."
    well = {
        f"{key}ambient.PATH": "/usr/bin",
        f"{key}modulepath": "/sw/generations/0001/modules",
        f"{key}lmod_rc": "/sw/generations/0001/lmodrc.lua",
    }
    asked = ((LOGIN, "user", "ssh"),)
    healthy = evidence({f"c{n}": well for n in range(1, 4)}, asked=asked)  # type: ignore[arg-type]
    assert [*wanted_lines(ambient, healthy), *wanted_lines(contexts, healthy)] == []
    bad = well | {f"{key}ambient.exported": "PYTHONPATH=/opt", f"{key}modulepath": "/opt/modules"}
    sick = evidence({f"c{n}": bad if n > 1 else well for n in range(1, 40)}, asked=asked)  # type: ignore[arg-type]
    questions = [*wanted_lines(ambient, sick), *wanted_lines(contexts, sick)]
    assert {question.node for question in questions} == {"c2"}
    assert ("PYTHONPATH",) in {question.names for question in questions}


def test_no_more_than_some_nodes_are_asked() -> None:
    questions = [TraceQuestion(f"c{n}", LOGIN, "user", ("X",)) for n in range(100)]
    assert nodes_to_trace(questions) == tuple(f"c{n}" for n in range(_MOST_NODES))
    text = trace_part(questions, {"user": "alice", "root": "root"}).texts["prefix"]
    assert text.count("\ntrace bash-login.user alice login\n") == 1
