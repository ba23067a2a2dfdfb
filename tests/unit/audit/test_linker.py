"""The linker's cache, node against node, and against the folders that it is made of."""

from __future__ import annotations

import subprocess
from pathlib import Path

from envmgr.audit.checks import linker
from tests.helpers.evidence import evidence, found, told

WHERE = "/etc/ld.so.cache"
MEND = "on the node: `ldconfig`; programs find libraries of these folders only in the cache"
CONF = "/opt/v/lib (/etc/ld.so.conf.d/v.conf)\n/usr/local/lib (/etc/ld.so.conf.d/libc.conf)"


def node(cached: str, uncached: str = "", newer: str = "", folders: str = CONF) -> dict[str, str]:
    facts = {"cached": cached, "uncached": uncached, "newer": newer, "folders": folders}
    said = {f"linker.{key}": value for key, value in facts.items() if value}
    return {"linker.looked.node": "yes", "linker.cache": "looked", **said}


WELL = node("/opt/v/lib liba.so.1 libv.so.1")


def findings(*answers: dict[str, str]) -> list[str]:
    return told(linker, evidence({f"c{n}": facts for n, facts in enumerate(answers, 1)}))


def test_nodes_with_the_same_cache_are_fine_whatever_is_newer() -> None:
    scrambled = node("/opt/v/lib liba.so.1 libv.so.1", "/opt/v/lib libplug.so", "/etc/ld.so.conf.d")
    assert findings(WELL, WELL, WELL) == []
    assert findings(scrambled, scrambled, WELL) == []
    assert findings(node("")) == []


def test_library_that_lies_there_and_is_not_in_the_cache_is_told_with_its_name() -> None:
    stale = node("/opt/v/lib liba.so.1", "/opt/v/lib libv.so.1.2\n/opt/v/lib libother.so", "/etc/ld.so.conf.d")
    assert findings(WELL, WELL, stale) == [
        f"warning c3: {WHERE}: lacks libv.so.1 of /opt/v/lib, which lie there | them in it, as on c[1-2] | {MEND}"
    ]


def test_folder_of_which_the_cache_has_nothing_is_told_of_each_node_once() -> None:
    stale = node("", "/opt/v/lib liba.so.1\n/opt/v/lib libv.so.1.2", "/etc/ld.so.conf.d")
    (line,) = findings(WELL, WELL, stale)
    assert line.startswith(f"warning c3: {WHERE}: lacks liba.so.1, libv.so.1 of /opt/v/lib, which lie there | ")
    assert findings(stale, stale, stale) == [
        (
            f"warning c[1-3]: {WHERE}: lacks liba.so.1, libv.so.1.2 of /opt/v/lib, and has nothing else of there: /etc/ld.so.conf.d is newer | "
            f"the libraries of all configured folders | {MEND}"
        )
    ]
    assert findings(node("", "/opt/v/lib liba.so.1")) == []  # who can tell what the linker makes of that file?
    (line,) = findings(node("", "/opt/v/lib liba.so.1", "missing"))
    assert "is not there: no program finds liba.so.1 of /opt/v/lib | " in line


def test_folder_that_the_cache_still_has_is_told() -> None:
    (line,) = findings(WELL, WELL, node("/opt/old libx.so.2\n/opt/v/lib liba.so.1 libv.so.1"))
    assert line.startswith(
        f"warning c3: {WHERE}: has libx.so.2 of /opt/old: no line of /etc/ld.so.conf.d names that folder | "
    )
    assert line.endswith(MEND)


def test_other_libraries_in_a_folder_are_a_note_and_ldconfig_alone_is_not_the_hint() -> None:
    assert findings(WELL, WELL, node("/opt/v/lib liba.so.1\n/usr/local/lib libmine.so.1")) == [
        (
            f"note c3: {WHERE}: also has libmine.so.1 of /usr/local/lib and lacks libv.so.1 of /opt/v/lib | the same libraries, as on c[1-2] | "
            "what is intended there? install or remove what differs, then `ldconfig`"
        )
    ]


def test_nodes_with_other_folders_are_told_of_these_alone() -> None:
    (line,) = findings(WELL, WELL, node("", folders="/usr/local/lib (/etc/ld.so.conf.d/libc.conf)"))
    assert line.startswith("warning c3: /etc/ld.so.conf.d: lacks /opt/v/lib")


def test_library_before_the_systems_is_moved_away_and_an_error_where_an_entry_gets_it() -> None:
    cached = "/opt/v/lib liba.so.1 libv.so.1\n/usr/local/lib libstdc++.so.6"
    odd = node(cached) | {"linker.shadows": "/usr/local/lib libstdc++.so.6"}
    away = "on the node: `mkdir -p /usr/local/lib/away && mv /usr/local/lib/libstdc++.so.6* /usr/local/lib/away && ldconfig`"
    said = f"{WHERE}: has libstdc++.so.6 of /usr/local/lib, which programs get and not the system's"
    assert findings(WELL, WELL, odd) == [f"warning c3: {said} | the system's, as on c[1-2] | {away}"]
    line = "libstdc++.so.6 /usr/local/lib/libstdc++.so.6 /usr/local/lib/libstdc++.so.6 GLIBCXX_3.4.28 abc"
    answers = {"c1": WELL, "c2": WELL, "c3": odd | {"libraries.from.t/1": line}}
    assert told(linker, evidence(answers, samples=("t/1",))) == [
        f"error c3: {said}; t/1 gets libstdc++.so.6 of /usr/local/lib | the system's, as on c[1-2] | {away}"
    ]


def test_folder_of_one_node_is_taken_out_and_an_error_where_an_entry_gets_a_library_of_it() -> None:
    odd = node("", folders=f"{CONF}\n/opt/ana/lib (/etc/ld.so.conf.d/ana.conf)")
    said = "/etc/ld.so.conf.d: also has /opt/ana/lib (/etc/ld.so.conf.d/ana.conf)"
    command = (
        r"on the node: `sed -i '\%^[[:space:]]*/opt/ana/lib[[:space:]]*$%d' /etc/ld.so.conf.d/ana.conf && ldconfig`"
    )
    (line,) = findings(WELL, WELL, odd)
    assert line.startswith(f"warning c3: {said} | ")
    assert f" | {command}; " in line
    gets = {"libraries.from.t/1": "libz.so.1 /opt/ana/lib/libz.so.1 /opt/ana/lib/libz.so.1.3 - abc"}
    (line,) = told(linker, evidence({"c1": WELL, "c2": WELL, "c3": odd | gets}, samples=("t/1",)))
    assert line.startswith(f"error c3: {said}; t/1 gets libz.so.1 of /opt/ana/lib | ")
    (line,) = findings(WELL, WELL, node("", folders=CONF.splitlines()[1]))
    assert r"`printf '\n%s\n' /opt/v/lib >>/etc/ld.so.conf.d/v.conf && ldconfig`" in line


def test_lines_that_begin_alike_are_left_alone(tmp_path: Path) -> None:
    conf = tmp_path / "tool.conf"
    conf.write_text("/opt/tool/lib64\n/opt/tool/lib")
    well = f"/opt/tool/lib64 ({conf})"
    (finding,) = found(
        linker,
        evidence(
            {
                name: node("", folders=f"{well}\n/opt/tool/lib ({conf})") if name == "c2" else node("", folders=well)
                for name in ("c1", "c2", "c3")
            }
        ),
    )
    (run,) = [action.command for action in finding.actions if action.do == "run"]
    subprocess.run(["/bin/sh", "-c", run.removesuffix(" && ldconfig")], check=True)
    assert conf.read_text() == "/opt/tool/lib64\n"


def test_file_of_a_package_is_not_edited_and_one_that_was_changed_is() -> None:
    odd = node("", folders=f"{CONF}\n/opt/cuda/lib64 (/etc/ld.so.conf.d/cuda.conf)")
    of_package = {"linker.packaged": "/etc/ld.so.conf.d/cuda.conf cuda-12"}
    end = (
        "/etc/ld.so.conf.d/cuda.conf is as the package cuda-12 wrote it: the same package on all nodes, then `ldconfig`"
    )
    (line,) = findings(WELL, WELL, odd | of_package)
    assert line.endswith(f" | {end}")
    (line,) = findings(odd | of_package, odd | of_package, WELL)  # it is not there
    assert line.endswith(f" | {end}")
    (line,) = findings(WELL, WELL, odd)
    assert "cuda.conf && ldconfig`" in line
    there = f"{CONF}\ninclude /etc/ld.so.conf.d/*.conf (/etc/ld.so.conf)"
    well = node("", folders=there) | {"linker.packaged": "/etc/ld.so.conf libc-bin"}
    (line,) = findings(well, well, node("", folders=CONF))
    assert r"`printf '\n%s\n' 'include /etc/ld.so.conf.d/*.conf' >>/etc/ld.so.conf && ldconfig`" in line


def test_library_of_a_vendors_package_is_not_moved() -> None:
    cached = "/opt/v/lib liba.so.1 libv.so.1\n/usr/local/lib libibverbs.so.1"
    odd = node(cached) | {"linker.shadows": "/usr/local/lib libibverbs.so.1 ofed"}
    (line,) = findings(WELL, WELL, odd)
    assert line.endswith(
        "| on the node: the package ofed has them: is it intended there? else take it away, then `ldconfig`"
    )
