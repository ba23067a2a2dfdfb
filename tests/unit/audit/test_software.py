"""What is expected of installs, what is looked at on a node, and what is told of it."""

from __future__ import annotations

import os
import signal
import struct
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from envmgr.audit.checks import all_checks, contexts, get_check, software
from envmgr.audit.fit.install_facts import covered_by, start_fault
from envmgr.audit.fit.matrix import MatrixRow
from envmgr.audit.judge import judge
from envmgr.audit.model import Evidence
from envmgr.audit.plan import AuditRequest, ExpectedInstall
from envmgr.catalog.recipe_parts import Requires
from envmgr.probe.model import CONTEXTS
from envmgr.probe.shell import join_probes
from envmgr.system.modes import without_acl
from envmgr.system.shelltext import script_text
from tests.helpers.evidence import evidence, table_of, told
from tests.helpers.open_folders import open_to_all

LOOK, START = (script_text(software.__file__ or "", f"{name}.sh") for name in ("look", "start"))
MACHINE = {"fitness.arch": "x86_64", "fitness.glibc": "2.36"}


def tree(root: Path, files: Mapping[str, int], links: Mapping[str, str] | None = None) -> None:
    for path, mode in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(f"#!/bin/sh\n# {path}\n")
        (root / path).chmod(mode)
    for path, target in (links or {}).items():
        (root / path).symlink_to(target)


# -- what is looked at --------------------------------------------------------------------------------------------------


def looked(*installs: tuple[str, Path, str, str, str], user: int | None = None) -> list[str]:
    """What look.sh prints of installs (entry, root, file, kind, sums); as an ordinary user where we are root."""
    words = [str(word) for install in installs for word in install]
    argv = ["/bin/sh", "-c", LOOK, "sh", "60", *words]
    if user is not None:
        argv = ["setpriv", "--reuid", str(user), "--regid", str(user), "--clear-groups", *argv]
    return subprocess.run(argv, capture_output=True, text=True, check=True).stdout.splitlines()


def test_look_at_what_is_well_says_how_many(tmp_path: Path) -> None:
    tree(tmp_path, {"bin/run": 0o755, "share/f": 0o644})
    assert looked(("a/1", tmp_path, "bin/run", "program", ""), ("b/1", tmp_path, "share/f", "file", "")) == [
        "@software.seen=2"
    ]


@pytest.mark.parametrize(
    ("break_it", "said"),
    [
        ("rm -r bin", "bin/run: No such file or directory"),
        ("rm bin/run; ln -s gone bin/run", "bin/run, a link to gone: No such file or directory"),
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
    assert looked(("a/1", root, "bin/run", "program", ""), ("b/1", tmp_path, "", "folder", "")) == [
        f"@software.bad.a/1={whole}",
        "@software.seen=2",
    ]


@pytest.mark.skipif(os.geteuid() != 0, reason="needs another user")
@pytest.mark.parametrize(
    ("mode", "path", "said", "stopped"),
    [
        (0o700, ".", "ROOT: Permission denied", "mode 700 root:root ROOT"),
        (0o700, "bin", "bin/run: Permission denied", "mode 700 root:root ROOT/bin"),
        (0o711, "bin/run", "bin/run: Permission denied", "mode 711 root:root ROOT/bin/run"),
        (0o750, "..", "ROOT: Permission denied", "mode 750 root:root ABOVE"),
    ],
)
def test_look_is_the_users_and_names_what_stops_them(
    tmp_path: Path, mode: int, path: str, said: str, stopped: str
) -> None:
    open_to_all(tmp_path)
    root = tmp_path / "x"
    tree(root, {"bin/run": 0o755})
    (root / path).chmod(mode)
    assert looked(("a/1", root, "bin/run", "program", ""), user=65534) == [
        f"@software.bad.a/1={said.replace('ROOT', str(root))}",
        f"@software.stopped.a/1={stopped.replace('ROOT', str(root)).replace('ABOVE', str(tmp_path))}",
        "@software.seen=1",
    ]


@pytest.mark.skipif(os.geteuid() != 0, reason="needs another user")
def test_look_tells_an_acl_from_a_mode_and_the_hint_takes_it_away(tmp_path: Path) -> None:
    open_to_all(tmp_path)
    root, nobody, all_of = tmp_path / "x", 65534, 0xFFFFFFFF
    tree(root, {"bin/run": 0o755})
    entries = ((1, 7, all_of), (2, 0, nobody), (4, 5, all_of), (16, 5, all_of), (32, 5, all_of))
    acl = struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *entry) for entry in entries)
    try:
        os.setxattr(root, "system.posix_acl_access", acl)
    except OSError:
        pytest.skip("no ACL on this file system")
    look = ("a/1", root, "bin/run", "program", "")
    assert f"@software.stopped.a/1=acl 755 root:root {root}" in looked(look, user=nobody)
    subprocess.run(["/bin/sh", "-c", without_acl(str(root))], check=True)
    assert looked(look, user=nobody) == ["@software.seen=1"]


def test_look_hashes_what_it_is_given(tmp_path: Path) -> None:
    tree(tmp_path, {"bin/run": 0o755, "share/f": 0o644})
    subprocess.run(["sh", "-c", f"cd '{tmp_path}' && sha256sum bin/run share/f >'{tmp_path}/sums'"], check=True)
    sums = (tmp_path / "sums").read_text().rstrip()
    (tmp_path / "share/f").chmod(0o644)
    (tmp_path / "share/f").write_text("other\n")
    assert looked(("a/1", tmp_path, "bin/run", "program", sums), ("b/1", tmp_path, "bin/run", "program", "")) == [
        "@software.seen=2",
        "@software.differs.a/1|share/f: FAILED",
        "@software.hashed.a/1=yes",
    ]


# -- what starts --------------------------------------------------------------------------------------------------------

DAY = 24 * 3600
WAITS_FOR_A_PROCESSOR = 'while read -r _ queued _ <"/proc/$$/schedstat"; [ "$queued" -lt 2000000000 ]; do :; done'
"""A program that ends once it has waited for two seconds."""


def starts(*command: str, limit: int = 1, most: int = DAY) -> int:
    """The status that start.sh has of a command."""
    return subprocess.run(["/bin/sh", "-c", START, "sh", str(limit), str(most), *command], check=False).returncode


@contextmanager
def crowded() -> Iterator[tuple[str, ...]]:
    """A command that runs the command behind it on a processor that has more important things to do."""
    at = ("taskset", "-c", str(min(os.sched_getaffinity(0))))
    loops = [subprocess.Popen([*at, "sh", "-c", "while :; do :; done"]) for _ in range(2)]
    try:
        yield (*at, "nice", "-n", "19")
    finally:
        for process in loops:
            process.kill()
            process.wait()


def test_start_is_measured_without_the_wait_for_a_processor() -> None:
    with crowded() as there:
        assert starts(*there, "sh", "-c", WAITS_FOR_A_PROCESSOR) == 0
        assert (
            starts("sh", "-c", f'{" ".join(there)} sh -c "$0"; exit 3', WAITS_FOR_A_PROCESSOR) == 3
        )  # its child waits


def test_program_that_hangs_is_ended_and_told() -> None:
    for command in ("exec sleep 1200", "trap '' TERM; sleep 1200; sleep 1200", "sleep 1200 & wait"):
        assert start_fault(str(starts("sh", "-c", command))) == "no end of `--version`"
    with crowded() as there:
        endless = WAITS_FOR_A_PROCESSOR.replace("2000000000", "1200000000000")
        assert start_fault(str(starts(*there, "sh", "-c", endless, most=0))) == "no end of `--version`"


def test_start_has_the_commands_own_status() -> None:
    assert [starts("sh", "-c", f"exit {status}") for status in (0, 3)] == [0, 3]
    assert starts("sh", "-c", "kill -SEGV $$") == 128 + signal.SIGSEGV
    assert starts("/nowhere/program") == 127


# -- what is told -------------------------------------------------------------------------------------------------------


def of_installs(answers: Mapping[str, Mapping[str, str]], *installs: ExpectedInstall, **more: Any) -> Evidence:
    entries = {install.entry: Requires() for install in installs}
    given = evidence(answers, entries=entries, **more)
    return replace(given, plan=replace(given.plan, installs=installs))


HELLO = ExpectedInstall("h/1", "/sw/store/h", "bin/run", "bin/run")


def test_what_is_not_known_is_told() -> None:
    installs = ExpectedInstall("t/1", "/sw/store/t"), ExpectedInstall("u/1", "/sw/store/u", "bin/u", "bin/u")
    given = of_installs({"c1": {}}, *installs, samples=("u/1",), request=AuditRequest(deep=True))
    assert [line.partition(" | ")[0] for line in told(software, given)] == [
        "warning : t/1: not looked at: its publish recorded no file of it",
        "warning : u/1: its files were not hashed: its manifest cannot be read here",
    ]


def test_install_that_one_node_lacks() -> None:
    bad = MACHINE | {"software.bad.h/1": "bin/run: No such file or directory"}
    given = of_installs({"c1": MACHINE, "c2": bad, "c3": bad | {"mount.below": "/sw/store/h tmpfs none"}}, HELLO)
    mend = "on the node: `umount /sw/store/h`, and take it out of fstab, if it is there"
    assert told(software, given) == [
        f"error c[2-3]: h/1: another file system lies over it, on /sw/store/h (tmpfs none) | what was published | {mend}"
    ]
    over = "another file system lies over it, on /sw/store/h (tmpfs none)"
    assert table_of(given, software) == (
        MatrixRow("h/1", "c[2-3]", fit=False, reasons=(over,)),
        MatrixRow("h/1", "c1", fit=True),
    )


def test_place_that_keeps_the_user_out_is_told_alone_with_what_opens_it() -> None:
    place = "/sw/store/h/bin"
    sick = {
        "software.bad.h/1": "bin/run: Permission denied",
        "software.inside.csh": "none",
        "mount.source": "admin@fs1:/export/sw",
        "mount.point": "/sw",
        "mount.root": "/",
    }

    def lines(how: str, settings: Mapping[str, Any] | None = None, **controller: str) -> list[str]:
        facts = sick | {"software.stopped.h/1": f"{how} 750 rsw:rsw {place}"}
        given = of_installs({"c1": facts, "c2": facts}, HELLO, samples=("h/1",), settings=settings)
        here = {key.replace("_", "."): value for key, value in controller.items()}
        return told(software, replace(given, controller=here))

    found = "error c[1-2]: h/1: alice cannot enter or read /sw/store/h/bin (mode 750, rsw:rsw) | bin/run, as alice | "
    assert lines("mode") == [f"{found}on the server: `chmod a+rX {place}`"]
    assert lines("mode", mount_options="ro,nosuid") == [f"{found}on the server: `chmod a+rX {place}`"]
    assert lines("mode", {"build_user": "rsw"}, mount_options="rw") == [
        f"{found}`runuser -u rsw -- chmod a+rX {place}`"
    ]
    (line,) = lines("acl", mount_options="rw")
    assert line.startswith(
        f"error c[1-2]: h/1: an ACL denies alice {place}: its mode, 750, does not | bin/run, as alice | "
        "on the server: `setfacl -b /export/sw/store/h/bin "
    )
    (line,) = lines("rule")
    assert line.startswith(
        "error c[1-2]: h/1: the file server, by an ACL that is not seen here or another rule, denies "
    )


def test_prefix_without_exec_is_told_by_this_check_too() -> None:
    """It may be asked alone."""
    bad = MACHINE | {
        "software.bad.h/1": "bin/run: cannot be executed",
        "mount.options": "noexec,rw",
        "mount.point": "/cluster",
    }
    mend = "on the node: `mount -o remount,exec /cluster`; it is mounted noexec"
    assert told(software, of_installs({"c1": MACHINE, "c2": bad}, HELLO)) == [
        f"error c2: h/1: bin/run: cannot be executed | bin/run, as alice | {mend}"
    ]


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
        ("alias run='echo'", "alias run='echo'"),
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


def test_covered_is_the_install_or_a_part_or_what_it_lies_in() -> None:
    def covered(point: str) -> str:
        return covered_by("/sw/store/h/1", {"mount.below": f"{point} tmpfs none"}).partition(" ")[0]

    assert [covered(p) for p in ("/sw/store/h/1", "/sw/store/h/1/bin", "/sw/store")] == [
        "/sw/store/h/1",
        "/sw/store/h/1/bin",
        "/sw/store",
    ]
    assert covered("/sw/store/h/10") == ""


# -- silence ------------------------------------------------------------------------------------------------------------


def test_text_of_every_check_says_that_it_ran() -> None:
    given = of_installs({"c1": {}}, HELLO, samples=("h/1",))
    plan = replace(given.plan, contexts=CONTEXTS[:1], accounts=("user",))
    for name, check in all_checks().items():
        part = name.replace("-", "_")
        for stage in check.probe(plan):
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
