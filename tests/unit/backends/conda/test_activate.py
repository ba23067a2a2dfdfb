"""Activation scripts modelled after those of real packages, run by the real bash."""

from __future__ import annotations

import json
import os
import re
import string
import subprocess
import tempfile
import threading
from pathlib import Path

import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st

from envmgr.backends.conda.activate import capture_activation
from envmgr.errors import EnvmgrError, Interrupted
from envmgr.modules.capture import assigned_names, work_names
from envmgr.modules.spec import EnvOp
from envmgr.system.run import Runner
from tests.helpers.waiting import long_enough, soon

SETS_ONLY = "a modulefile sets variables only: build without this package, or with a version whose script does the same"
UNCLEAR = "a modulefile can set, unset, prepend, append, and set where nothing is set: build without this package"


def write_scripts(prefix, scripts):
    folder = prefix / "etc/conda/activate.d"
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in scripts.items():
        (folder / name).write_text(text)


def rows(prefix, operations):
    """(kind, name, value) with `P` for the prefix; a separator that is not `:` is a fourth item."""
    return [
        (op.kind, op.name, op.value.replace(str(prefix), "P"), *([] if op.separator == ":" else [op.separator]))
        for op in operations
    ]


@pytest.fixture
def prefix(tmp_path):
    path = tmp_path / "store" / "entry"
    path.mkdir(parents=True)
    return path


@pytest.fixture
def capture(prefix):
    def run(*texts, **more):
        write_scripts(prefix, {f"{chr(97 + i)}.sh": text for i, text in enumerate(texts)})
        return rows(prefix, capture_activation(prefix, Runner(), **more))

    return run


@pytest.fixture
def refuse(capture):
    def run(*texts, **more):
        with pytest.raises(EnvmgrError) as caught:
            capture(*texts, **more)
        return str(caught.value)

    return run


# What real packages do.


def test_capture_gives_a_default_and_drops_its_marker_for_certificates(capture):
    logged = []
    text = """
if [[ -z "${SSL_CERT_FILE:-}" ]]; then
    export SSL_CERT_FILE="${CONDA_PREFIX}/ssl/cacert.pem"
    export __CERT_FILE_SET="1"
fi
"""
    assert capture(text, log=logged.append) == [("set-default", "SSL_CERT_FILE", "P/ssl/cacert.pem")]
    assert logged == ["left out __CERT_FILE_SET, which etc/conda/activate.d/a.sh keeps for its deactivation"]


def test_capture_appends_with_spaces_and_keeps_work_variables_out_for_xml_catalogs(capture):
    text = """
if test -n "${XML_CATALOG_FILES:-}"; then
    xml_files_before="${XML_CATALOG_FILES}"
    XML_CATALOG_FILES="${XML_CATALOG_FILES} "
else
    xml_files_before=""
    XML_CATALOG_FILES=""
fi
ours=""
keep_ifs="${IFS}"
IFS=" "
left="${CONDA_PREFIX}"
for part in ${left}; do
    ours="${ours}${part}"
done
IFS="${keep_ifs}"
ours="file://${ours}/etc/xml/catalog file:///etc/xml/catalog"
export XML_CATALOG_FILES="${XML_CATALOG_FILES}${ours}"
unset ours keep_ifs left
"""
    assert capture(text) == [
        ("append", "XML_CATALOG_FILES", "file://P/etc/xml/catalog", " "),
        ("append", "XML_CATALOG_FILES", "file:///etc/xml/catalog", " "),
    ]


def test_capture_sees_what_is_exported_and_then_unset_for_gdal_and_proj(capture):
    gdal = """
if [ -n "$GDAL_DATA" ]; then
    export _CONDA_SET_GDAL_DATA=$GDAL_DATA
fi
export GDAL_DATA=$CONDA_PREFIX/share/gdal
export GDAL_DRIVER_PATH=$CONDA_PREFIX/lib/gdalplugins
[ -d "$GDAL_DRIVER_PATH" ] || unset GDAL_DRIVER_PATH
export CPL_ZIP_ENCODING=UTF-8
"""
    proj = """
if [ -n "${PROJ_DATA:-}" ]; then
    export _CONDA_SET_PROJ_DATA=$PROJ_DATA
fi
export PROJ_DATA="${CONDA_PREFIX}/share/proj"
if [ -f "${CONDA_PREFIX}/share/proj/copyright_and_licenses.csv" ]; then
    export PROJ_NETWORK="ON"
fi
"""
    assert capture(gdal, proj) == [
        ("set", "CPL_ZIP_ENCODING", "UTF-8"),
        ("set", "GDAL_DATA", "P/share/gdal"),
        ("unset", "GDAL_DRIVER_PATH", ""),
        ("set", "PROJ_DATA", "P/share/proj"),
    ]


def test_capture_prepends_flags_in_order_and_drops_backups_for_compilers(capture):
    text = """
for thing in "CC=gcc" "CFLAGS=-march=nocona -O2 -isystem $CONDA_PREFIX/include"; do
    name="${thing%%=*}"
    eval "old=\\${$name-}"
    eval "export CONDA_BACKUP_$name=\\"\\$old\\""
    if [ "$name" = CC ]; then
        export CC="$CONDA_PREFIX/bin/gcc"
    else
        export CFLAGS="${thing#*=}${CFLAGS:+ $CFLAGS}"
    fi
done
unset thing name old
"""
    assert capture(text) == [
        ("set", "CC", "P/bin/gcc"),
        ("prepend", "CFLAGS", "P/include", " "),
        ("prepend", "CFLAGS", "-isystem", " "),
        ("prepend", "CFLAGS", "-O2", " "),
        ("prepend", "CFLAGS", "-march=nocona", " "),
    ]


def test_capture_names_the_script_that_defines_functions_for_compilers(refuse):
    text = """
function _tool_activation() {
    export CC="$CONDA_PREFIX/bin/gcc"
}
_tell() { echo "$1"; }
_tool_activation
"""
    assert refuse("export A=1", text) == (
        "error[activation-changes-shell]: etc/conda/activate.d/b.sh defines functions: _tell, _tool_activation\n"
        "\n"
        f"hint: {SETS_ONLY}"
    )


def test_capture_takes_a_function_that_is_removed_again(capture):
    assert capture('give() { export CC="$1"; }\ngive gcc\nunset -f give') == [("set", "CC", "gcc")]


def test_capture_refuses_an_exported_function_and_an_alias(refuse):
    assert "a.sh defines functions: helper\n" in refuse("helper() { :; }\nexport -f helper")
    assert "a.sh defines aliases: l, ll\n" in refuse("alias ll='ls -l' l=ls")


def test_capture_drops_a_backup_of_path_whatever_its_name(capture):
    assert capture('export BEFORE="$PATH"\nexport PATH="$CONDA_PREFIX/x:$PATH"') == [("prepend", "PATH", "P/x")]


def test_capture_unsets_what_a_script_unsets_and_only_mentions(capture):
    assert capture("unset PERL5LIB R_LIBS\nunset -v GTK_PATH") == [
        ("unset", "GTK_PATH", ""),
        ("unset", "PERL5LIB", ""),
        ("unset", "R_LIBS", ""),
    ]


def test_capture_unsets_names_that_a_script_makes_up_from_a_list(capture):
    assert capture('for name in QT_PLUGIN_PATH QT_API; do\n    unset "$name"\ndone') == [
        ("unset", "QT_API", ""),
        ("unset", "QT_PLUGIN_PATH", ""),
    ]


def test_capture_gives_the_default_before_what_is_put_around_it(capture):
    text = 'export XDG_DATA_DIRS="$CONDA_PREFIX/share:${XDG_DATA_DIRS:-/usr/local/share:/usr/share}:/opt/share"'
    assert capture(text) == [
        ("set-default", "XDG_DATA_DIRS", "/usr/local/share:/usr/share"),
        ("prepend", "XDG_DATA_DIRS", "P/share"),
        ("append", "XDG_DATA_DIRS", "/opt/share"),
    ]


@pytest.mark.parametrize(
    "text",
    [
        'export A="x:y:$A"',
        'export A="x:y::$A"',
        'export A="x:y${A:+:$A}"',
        'export A="${A:+x:y:$A}"\nexport A="${A:-x:y:}"',
        'case ":${A-}:" in *:x:*) ;; *) export A="x:y:${A-}" ;; esac',
    ],
)
def test_capture_tolerates_stray_separators(capture, text):
    assert capture(text) == [("prepend", "A", "y"), ("prepend", "A", "x")]


@pytest.mark.parametrize("separator", [":", " ", ";", ","])
def test_capture_finds_the_separator(prefix, separator):
    write_scripts(prefix, {"a.sh": f'export A="x{separator}$A{separator}z"\n'})
    assert capture_activation(prefix, Runner()) == (
        EnvOp(kind="prepend", name="A", value="x", separator=separator),
        EnvOp(kind="append", name="A", value="z", separator=separator),
    )


def test_capture_follows_a_private_done_already_flag(capture):
    assert capture('if [ -z "$_X_DONE" ]; then\n  export _X_DONE=1\n  export X="/x:$X"\nfi') == [
        ("prepend", "X", "/x"),
        ("set", "_X_DONE", "1"),
    ]


def test_capture_drops_an_empty_default(capture):
    assert capture('export PYTHONPATH="${PYTHONPATH:-}"\nexport CFLAGS="$CFLAGS"') == []


# What is run, and in which order.


def test_capture_starts_nothing_without_scripts(prefix):
    class NoRunner(Runner):
        def run(self, *_args, **_more):
            raise AssertionError("bash was started")

    assert capture_activation(prefix, NoRunner()) == ()
    write_scripts(prefix, {"a.fish": "set -gx A 1\n", "b.csh": "setenv A 1\n", "c.bat": "set A=1\n"})
    (prefix / "conda-meta").mkdir()
    (prefix / "conda-meta/state").write_text('{"version": 1, "env_vars": {}}')
    assert capture_activation(prefix, NoRunner()) == ()


def test_capture_orders_by_script_and_then_by_name(capture):
    assert capture("export Z=1 M=1", "export B=1 A=1; export Z=2") == [
        ("set", "M", "1"),
        ("set", "Z", "2"),
        ("set", "A", "1"),
        ("set", "B", "1"),
    ]


def test_capture_takes_variables_of_packages_then_of_the_environment_then_scripts(capture, prefix):
    (prefix / "etc/conda/env_vars.d").mkdir(parents=True)
    (prefix / "etc/conda/env_vars.d/z.json").write_text(json.dumps({"A": "1", "B": "it's $HOME\n", "C": "1"}))
    (prefix / "conda-meta").mkdir()
    (prefix / "conda-meta/state").write_text(json.dumps({"env_vars": {"A": "2", "D": "***unset***", "E": "3"}}))
    assert capture('export C="$A"') == [
        ("set", "A", "2"),
        ("set", "B", "it's $HOME\n"),
        ("set", "C", "2"),
        ("set", "E", "3"),
    ]


@pytest.mark.parametrize("text", ['["A"]', '{"A": 1}', '{"A B": "1"}', '{"A": {"B": "1"}}', "{", '{"A": "\\u0000"}'])
def test_capture_refuses_a_variables_file_of_another_shape(prefix, text):
    (prefix / "etc/conda/env_vars.d").mkdir(parents=True)
    (prefix / "etc/conda/env_vars.d/z.json").write_text(text)
    with pytest.raises(EnvmgrError) as caught:
        capture_activation(prefix, Runner())
    assert str(caught.value) == (
        "error[activation-failed]: etc/conda/env_vars.d/z.json does not name variables with their values\n"
        "  expected {NAME: string}"
    )


def test_capture_shows_scripts_what_conda_shows_them(capture, monkeypatch):
    monkeypatch.setenv("LEAKED", "from the caller")
    monkeypatch.setenv("BASH_ENV", "/nonexistent")
    text = (
        'export SEEN="${PATH%%:*} $CONDA_PREFIX $CONDA_DEFAULT_ENV $CONDA_SHLVL $(env | grep -c "from the caller")"\n'
    )
    text += 'export HOME_FILES="$(ls -A ~ | wc -l)" HERE="${BASH_SOURCE[0]}" ARGS="$#"\n'
    assert capture(text) == [
        ("set", "ARGS", "0"),
        ("set", "HERE", "P/etc/conda/activate.d/a.sh"),
        ("set", "HOME_FILES", "0"),
        ("set", "SEEN", "P/bin P P 1 0"),
    ]


def test_capture_works_below_a_path_with_blanks_and_quotes(tmp_path):
    prefix = tmp_path / "it's a $HOME; prefix"
    write_scripts(prefix, {"a b.sh": 'export A="$CONDA_PREFIX/x"'})
    assert rows(prefix, capture_activation(prefix, Runner())) == [("set", "A", "P/x")]


def test_capture_takes_a_relative_prefix(prefix, monkeypatch):
    monkeypatch.chdir(prefix.parent)
    write_scripts(prefix, {"a.sh": 'export A="$CONDA_PREFIX/x"'})
    assert rows(prefix, capture_activation(Path(prefix.name), Runner())) == [("set", "A", "P/x")]


def test_capture_survives_what_scripts_do_to_the_shell(capture):
    rough = "set -efu -o pipefail -o noclobber\nIFS=x; export A=1\nbreak; set -- 1 2; enable -n test; unused=$PATH"
    assert capture(
        rough, 'export B="$A"; : "$NOT_SET"; shopt -s extglob; [[ x = +(x) ]] && export C=1', "export D=1"
    ) == [("set", "A", "1"), ("set", "B", "1"), ("set", "C", "1"), ("set", "D", "1")]


def test_capture_is_not_irritated_by_a_shell_or_build_test(capture):
    text = """
if [ -n "$ZSH_VERSION" ]; then here="${(%):-%x}"; export MODE=zsh; exit 1; fi
if [ -n "$CONDA_BUILD" ]; then export CFLAGS="-debug $CFLAGS"; fi
export MODE=plain
"""
    assert capture(text) == [("set", "MODE", "plain")]


# Scripts that fail.


def test_capture_notes_a_false_last_test_and_goes_on(capture):
    logged = []
    assert capture("export A=1\n[[ -n $NEVER ]] && export B=1\n", "false || return\n", log=logged.append) == [
        ("set", "A", "1")
    ]
    assert logged == ["etc/conda/activate.d/a.sh ended with status 1", "etc/conda/activate.d/b.sh ended with status 1"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("echo no licence; exit 3", "ended the shell (exit status 3)"),
        ("echo no licence; set -e; false", "ended the shell (exit status 1)"),
        ("echo no licence >&2; exec true", "ended the shell (exit status 0)"),
        ("echo no licence; kill -KILL $$", "was ended by SIGKILL (out of memory?)"),
        ("echo no licence; false || return 4", "gave up: `return 4`, status 4"),
    ],
)
def test_capture_names_the_script_that_fails(refuse, text, message):
    assert refuse("export A=1", text, "export B=1") == (
        f"error[activation-failed]: etc/conda/activate.d/b.sh {message}\n  output: no licence"
    )


def test_capture_names_the_script_that_cannot_be_parsed(refuse, prefix):
    assert refuse("export A=1", "export B=1\nif true; then\n") == (
        "error[activation-failed]: etc/conda/activate.d/b.sh has a syntax error\n"
        f"  output: {prefix}/etc/conda/activate.d/b.sh: line 3: syntax error: unexpected end of file"
    )


def test_capture_names_the_script_that_cannot_be_read(prefix):
    write_scripts(prefix, {"a.sh": "export A=1"})
    (prefix / "etc/conda/activate.d/b.sh").symlink_to("gone.sh")
    with pytest.raises(EnvmgrError) as caught:
        capture_activation(prefix, Runner())
    assert str(caught.value) == (
        "error[activation-failed]: etc/conda/activate.d/b.sh cannot be read\n  No such file or directory"
    )


def test_capture_names_the_script_that_hangs_and_leaves_no_process(refuse, tmp_path):
    mark = tmp_path / "pid"
    text = f"echo waiting; sleep 1200 & echo $! >{mark}; wait"
    said = long_enough(lambda limit: refuse("export A=1", text, timeout=limit), lambda said: "waiting" in said, first=1)
    assert re.fullmatch(
        r"error\[activation-failed\]: etc/conda/activate\.d/b\.sh did not end within \d+ s\n  output: waiting", said
    )
    assert soon(lambda: gone(int(mark.read_text())))


def gone(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


def test_capture_refuses_a_process_left_running_and_ends_it(refuse, tmp_path):
    mark = tmp_path / "pid"
    assert refuse(f"sleep 1200 & echo $! >|{mark}") == (
        "error[activation-changes-shell]: etc/conda/activate.d/a.sh leaves a process running in the background\n"
        f"\nhint: {SETS_ONLY}"
    )
    assert soon(lambda: gone(int(mark.read_text())))


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("cd /", "changes the working directory to /"),
        ("umask 0777", "changes the umask to 0777"),
        ("rm -r $PWD", "removes the working directory"),
    ],
)
def test_capture_refuses_a_changed_shell(refuse, text, what):
    assert refuse(text) == (f"error[activation-changes-shell]: etc/conda/activate.d/a.sh {what}\n\nhint: {SETS_ONLY}")


# The runner leaves the ended child's pipes to the garbage collector.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_capture_is_cancelled(prefix):
    write_scripts(prefix, {"a.sh": f"touch {prefix}/begun; sleep 1200"})
    cancel = threading.Event()
    begun = prefix / "begun"
    waiting = threading.Thread(target=lambda: (soon(begun.exists), cancel.set()))
    waiting.start()
    with pytest.raises(Interrupted):
        capture_activation(prefix, Runner(cancel))
    waiting.join()


def test_capture_logs_output_and_files_left_in_home(capture):
    logged = []
    assert capture("echo welcome; echo careful >&2; mkdir ~/.tool; export A=1", log=logged.append) == [
        ("set", "A", "1")
    ]
    assert logged == [
        "etc/conda/activate.d/a.sh: output: welcome",
        "etc/conda/activate.d/a.sh: output: careful",
        "it wrote to HOME, which a module load does not repeat: .tool",
    ]


# What is forbidden or cannot be said.


@pytest.mark.parametrize("name", ["LD_LIBRARY_PATH", "LD_PRELOAD", "PYTHONHOME", "PYTHONPATH"])
@pytest.mark.parametrize(
    ("text", "context"),
    [
        ('export {name}="/x${{{name}:+:${name}}}"', "to '/x'"),
        ("unset {name}", "unsets it"),
        ('[ -z "${name}" ] || {name}="${name}:/x"', "to 'sentinel-of-{name}-end:/x'"),
    ],
)
def test_capture_refuses_variables_that_no_entry_may_change(refuse, name, text, context):
    assert refuse("export A=1", text.format(name=name)) == (
        f"error[activation-forbidden]: etc/conda/activate.d/b.sh changes {name}\n"
        f"  {context.format(name=name)}\n"
        "\n"
        "hint: no module may do so: it reaches into other programs; build without this package"
    )


@pytest.mark.parametrize(
    "text",
    [
        "export A=$RANDOM$RANDOM",
        "export A=$$",
        'export A="$HOME/.cache"',
        'export A="/scratch/$USER"',
        'export A="$(mktemp -u)"',
        'export A="$PWD"',
        'export A="${A:-$HOME/.cache}"',
        'export A="$HOME/bin:$A"',
    ],
)
def test_capture_refuses_what_differs_from_run_to_run(refuse, text):
    message = refuse("export B=1", text)
    pattern = (
        r"error\[activation-unclear\]: etc/conda/activate.d/b.sh sets A to a value that changes from run to run\n"
        r"  with nothing set: '(.+)'\n  with every variable set: '(.+)'\n  with nothing set, for another user: '(.+)'\n\n"
        + re.escape(f"hint: {UNCLEAR}")
    )
    match = re.fullmatch(pattern, message)
    assert match is not None, message
    assert match[1] != match[3]


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ('export A="$A:x:$A"', "repeats the former value of A"),
        ('export A="lib$A"', "changes the text of A and not its elements"),
        ('export A="x:$A y"', "changes the text of A and not its elements"),
        ('export A="${A:+x:$A}"; export A="${A:-y}"', "adds other elements to A when it is not set"),
        ('export A="-f a -f b $A"', "adds words to A that repeat or hold other separators, which a list cannot keep"),
        ('export A="${#A}"', "changes A in a way that depends on what is set before"),
        ('[ -n "$A" ] && unset A || export A=1', "sets A only where it is not set, and else unsets it"),
        ('export B=1; export A="$C"; export C="$C:x"; A=$A/y', "makes A from what the user has in C"),
        ("export PATH=/bin", "changes PATH in a way that depends on what is set before"),
        (
            'if [ -n "$A" ]; then A="$A:x"; PATH="/x:$PATH"; else export A=x PATH=/x:/bin; fi',
            "changes PATH in a way that depends on what is set before",
        ),
        ('export A="$PATH"', "makes A from what the user has in PATH"),
        ("export A=$'\\xff'", "sets A to bytes that are not UTF-8"),
    ],
)
def test_capture_refuses_what_no_operation_says(refuse, text, what):
    first, *_, blank, hint = refuse(text).splitlines()
    assert first == f"error[activation-unclear]: etc/conda/activate.d/a.sh {what}"
    assert (blank, hint) == ("", f"hint: {UNCLEAR}")


def test_capture_gives_each_of_two_companions_its_own_default(capture):
    assert capture('if [ -z "$B_HOME" ]; then export B_HOME=/b; export B_CONF=/b/etc; fi') == [
        ("set-default", "B_CONF", "/b/etc"),
        ("set-default", "B_HOME", "/b"),
    ]


# The words of a script.


def test_names_of_a_script_are_sorted_by_their_use():
    text = 'A=1 B+=2\n: ${C:=3} "${#D}" "$E"\nexport F="$G" H\nfor i in x; do :; done; unset J K; ls --prefix=/x\n'
    assert assigned_names([text]) >= {"A", "B", "C", "F", "H", "i", "J", "K"}
    assert not assigned_names([text]) & {"D", "E", "prefix", "ls"}
    assert work_names([text]) == {"A", "B", "C", "i"}


# Any script of these: what the operations do is what sourcing does.

NAMES = ["ALPHA", "BETA", "GAMMA", "DELTA"]
VALUES = st.text(string.ascii_letters + string.digits + "/.+@%", min_size=1, max_size=8).map(lambda s: f"/{s}")
LISTS = st.lists(st.sampled_from(["set", "prepend", "append", "unset"]), min_size=1, max_size=4)
CHANGES = st.dictionaries(
    st.sampled_from(NAMES), st.tuples(st.sampled_from(": ;,"), st.one_of(LISTS, st.just(["default"]))), max_size=4
)
STARTS = st.dictionaries(st.sampled_from([*NAMES, "OTHER"]), st.lists(VALUES, min_size=1, max_size=3, unique=True))


def line(kind, name, value, separator, number):
    """One statement, in one of the two ways in which packages write it."""
    old = f"${{{name}:+{separator}${name}}}" if number % 2 else f"{separator}${name}"
    young = f"${{{name}:+${name}{separator}}}" if number % 2 else f"${name}{separator}"
    backup = f'export {name}_BACKUP_{number}="${name}"\n' if number % 3 == 0 else ""
    return (
        backup
        + {
            "set": f'export {name}="{value}"',
            "prepend": f'export {name}="{value}{old}"',
            "append": f'export {name}="{young}{value}"',
            "unset": f"unset {name}",
            "default": f'[ -n "${{{name}-}}" ] || export {name}="{value}"',
        }[kind]
    )


def apply(operations, environment):
    """The plain model of a module: what each operation does to a dict."""
    result = dict(environment)
    for op in operations:
        old = [result[op.name]] if result.get(op.name) else []
        if op.kind == "unset":
            result.pop(op.name, None)
        elif op.kind == "set" or (op.kind == "set-default" and op.name not in result):
            result[op.name] = op.value
        elif op.kind == "prepend":
            result[op.name] = op.separator.join([op.value, *old])
        elif op.kind == "append":
            result[op.name] = op.separator.join([*old, op.value])
    return result


def source_all(prefix, environment):
    paths = sorted((prefix / "etc/conda/activate.d").glob("*.sh"))
    text = "".join(f'. "{path}"\n' for path in paths) + "env -0\n"
    base = {"PATH": os.defpath, "CONDA_PREFIX": str(prefix)}
    done = subprocess.run(
        ["bash", "--noprofile", "--norc", "-c", text], env=base | environment, capture_output=True, check=True
    )
    return dict(item.split("=", 1) for item in done.stdout.decode().split("\0") if item)


def without_stray(text, separator):
    return separator.join(filter(None, text.split(separator)))


@settings(max_examples=60)
@given(changes=CHANGES, start=STARTS, data=st.data())
def test_operations_do_what_sourcing_does(changes, start, data):
    statements = [
        (kind, name, data.draw(VALUES), separator) for name, (separator, kinds) in changes.items() for kind in kinds
    ]
    # Each name's statements keep their order, and are spread over two scripts.
    cut = data.draw(st.integers(0, len(statements)))
    lines = [line(*statement, number) for number, statement in enumerate(statements)]
    separators = dict.fromkeys([*NAMES, "OTHER"], ":") | {name: separator for name, (separator, _) in changes.items()}
    environment = {name: separators[name].join(elements) for name, elements in start.items()}
    with tempfile.TemporaryDirectory() as folder:
        prefix = Path(folder)
        write_scripts(prefix, {"a.sh": "\n".join(lines[:cut]) + "\n", "b.sh": "\n".join(lines[cut:]) + "\n"})
        try:
            operations = capture_activation(prefix, Runner())
        except EnvmgrError as error:
            # The one thing that random statements can ask for and a list cannot keep: a word twice.
            assert "that repeat or hold other separators" in error.message  # noqa: PT017
            reject()
        sourced = source_all(prefix, environment)
    modelled = apply(operations, environment)
    for name, separator in separators.items():
        # Where the same element is there twice, a list of paths keeps the first.
        expected = without_stray(sourced.get(name, ""), separator)
        found = without_stray(modelled.get(name, ""), separator)
        if separator == ":":
            expected, found = (":".join(dict.fromkeys(text.split(":"))) for text in (expected, found))
        assert found == expected, (name, operations)
