"""What is expected of installs, what is looked at on a node, and what is told of it."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from envmgr.audit.checks import all_checks, contexts, get_check, software
from envmgr.audit.fit.install_facts import start_fault
from envmgr.audit.fit.matrix import MatrixRow
from envmgr.audit.judge import judge
from envmgr.audit.model import Evidence
from envmgr.audit.plan import ExpectedInstall
from envmgr.catalog.recipe_parts import Requires
from envmgr.probe.model import CONTEXTS
from envmgr.probe.shell import STAGES, join_probes
from envmgr.system.shelltext import script_text
from tests.helpers.evidence import evidence, table_of, told
from tests.helpers.open_folders import open_to_all

LOOK = script_text(software.__file__ or "", "look.sh")
MACHINE = {"fitness.arch": "x86_64", "fitness.glibc": "2.36"}


def tree(root: Path, files: Mapping[str, int], links: Mapping[str, str] | None = None) -> None:
    for path, mode in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(f"#!/bin/sh\n# {path}\n")
        (root / path).chmod(mode)
    for path, target in (links or {}).items():
        (root / path).symlink_to(target)


# -- what is looked at --------------------------------------------------------------------------------------------------


def looked(*installs: tuple[str, Path, str, str], user: int | None = None) -> list[str]:
    """What look.sh prints of installs (entry, root, file, kind); as an ordinary user where we are root."""
    words = [str(word) for of in installs for word in (*of[:3], 20 if of[2] else 0, of[3])]
    argv = ["/bin/sh", "-c", LOOK, "sh", "60", *words]
    if user is not None:
        argv = ["setpriv", "--reuid", str(user), "--regid", str(user), "--clear-groups", *argv]
    return subprocess.run(argv, capture_output=True, text=True, check=True).stdout.splitlines()


def test_look_at_what_is_well_says_how_many(tmp_path: Path) -> None:
    tree(tmp_path, {"bin/run": 0o755, "share/f": 0o644})
    assert looked(("a/1", tmp_path, "bin/run", "program"), ("b/1", tmp_path, "share/f", "file")) == ["@software.seen=2"]


@pytest.mark.parametrize(
    ("break_it", "said"),
    [
        ("echo >>bin/run", "bin/run: has 21 bytes, 20 when it was published"),
        ("rm -r bin", "bin/run: No such file or directory"),
        ("rm bin/run; ln -s gone bin/run", "bin/run, a link to ROOT/bin/gone: No such file or directory"),
        ("chmod 644 bin/run", "bin/run: cannot be executed"),
        ("rm bin/run; mkdir bin/run", "bin/run: Is a directory"),
        ("rm -r bin; : >bin", "bin/run: Not a directory"),
        ("rm -r ../x", "ROOT: No such file or directory"),
        ("rm -r ../x; : >../x", "ROOT: Not a directory"),
    ],
)
def test_look_at_what_is_broken_says_how(tmp_path: Path, break_it: str, said: str) -> None:
    root = tmp_path / "x"
    tree(root, {"bin/run": 0o755})
    subprocess.run(["/bin/sh", "-c", f"cd '{root}' && {break_it}"], check=True)
    whole = said.replace("ROOT", str(root))
    assert looked(("a/1", root, "bin/run", "program"), ("b/1", tmp_path, "", "folder")) == [
        f"@software.bad.a/1={whole}",
        "@software.seen=2",
    ]


@pytest.mark.skipif(os.geteuid() != 0, reason="needs another user")
@pytest.mark.parametrize(
    ("mode", "path", "said", "stopped"),
    [
        (0o700, ".", "ROOT: Permission denied", "700 root:root ROOT"),
        (0o700, "bin", "bin/run: Permission denied", "700 root:root ROOT/bin"),
        (0o711, "bin/run", "bin/run: Permission denied", "711 root:root ROOT/bin/run"),
        (0o750, "..", "ROOT: Permission denied", "750 root:root ABOVE"),
    ],
)
def test_look_is_the_users_and_names_what_stops(tmp_path: Path, mode: int, path: str, said: str, stopped: str) -> None:
    open_to_all(tmp_path)
    root = tmp_path / "x"
    tree(root, {"bin/run": 0o755})
    (root / path).chmod(mode)
    assert looked(("a/1", root, "bin/run", "program"), user=65534) == [
        f"@software.bad.a/1={said.replace('ROOT', str(root))}",
        f"@software.stopped.a/1={stopped.replace('ROOT', str(root)).replace('ABOVE', str(tmp_path))}",
        "@software.seen=1",
    ]


# -- what is told -------------------------------------------------------------------------------------------------------


def of_installs(answers: Mapping[str, Mapping[str, str]], *installs: ExpectedInstall, **more: Any) -> Evidence:
    entries = {install.entry: Requires() for install in installs}
    given = evidence(answers, entries=entries, **more)
    return replace(given, plan=replace(given.plan, installs=installs))


HELLO = ExpectedInstall("h/1", "/sw/store/h", "bin/run", "bin/run")


def test_install_that_one_node_lacks() -> None:
    bad = MACHINE | {"software.bad.h/1": "bin/run: No such file or directory"}
    given = of_installs({"c1": MACHINE, "c2": bad, "c3": bad}, HELLO)
    found = "error c[2-3]: h/1: bin/run: No such file or directory | /sw/store/h/bin/run, as alice"
    assert [line.rpartition(" | ")[0] for line in told(software, given)] == [found]
    assert table_of(given, software) == (
        MatrixRow("h/1", "c[2-3]", fit=False, reasons=("bin/run: No such file or directory",)),
        MatrixRow("h/1", "c1", fit=True),
    )


def test_place_that_keeps_the_user_out_is_told_alone_with_what_opens_it() -> None:
    place = "/sw/store/h/bin"

    def lines(mode: str, settings: Mapping[str, Any] | None = None) -> list[str]:
        sick = {"software.bad.h/1": "bin/run: Permission denied", "software.inside.csh": "none"}
        facts = sick | {"software.stopped.h/1": f"{mode} rsw:rsw {place}"}
        return told(software, of_installs({"c1": facts, "c2": facts}, HELLO, samples=("h/1",), settings=settings))

    found = "error c[1-2]: h/1: alice cannot enter or read /sw/store/h/bin (mode {}, rsw:rsw) | /sw/store/h/bin/run, as alice | on the server: "
    assert lines("750") == [f"{found.format('750')}`chmod a+rX {place}`"]
    assert lines("750", {"build_user": "rsw"}) == [f"{found.format('750')}`runuser -u rsw -- chmod a+rX {place}`"]
    assert lines("755") == [f"{found.format('755')}`getfacl {place}`: an ACL, or another rule of its server?"]


def test_what_was_not_looked_at_is_never_yes() -> None:
    given = of_installs(
        {"c1": MACHINE, "c2": MACHINE | {"software.seen": "1", "software.looked.prefix": "yes"}},
        HELLO,
        replace(HELLO, entry="z/1"),
    )
    assert [line.partition(" | ")[0] for line in told(software, given)] == [
        "warning c2: installs: 1 of 2 were not looked at within 14 s"
    ]
    assert MatrixRow("z/1", "c2", fit=None, reasons=("not looked at: its install",)) in table_of(given)
    assert MatrixRow("h/1", "c[1-2]", fit=True) in table_of(given)


def test_node_whose_shells_have_no_module_does_not_run_an_entry() -> None:
    login = next(c for c in CONTEXTS if c.name == "bash-login")
    key = "ctx.bash-login.user."
    well = MACHINE | {f"{key}module": "yes", f"{key}modulepath": "/sw/generations/0001/modules"}
    given = of_installs(
        {"c1": well, "c2": well | {f"{key}module": "no"}, "c3": well | {f"{key}modulepath": "/opt/modules"}},
        HELLO,
        asked=((login, "user", "ssh"),),
    )
    assert {row.nodes: row.reasons for row in table_of(given, contexts)} == {
        "c1": (),
        "c2": ("bash-login (alice): no `module` command",),
        "c3": ("bash-login (alice): MODULEPATH has no modules of /sw: /opt/modules",),
    }


@pytest.mark.parametrize(
    ("status", "fault"),
    [
        ("0", ""),
        ("1", ""),
        ("2", ""),
        ("200", ""),
        ("124", "no end of `--version`"),
        ("137", "no end of `--version`"),
        ("126", "does not start, exit status 126"),
        ("127", "does not start, exit status 127"),
        ("132", "does not start, SIGILL"),
    ],
)
def test_start_is_judged_by_its_status(status: str, fault: str) -> None:
    assert start_fault(status) == fault


def test_program_that_does_not_start_is_told_where_it_was_tried() -> None:
    start = {"software.found.h/1": "/sw/store/h/bin/run", "software.status.h/1": "0"}
    broken = start | {"software.status.h/1": "127", "software.said.h/1": "libx.so.1: cannot open"}
    shadowed = start | {"software.found.h/1": "/usr/bin/run"}
    given = of_installs({"c1": start, "c2": broken, "c3": shadowed}, HELLO, samples=("h/1",))
    assert sorted(line.rpartition(" | ")[0] for line in told(software, given)) == [
        "error c2: h/1: bin/run: does not start, exit status 127: libx.so.1: cannot open | a program that starts",
        "error c3: h/1: bin/run: `run` is /usr/bin/run | a program that starts",
    ]


@pytest.mark.parametrize(
    ("said", "found"),
    [
        ("run", "`run` is a function of the shell"),
        ("alias run='echo'", "`run` is alias run='echo'"),
        ("/opt/bin/run", "`run` is /opt/bin/run"),
        ("", "`run` is not in PATH"),
    ],
)
def test_program_that_a_shell_shadows(said: str, found: str) -> None:
    login = next(c for c in CONTEXTS if c.name == "bash-login")
    well = {"ctx.bash-login.user.program": "/sw/store/h/bin/run", "ctx.bash-login.user.started": "0"}
    given = of_installs(
        {"c1": well, "c2": well | {"ctx.bash-login.user.program": said}},
        HELLO,
        samples=("h/1",),
        asked=((login, "user", "ssh"),),
    )
    (line,) = told(software, given)
    assert line.startswith(
        f"error c2: bash-login (alice): {found}, after `module load h/1` | /sw/store/h/bin/run | which start-up file"
    )


# -- silence ------------------------------------------------------------------------------------------------------------


def test_text_of_every_check_says_that_it_ran() -> None:
    given = of_installs({"c1": {}}, HELLO, samples=("h/1",))
    plan = replace(given.plan, contexts=CONTEXTS[:1], accounts=("user",))
    for name, check in all_checks().items():
        part = name.replace("-", "_")
        for stage in {*STAGES} & check.probe(plan).keys():
            assert f"put {part}.looked.{stage} yes" in join_probes(_parts(name, plan), plan), (name, stage)


def _parts(name: str, plan: Any) -> Any:
    from envmgr.audit.model import audit_parts

    return audit_parts([get_check(name)], plan)


def test_check_without_an_answer_is_a_finding_unless_its_stage_has_one() -> None:
    checks = {"clock": get_check("clock")}
    silent = judge(
        evidence({"c1": {"clock.looked.prefix": "yes"}, "c2": {}, "c3": {"prefix.end": "no end in 7 s"}}), checks
    ).findings
    assert [(f.severity, f.check, f.nodes, f.where, f.found) for f in silent] == [
        ("warning", "clock", "c2", "prefix", "not looked at")
    ]
