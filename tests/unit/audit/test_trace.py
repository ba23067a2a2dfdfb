"""Which line did it: what a traced shell prints, read back; real shells are in tests/cluster/audit/test_ambient.py."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from envmgr.audit.causes import _MOST_NODES, TraceQuestion, Traces, nodes_to_trace, read_traces, trace_part
from envmgr.audit.checks import all_checks, ambient, contexts, limits, shell_state
from envmgr.audit.hints import Action, Hint, hint_of
from envmgr.audit.judge import judge
from envmgr.audit.second_look import traced_shell_text
from envmgr.audit.table import Steps
from envmgr.probe.model import CONTEXTS, Fleet, Group
from envmgr.system.shelltext import script_text
from tests.helpers.evidence import evidence, found, told, wanted_lines
from tests.helpers.open_folders import open_to_all

SCRIPT = f"trace_names=x trace_pin=/p trace_profile=/q trace_end=:\n{script_text(ambient.__file__.replace('checks/ambient', 'causes'), 'sh')}"
LOGIN = next(c for c in CONTEXTS if c.name == "bash-login")


def place(tmp_path: Path, name: str, *lines: str) -> str:
    (tmp_path / "trace").write_text("".join(f"{line}\n" for line in lines))
    argv = [
        "/bin/sh",
        "-c",
        f'trace_home=/home/a; {SCRIPT}\ntrace_untouched() {{ case $1 in /as-shipped/*) ;; *) false ;; esac; }}\ntrace_place "$@"',
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
        (["+/a:1<:: X=1", "+/b:2<:: X+=:/opt"], "/b:2"),
        (["+/a:1<:: export X=1", "+/b:2<:: unset XX", "+/c:3<:: unset -v Y X"], "/c:3"),
        (["+/a:1<:: X=1", "+/b:2<:: unset -f X", "+/c:3<:: unset X=1"], "/b:2"),
        (["+/a:1<:: alias X=y", "+/b:2<:: unalias X"], "/b:2"),
        (["+/a:1<:: X=1", "+/b:2<:: export -n X"], "/b:2"),
        # others share a vendor's file: the line that reads it, or calls its function
        (
            ["+/home/a/.bashrc:7<:: . /opt/v/setvars.sh --all", "+/opt/v/setvars.sh:9<bash:0<:: X=1"],
            "/home/a/.bashrc:7",
        ),
        (["+/opt/v/f.sh:3</opt/v/setvars.sh:8</etc/profile.d/v.sh:2: X=1"], "/etc/profile.d/v.sh:2"),
        (
            [
                "+/home/a/.zshrc:1<: source /opt/v/all.sh",
                "+/opt/v/all.sh:4<: . /opt/v/one.sh",
                "+/opt/v/one.sh:2<: export X=1",
            ],
            "/home/a/.zshrc:1",
        ),
        (["+/home/a/.bashrc:7<:: . /home/a/env.sh", "+/home/a/env.sh:9<bash:0<:: X=1"], "/home/a/env.sh:9"),
        (["+/etc/bash.bashrc:7<:: . /etc/x.sh", "+/etc/x.sh:9<bash:0<:: X=1"], "/etc/x.sh:9"),
        (["+/opt/v/setvars.sh:9<bash:0<:: X=1"], "/opt/v/setvars.sh:9"),
        # a file that BASH_ENV names is read once more, by no file
        (
            [
                "+/etc/x.sh:2<:: . /opt/v/i",
                "+/opt/v/i:7</etc/x.sh:2<:: X=1",
                "+:5<:: . /opt/v/i",
                "+/opt/v/i:7<:5<:: X=1",
            ],
            "/etc/x.sh:2",
        ),
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
        (":ulimit-v", ["+/a:1<:: ulimit -v 5", "+/b:2<:: ulimit -c 0", "+/c:3<:: ulimit -v"], "/a:1"),
        (":ulimit-v", ["+/a:1<:: ulimit -c 0 -Sv 5"], "/a:1"),
        (":set-errexit", ["+/a:1<:: set -eu", "+/b:2<:: set -f", "+/c:3<:: set -- -e", "+/d:4<:: set +e"], "/a:1"),
        (":set-errexit", ["+/a:1<:: set -o errexit", "+/b:2<:: set -o pipefail"], "/a:1"),
        (":set-nounset", ["+/a:1<:: set -euo pipefail"], "/a:1"),
        (":set-posix", ["+/a:1<:: set -o posix", "+/b:2<:: set -e"], "/a:1"),
        (":shopt-nullglob", ["+/a:1<:: shopt -s extglob nullglob", "+/b:2<:: shopt -s dotglob"], "/a:1"),
        (":readonly-PATH", ["+/a:1<:: readonly PATH", "+/b:2<:: readonly XPATH=1"], "/a:1"),
        (":readonly-PATH", ["+/a:1<:: declare -xr PATH=/bin", "+/b:2<:: declare -x PATH=/usr/bin"], "/a:1"),
        (":echo", ["+/a:1<:: echo Hello", "+/b:2<:: echo no"], "/b:2"),
        (":trap", ["+/a:1<:: trap '' TERM", "+/b:2<:: trap 'rm -f x' EXIT"], "/a:1"),
        (
            ":purge",
            [
                "+/a:1<:: module --force purge",
                "+/b:2<:: module load purge/1.0",
                "+/b:3<:: module --initial_load restore",
            ],
            "/a:1",
        ),
        (":umask", ["+/a:1<:: umask 077", "+/b:2<:: umask", "+/b:3<:: umask -S"], "/a:1"),
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


def test_line_that_prints_a_word_is_the_one_that_has_it(tmp_path: Path) -> None:
    (tmp_path / "trace").write_text("+/a:1<:: x='Hello'\n+/a:2<:: echo Hello to you\n+/b:1<:: echo no\n")
    argv = ["/bin/sh", "-c", f'{SCRIPT}\ntrace_place :echo "$1" Hello', "sh", str(tmp_path / "trace")]
    assert subprocess.run(argv, capture_output=True, text=True, check=True).stdout.strip() == "/a:2"


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
        ("setenv X 1\n\nunsetenv X\n", ("X",), "{own}:3"),
        ("unsetenv X\nsetenv X 1\n", ("X",), "{own}:2"),
        ("alias python echo\nunalias python\n", ("python",), "{own}:2"),
        ("setenv X 1\nsource {vendor}\n", ("X",), "{own}:2"),
    ],
)
def test_real_trace_of_csh_names_file_and_line(tmp_path: Path, text: str, argv: tuple[str, ...], found: str) -> None:
    sub, own, vendor = tmp_path / "sub.csh", tmp_path / ".cshrc", tmp_path.with_name(f"{tmp_path.name}.vendor.csh")
    sub.write_text("# one\nsetenv X 2\n")
    vendor.write_text("setenv X 3\n")
    own.write_text(text.format(sub=sub, vendor=vendor))
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
    script = f'{SCRIPT}\n{traced_shell_text()}\nPS4=$trace_ps4 bash -xc ". {user}" 2>"$1"; trace_place X "$1"'
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


@pytest.mark.parametrize(
    ("lines", "number", "stands"),
    [
        (["# ours", "export X=1"], 2, ""),
        (["if [ -d /opt ]; then export X=1; fi"], 1, ""),
        (["[[ $X == @(a|b) ]]", "export X=1"], 2, ""),
        (["if [ -d /opt ]; then", "  export X=1", "  export Y=1", "fi"], 2, ",inside"),
        (["if [ -d /opt ]; then", "  export X=1", "fi"], 2, ",only"),
        (["f() {", "  export X=1", "}"], 2, ",only"),
        (["[ -d /opt ] &&", "  export X=1", "export Y=1"], 2, ",only"),
        (["case $- in", "*i*)", "  return", "  ;;", "esac"], 3, ",inside"),
        (["case $- in", "  *) export X=1 ;;", "esac"], 2, ",inside"),
        (["if [ -d /opt ]", "then export X=1", "fi"], 2, ",part"),
        (["export X=1 \\", "  Y=2"], 1, ",part"),
        (["export X=1 \\", "  Y=2"], 2, ",part"),
        (['export X="a', 'b"'], 1, ",part"),
        (["export X=1", "if"], 1, ",part"),  # no shell reads this file as it is
    ],
)
def test_how_a_line_stands_in_its_file(tmp_path: Path, lines: list[str], number: int, stands: str) -> None:
    (tmp_path / "sh.file").write_text("".join(f"{line}\n" for line in lines))
    given = f"as() {{ shift; \"$@\"; }}; trace_reader='/bin/bash -O extglob -n' trace_found=/x:{number} trace_number={number}"
    argv = ["/bin/sh", "-c", f"{SCRIPT}\n{given}\ntrace_stands", str(tmp_path / "sh")]
    done = subprocess.run(argv, capture_output=True, text=True, check=True)
    assert (done.stdout.strip(), done.stderr) == (stands, "")


KEY = "ctx.bash-login.user.ambient."


def odd_variable(
    here: str, there: str, *, below: str = "", has: str = "site.sh", name: str = "OMP_NUM_THREADS"
) -> Hint:
    """The hint for c2, which has another value of a variable: set `here` there, and `there` on c1 and c3."""
    shell = {f"{KEY}PATH": "/usr/bin", f"{KEY}loaded": ""}
    values = {"c1": "8", "c2": "4", "c3": "8"}
    said = {"PATH": "PATH"}.get(name, "exported")
    answers = {node: {**shell, f"{KEY}{said}": f"{name}={value}"} for node, value in values.items()}
    given = evidence(answers, asked=((LOGIN, "user", "ssh"),))
    told = {("c2", name): here, ("c1", name): there, ("c2", f"{name}<"): below}
    traces = Traces(
        {(node, "bash-login", "user", of): line for (node, of), line in told.items() if line},
        profiles={"c1": frozenset(["site.sh"]), "c2": frozenset(has.split())},
    )
    (finding,) = found(ambient, given, traces)
    return Hint(finding.hint, finding.actions)  # type: ignore[attr-defined]


SITE = "/etc/profile.d/site.sh"


def test_another_value_of_the_same_line_gets_that_of_the_others() -> None:
    hint = odd_variable(f"{SITE}:3 export OMP_NUM_THREADS=4", f"{SITE}:3 export OMP_NUM_THREADS=8")
    line = "export OMP_NUM_THREADS=4"
    assert hint.actions == (Action("delete", "c2", file=SITE, line=3, text=line, instead="export OMP_NUM_THREADS=8"),)
    assert hint.text == (
        f"{SITE}:3 sets it on c2: put `export OMP_NUM_THREADS=8` in the place of that line, as on c[1,3]"
    )


@pytest.mark.parametrize(
    ("here", "there"),
    [
        (f"{SITE}:3 export OMP_NUM_THREADS=4", f"{SITE}:3 OMP_NUM_THREADS=8; export OMP_NUM_THREADS"),
        (f"{SITE}:3 export OMP_NUM_THREADS=4", f"{SITE}:3 export OMP_NUM_THREADS=$CORES"),
        (f"{SITE}:3 export OMP_NUM_THREADS=4", f"{SITE}:3,inside export OMP_NUM_THREADS=8"),
        (f"{SITE}:3,part export OMP_NUM_THREADS=4", f"{SITE}:3,part export OMP_NUM_THREADS=8"),
        (f"{SITE}:3 export OMP_NUM_THREADS=4", f"{SITE}:5 export OMP_NUM_THREADS=8${{OMP_NUM_THREADS}}"),
        ("/etc/profile.d/z.sh:1 export OMP_NUM_THREADS=4", f"{SITE}:3,inside export OMP_NUM_THREADS=8"),
    ],
)
def test_what_no_line_of_the_others_can_replace_is_looked_at(here: str, there: str) -> None:
    hint = odd_variable(here, there)
    assert [action.do for action in hint.actions] == ["look"]
    assert here.split(",", maxsplit=1)[0].split(" ", maxsplit=1)[0] in hint.text
    assert f"{SITE}:" in hint.text


def test_line_over_the_right_one_is_deleted_and_one_without_it_is_not_alone() -> None:
    over, right = "/etc/profile.d/z.sh:1 export OMP_NUM_THREADS=4", f"{SITE}:3 export OMP_NUM_THREADS=8"
    hint = odd_variable(over, right, below=right)
    assert [(action.do, action.file, action.instead) for action in hint.actions] == [
        ("delete", "/etc/profile.d/z.sh", "")
    ]
    hint = odd_variable(over, right, has="z.sh")
    assert [(action.do, action.command) for action in hint.actions] == [
        ("delete", ""),
        ("run", f"scp -3p c1:{SITE} c2:{SITE}"),
        ("look", ""),
    ]
    assert hint.text.startswith("/etc/profile.d/z.sh:1 sets it on c2: take that line away; then `scp -3p")
    unset = odd_variable("/etc/profile.d/z.sh:1,only unset OMP_NUM_THREADS", right, below=right)
    assert [(action.do, action.instead) for action in unset.actions] == [("delete", ":")]
    assert unset.text.startswith("/etc/profile.d/z.sh:1 sets it on c2: put `:` in the place of that line")


def test_file_that_a_node_lacks_is_copied_whole() -> None:
    hint = odd_variable("", f"{SITE}:5 export OMP_NUM_THREADS=$CORES", has="other.sh")
    assert next((action.do, action.command) for action in hint.actions) == ("run", f"scp -3p c1:{SITE} c2:{SITE}")
    assert hint.text.endswith(f"{SITE}:5 sets it on c[1,3]; c2 has no such file")


def test_path_is_set_by_what_comes_before_node_setup() -> None:
    ours = "/etc/profile.d/zz-envmgr.sh:13 PATH=/etc/envmgr/node/lmod/bin:$PATH"
    hint = odd_variable(ours, ours, below=f"{SITE}:4 export PATH=/opt/x:$PATH", name="PATH")
    assert [(action.do, action.line) for action in hint.actions] == [("delete", 4)]


def test_path_of_a_job_that_sets_its_own_is_not_that_of_the_submitting_host() -> None:
    ours, other = "/etc/profile.d/zz-envmgr.sh:13 PATH=x", f"{SITE}:4 export PATH=/opt/x:$PATH"
    job = next(c for c in CONTEXTS if c.name == "sbatch-bash-login")
    places = {("c2", "bash-job", "user", "PATH"): ours, ("login", "bash-login", "user", "PATH"): ours}
    places |= {("login", "bash-login", "user", "PATH<"): other}
    assert Traces(places, ("login",)).foreign(["c2"], job, "user", "PATH") is None
    places |= {("c2", "bash-job", "user", "PATH<"): other}
    found_place = Traces(places, ("login",)).foreign(["c2"], job, "user", "PATH")
    assert found_place is not None
    assert found_place.node == "c2"


@pytest.mark.parametrize(
    "file", ["/usr/share/lmod/8.6.19/init/bash", "/usr/share/modules/init/bash", "/opt/apps/lmod/lmod/init/bash"]
)
def test_no_line_of_lmod_or_the_distribution_is_to_be_deleted(file: str) -> None:
    login = next(c for c in CONTEXTS if c.name == "bash-login")
    places = {("c2", "bash-login", "user", "module"): f"{file}:7 unset -f module"}
    assert Traces(places, ()).foreign(["c2"], login, "user", "module") is None
    assert [action.do for action in hint_of(Steps(delete=f"{file}:7", because="sets it"), ["c2"]).actions] == ["look"]


@pytest.mark.parametrize("stands", ["", ",only", ",inside"])
@pytest.mark.parametrize(
    "file",
    [
        *("/etc/profile", "/etc/bashrc", "/etc/bash.bashrc", "/etc/csh.cshrc", "/etc/csh.login"),
        *("/etc/zshenv", "/etc/zprofile", "/etc/zsh/zshrc", "/etc/ksh.kshrc"),
    ],
)
def test_no_line_of_a_packages_start_up_file_is_taken_away_or_changed(file: str, stands: str) -> None:
    own, right = f"{file}:2{stands} export OMP_NUM_THREADS=4", f"{file}:2{stands} export OMP_NUM_THREADS=8"
    for usual, below in (("", ""), (right, ""), (f"{SITE}:3 export OMP_NUM_THREADS=8", own)):
        hint = odd_variable(own, usual, below=below, has="z.sh")
        assert {action.do for action in hint.actions} == {"look"}
        assert hint.text.startswith(f"{file}:2 sets it on c2: a package's file: compare it with that of the package; ")


@pytest.mark.parametrize(
    ("sums", "said"),
    [
        ("aba", "a package's file, which is not as on c[1,3]: compare it"),
        ("aaa", "a package's file: compare it with that of the package"),
    ],
)
def test_a_packages_file_is_said_to_be_another_where_it_is(sums: str, said: str) -> None:
    """A vendor's /etc/profile: without its PATH a login shell of that node has none."""
    answers = {
        f"c{n}": {
            f"{KEY}PATH": "/usr/bin:/opt/vendor" if n == 2 else "/usr/bin",
            f"{KEY}loaded": "",
            "startup_files.looked.node": "yes",
            "startup_files.sums": f"{digest} /etc/profile",
        }
        for n, digest in enumerate(sums, 1)
    }
    lines = {("c2", "bash-login", "user", "PATH"): "/etc/profile:2 export PATH=/usr/bin:/opt/vendor"}
    checks = {name: all_checks()[name] for name in ("ambient", "startup-files")}
    judged = judge(evidence(answers, asked=((LOGIN, "user", "ssh"),)), checks, lambda _: Traces(lines))
    (path,) = [f for f in judged.findings if f.found.startswith("PATH is")]
    assert path.hint == f"/etc/profile:2 sets it on c2: {said}; no start-up file sets it on c[1,3]"
    assert (path.cause, [f.check for f in path.consequences]) == (
        "file /etc/profile",
        ["startup-files"] if sums == "aba" else [],
    )


@pytest.mark.parametrize(
    ("there", "step"),
    [
        (f"{SITE}:5 export OMP_NUM_THREADS=8", "add"),
        (f"{SITE}:5 export OMP_NUM_THREADS=8$OMP_NUM_THREADS", "add"),
        ("/etc/environment:1 OMP_NUM_THREADS=8", "add"),
        (f"{SITE}:5,inside export OMP_NUM_THREADS=8", "look"),
        (f"{SITE}:5 export OMP_NUM_THREADS=$CORES", "look"),
        (f"{SITE}:5 export OMP_NUM_THREADS=$(nproc)", "look"),
        (f"{SITE}:5", "look"),
        ("/home/alice/.profile:5 export OMP_NUM_THREADS=8", "look"),
    ],
)
def test_line_that_a_file_lacks_is_added_where_it_stands_by_itself(there: str, step: str) -> None:
    assert [action.do for action in odd_variable("", there).actions] == [step]


def test_nodes_of_which_nobody_is_right_are_told_their_lines_alone() -> None:
    shell = {f"{KEY}PATH": "/usr/bin", f"{KEY}loaded": ""}
    answers = {f"c{n}": shell | {f"{KEY}exported": f"OMP_NUM_THREADS={n}"} for n in (1, 2)}
    given = evidence(answers, asked=((LOGIN, "user", "ssh"),))
    lines = {(f"c{n}", "bash-login", "user", "OMP_NUM_THREADS"): f"{SITE}:{n} OMP_NUM_THREADS={n}" for n in (1, 2)}
    assert [finding.hint for finding in found(ambient, given, Traces(lines))] == [
        f"{SITE}:1 sets it on c1; {SITE}:2 sets it on c2"
    ]


A, Z = "/etc/profile.d/a.sh:1", "/etc/profile.d/z.sh:1"
AGAIN = "`envmgr node-setup --apply --nodes c[1,3]`"
OURS = "/etc/profile.d/zz-envmgr.sh:3 x"


@pytest.mark.parametrize(
    ("lines", "hint"),
    [
        ({"c1": A, "c2": Z}, f"{Z} sets it on c2; {A} sets it on c1; no start-up file sets it on c3"),
        ({"c1": A, "c2": Z, "c3": OURS}, f"{Z} sets it on c2; {A} sets it on c1"),
        ({"c2": OURS}, AGAIN),
        (
            {"c1": f"{A} umask $X", "c2": f"{A} umask $X", "c3": f"{A} umask $X"},
            "which start-up file, or pam_umask, sets it?",
        ),
        ({}, "which start-up file, or pam_umask, sets it?"),
    ],
)
def test_each_of_several_values_has_the_line_of_its_own_nodes(lines: dict[str, str], hint: str) -> None:
    masks = {"c1": "0077", "c2": "0000", "c3": "0022"}
    answers = {node: {"ctx.bash-login.user.limits.umask": mask} for node, mask in masks.items()}
    given = evidence(answers, asked=((LOGIN, "user", "ssh"),))
    assert {question.node for question in wanted_lines(limits, given)} == {"c1", "c2", "c3"}
    traces = Traces({(node, "bash-login", "user", ":umask"): line for node, line in lines.items()})
    assert [finding.hint for finding in found(limits, given, traces)] == [hint]


def test_each_of_several_lists_of_modules_has_the_line_of_its_own_nodes() -> None:
    key, ours = "ctx.bash-login.user.", "/sw/generations/0001/modules"
    answers = {f"c{n}": {f"{key}modulepath": f"{ours}:/opt/{n}"} for n in (1, 2, 3)}
    given = evidence(answers, asked=((LOGIN, "user", "ssh"),))
    lines = {f"c{n}": f"/etc/profile.d/{n}.sh:1" for n in (1, 2, 3)}
    traces = Traces({(node, "bash-login", "user", f"MODULEPATH~/opt/{node[1]}"): line for node, line in lines.items()})
    (hint,) = [one.hint for one in found(contexts, given, traces) if "/opt/1" in one.found]
    assert hint == "; ".join(f"{line} sets it on {node}" for node, line in lines.items())


def test_shell_that_lacks_what_login_bash_has_takes_nothing_from_login_bash() -> None:
    csh = next(c for c in CONTEXTS if c.name == "csh")
    asked = ((LOGIN, "user", "ssh"), (csh, "user", "ssh"))
    both = {f"ctx.{name}.user.ambient.{of}": "" for name in ("bash-login", "csh") for of in ("loaded", "exported")}
    paths = {"ctx.bash-login.user.ambient.PATH": "/usr/bin:/opt/a", "ctx.csh.user.ambient.PATH": "/usr/bin"}
    where = "/etc/profile.d/apps.sh:1 PATH=/opt/a:$PATH"
    traces = Traces(
        {("c1", "bash-login", "user", "PATH~/opt/a"): where, ("c1", "csh", "user", "PATH~/opt/b"): "/etc/csh/b.csh:9 x"}
    )
    (lacks,) = found(ambient, evidence({f"c{n}": both | paths for n in (1, 2, 3)}, asked=asked), traces)
    assert [action.do for action in lacks.actions] == ["look"]  # type: ignore[attr-defined]
    assert lacks.hint == (
        "/etc/profile.d/apps.sh:1 gives it to bash-login; csh reads /etc/csh.cshrc and ~/.cshrc: "
        "give it there, too, if users of both kinds of shell need it"
    )
    paths["ctx.csh.user.ambient.PATH"] = "/usr/bin:/opt/b"
    (other,) = found(ambient, evidence({f"c{n}": both | paths for n in (1, 2, 3)}, asked=asked), traces)
    assert [(a.do, a.file) for a in other.actions] == [("delete", "/etc/csh/b.csh")]  # type: ignore[attr-defined]


def test_line_that_unsets_what_node_setup_set_is_deleted() -> None:
    key = "ctx.bash-login.user."
    facts = {
        f"{key}modulepath": "/sw/generations/0001/modules",
        f"{key}module": "no",
        f"{key}lmod_rc": "/sw/generations/0001/lmodrc.lua",
    }
    given = evidence({"c1": facts, "c2": facts}, asked=((LOGIN, "user", "ssh"),))
    assert "module" in {name for question in wanted_lines(contexts, given) for name in question.names}
    at = ("c1", "bash-login", "user")
    traces = Traces({(*at, "module"): "/etc/profile.d/zzz.sh:2 unset -f module", (*at, ":pinned"): "yes"})
    assert told(contexts, given, traces)[0].endswith(
        "/etc/profile.d/zzz.sh:2 unsets module after envmgr does: take that line away"
    )


def test_line_that_prints_is_asked_for_by_what_it_prints() -> None:
    facts = {
        "ctx.bash-ssh.user.modulepath": "/sw/generations/0001/modules",
        "ctx.bash-ssh.user.noise": "Hello to alice on NODE",
    }
    ssh = next(c for c in CONTEXTS if c.name == "bash-ssh")
    questions = wanted_lines(contexts, evidence({"c1": facts}, asked=((ssh, "user", "ssh"),)))
    assert (":echo~Hello", ":printf~Hello", ":cat") in {question.names for question in questions}


def test_commands_are_asked_for_by_their_option() -> None:
    key = "ctx.bash-login.user."
    facts = {
        f"{key}limits.address_space": "4096",
        f"{key}shell_state.options": "errexit nullglob",
        f"{key}shell_state.readonly": "PATH\nMANPATH",
    }
    given = evidence({"c1": facts}, asked=((LOGIN, "user", "ssh"),))
    names = {
        name for check in (limits, shell_state) for question in wanted_lines(check, given) for name in question.names
    }
    assert names == {":ulimit-v", ":set-errexit", ":shopt-nullglob", ":readonly-PATH", ":readonly-MANPATH"}
