"""The store under EasyBuild: what is built on is verified, what a build uses stays, and what dead builds left goes."""

from __future__ import annotations

import grp
import json
import os
import pwd
import re
import socket
import time
from pathlib import Path
from typing import Any

import pytest

from envmgr.backends.easybuild.items import module_file
from envmgr.builds.slurm import requested_installs, sweep
from envmgr.builds.slurm.folder import BuildAnswer, write_answer
from envmgr.catalog.site import load_site
from envmgr.errors import EnvmgrError, ErrorData
from envmgr.nodes.jobs import JobSeen
from envmgr.report import SilentReporter
from envmgr.store.jobtable import holding
from envmgr.store.prefix import Install, Item, Prefix
from envmgr.store.verify import Looked, Verified
from envmgr.system.files import remove_tree
from envmgr.system.run import Runner
from tests.helpers.easybuild.leftovers import nothing_left
from tests.helpers.easybuild.paused_build import compiling, orphan_a_compiler, release, rows, signs, slow
from tests.helpers.easybuild.workshop import AM_ROOT, BUILD_USER, Workshop
from tests.helpers.scenes import error_of, finish, kill, no_processes, plain, tamper


@pytest.fixture
def box(workshop: Workshop) -> Workshop:
    signs(workshop).mkdir()
    signs(workshop).chmod(0o777)
    return workshop


def install(box: Workshop, name: str) -> Install:
    (found,) = [i for i in box.items() if i.startswith(f"{name}/")]
    return Prefix(box.prefix).install_at(f"store/{found}")


def program(box: Workshop, name: str) -> Path:
    return install(box, name).path / "bin" / "toy"


def tampered(box: Workshop, dependencies: str) -> Path:
    """`base` is built, and then changed; `toy`, which needs it, is locked."""
    box.toy("base")
    box.locked("base/1.0", "base-1.0.eb")
    box.ok("build", "base/1.0", "--no-publish")
    fields: dict[str, Any] = {dependencies: [("base", "1.0")]}
    box.toy(**fields)
    box.locked("toy/1.0", "toy-1.0.eb")
    path = program(box, "base")
    tamper(path, "#!/bin/sh\necho poison\n")
    return path


# What is built on is verified first


@pytest.mark.parametrize("dependencies", ["builddependencies", "dependencies"])
def test_nothing_is_built_on_a_dependency_that_was_changed(box: Workshop, dependencies: str) -> None:
    tampered(box, dependencies)
    done = box.run("build", "toy/1.0")
    assert done.code == 3
    assert error_of(done, box) == (
        "error[install-differs]: ROOT/prefix/store/base/1.0-DIGEST is not what its manifest says\n"
        "  bin/toy: size, sha256 changed\n"
        "  toy/1.0 was not built\n"
        "  log: LOG\n"
        "\n"
        "hint: files of it changed after the build: find the cause; `envmgr build --again toy/1.0` makes it again"
    )
    assert [i.partition("/")[0] for i in box.items()] == ["base"]
    assert box.current() is None
    assert nothing_left(box) == []
    box.ok("build", "--again", "toy/1.0")
    box.ok("build", "toy/1.0")
    assert [i.partition("/")[0] for i in box.items()] == ["base", "toy"]
    assert box.shell("module load toy/1.0; toy").stdout == "toy 1.0\n"
    assert nothing_left(box) == []


def test_what_a_dependency_runs_with_is_verified_too_and_each_install_once(box: Workshop) -> None:
    box.toy("below")
    box.toy("base", dependencies=[("below", "1.0")])
    box.locked("base/1.0", "base-1.0.eb")
    box.ok("build", "base/1.0")
    for name in ("left", "right"):
        box.toy(name, builddependencies=[("base", "1.0")])
        box.locked(f"{name}/1.0", f"{name}-1.0.eb")
    log = box.ok("build", "left/1.0", "right/1.0", "-j", "2", "--no-publish", "--format", "json").data["log"]
    verified = re.findall(r"begin (\w+)/1\.0 verify$", Path(log).read_text(), re.MULTILINE)
    assert sorted(verified) == ["base", "below"]
    tamper(program(box, "below"), "poison")
    box.toy("last", builddependencies=[("base", "1.0")])
    box.locked("last/1.0", "last-1.0.eb")
    done = box.run("build", "last/1.0")
    assert "error[install-differs]: " in done.stderr
    assert "/store/below/1.0-" in done.stderr
    assert not any(i.startswith("last/") for i in box.items())


def test_what_was_made_or_looked_at_in_this_run_is_not_looked_at_again(
    box: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[str] = []
    prefix = Prefix(box.prefix)
    a, b, c = (prefix.install_at(f"store/{name}/1.0-0123456{n}") for n, name in enumerate("abc"))

    def look(install: Install, reporter: object) -> Looked:
        looked.append(install.relative)
        return Looked((), (c.relative,) if install == b else ())

    monkeypatch.setattr("envmgr.store.verify.verify_install", look)
    intact = Verified()
    intact.made(a.relative)
    item = Item(prefix.install_at("store/d/1.0-01234567"), (a, b), (b,))
    for _ in range(2):
        intact.require_needs(item, "d/1.0", Runner(), SilentReporter())
    assert looked == [b.relative, c.relative]


def test_build_with_nothing_to_do_verifies_nothing(box: Workshop) -> None:
    tampered(box, "dependencies")
    assert box.ok("build", "base/1.0", "--no-publish", "--format", "json").data["built"] == []


# EasyBuild's own module is part of the install


@pytest.mark.parametrize("how", ["missing", "sha256 changed"])
def test_private_module_that_was_moved_away_or_edited_is_told(box: Workshop, how: str) -> None:
    box.toy("base")
    box.locked("base/1.0", "base-1.0.eb")
    box.ok("build", "base/1.0")
    module = module_file(install(box, "base"))
    good = module.read_bytes()
    if how == "missing":
        module.unlink()
    else:
        tamper(module, module.read_text() + 'setenv("POISON", "1")\n')
    shown = f"{module.relative_to(box.prefix)}: {how}"
    done = box.run("verify", "--format", "json")
    assert done.code == 1
    (finding,) = done.data["findings"]
    assert (finding["where"], finding["found"]) == ("base/1.0", shown)
    assert "`envmgr build --again base/1.0` makes it again" in finding["hint"]

    box.toy(dependencies=[("base", "1.0")])
    box.locked("toy/1.0", "toy-1.0.eb")
    done = box.run("build", "toy/1.0")
    assert done.code == 3
    assert error_of(done, box).splitlines()[:2] == [
        "error[install-differs]: ROOT/prefix/store/base/1.0-DIGEST is not what its manifest says",
        f"  {plain(shown, box)}",
    ]
    box.ok("build", "--again", "base/1.0")  # what the finding's hint says
    assert module.read_bytes() == good
    box.ok("build", "toy/1.0", "base/1.0")
    assert module.read_bytes() == good
    assert box.run("verify").code == 0


# gc and builds under way


def test_gc_keeps_what_a_running_build_will_need(box: Workshop) -> None:
    """`gdep` is finished, in no generation, and needed only by what is built after what is built now."""
    box.policies |= {"keep_days": 0}
    box.write_site()
    box.toy("gdep")
    box.locked("gdep/1.0", "gdep-1.0.eb")
    box.ok("build", "gdep/1.0", "--no-publish")
    slow(box)
    box.toy("top", builddependencies=[("gdep", "1.0")], dependencies=[("toy", "1.0")])
    box.locked("top/1.0", "top-1.0.eb")
    process = compiling(box, "top/1.0")
    assert box.ok("gc", "--dry-run", "--format", "json").data["installs"] == []
    assert box.ok("gc", "--format", "json").data["installs"] == []
    release(box, "toy")
    done = finish(process)
    assert done.code == 0, done.stderr
    (gone,) = box.ok("gc", "--format", "json").data["installs"]
    assert gone.startswith("store/gdep/")
    assert nothing_left(box) == []
    assert not list(box.prefix.glob("var/jobs/holds/*"))


# What dead builds left


def test_module_of_an_install_that_a_killed_gc_took_goes(box: Workshop) -> None:
    box.toy()
    box.locked("toy/1.0", "toy-1.0.eb")
    box.ok("build", "toy/1.0", "--no-publish")
    found = install(box, "toy")
    found.manifest.unlink()
    remove_tree(found.path)
    assert module_file(found).exists()
    box.ok("gc")
    assert nothing_left(box) == []


def killed_build(box: Workshop) -> None:
    """Of the slow toy, in the midst of its compilation."""
    slow(box)
    box.locked("toy/1.0", "toy-1.0.eb")
    kill(compiling(box))
    no_processes(box)


def test_all_of_a_killed_build_goes_with_the_next_run_though_its_easyconfig_was_edited(box: Workshop) -> None:
    killed_build(box)
    assert len(rows(box)) == 1
    assert len(list((box.root / "build").glob("*/toy-*"))) == 1
    box.toy("other")
    box.locked("other/1.0", "other-1.0.eb")
    box.ok("build", "other/1.0")
    assert nothing_left(box) == []
    assert not list(box.prefix.glob("var/jobs/holds/*"))


def test_gc_clears_rows_of_dead_builds_and_ends_their_processes(box: Workshop) -> None:
    slow(box)
    box.locked("toy/1.0", "toy-1.0.eb")
    orphan_a_compiler(box)
    assert "of a build that was killed" in box.ok("gc").stderr
    assert nothing_left(box) == []


def test_row_of_another_host_goes_once_its_pulse_is_dead_and_its_folder_is_not_ours(box: Workshop) -> None:
    killed_build(box)
    (path,) = rows(box)
    keep = box.root / "precious"
    keep.mkdir()
    path.write_text(json.dumps(json.loads(path.read_text()) | {"host": "elsewhere", "work": str(keep)}))
    box.ok("gc")
    assert path.exists()
    os.utime(path, (1, 1))
    box.ok("gc")
    assert rows(box) == []
    assert not list(box.prefix.glob("var/jobs/easybuild-locks/*"))
    assert keep.is_dir()


def killed_elsewhere(box: Workshop) -> tuple[Path, Path]:
    """The row of a killed build, as if another host had made it two minutes ago; and its private folder."""
    killed_build(box)
    (path,) = rows(box)
    (work,) = (box.root / "build").glob("envmgr-build-*/toy-*")
    path.write_text(json.dumps(json.loads(path.read_text()) | {"host": "elsewhere"}))
    os.utime(path, (time.time() - 120,) * 2)
    return path, work


def kept_rows(box: Workshop) -> list[Path]:
    return list(box.prefix.glob("var/jobs/*.left"))


@pytest.mark.parametrize("again", ["gc", "build"])
def test_folder_of_a_build_that_died_on_another_host_goes_with_the_next_run_there(box: Workshop, again: str) -> None:
    _, work = killed_elsewhere(box)
    release(box, "toy")
    box.toy("other")
    box.locked("other/1.0", "other-1.0.eb")
    box.ok("build", "other/1.0")
    (kept,) = kept_rows(box)
    assert rows(box) == []
    assert work.is_dir()  # of another host's folder we see only one of the same path
    kept.write_text(kept.read_text().replace('"elsewhere"', json.dumps(socket.gethostname())))
    box.ok("gc") if again == "gc" else box.ok("build", "toy/1.0")
    assert kept_rows(box) == []
    assert nothing_left(box) == []


def test_kept_row_is_not_trusted_and_goes_when_its_host_stays_away(box: Workshop) -> None:
    _, work = killed_elsewhere(box)
    box.ok("gc")
    (kept,) = kept_rows(box)
    row = json.loads(kept.read_text())
    precious = box.root / "precious" / work.name
    precious.mkdir(parents=True)
    linked = box.root / "envmgr-build-nobody"
    linked.symlink_to(precious.parent)
    for each in (precious.parent, precious):
        box.give(each)
    for wrong in (precious, linked / work.name, work / ".." / ".." / ".." / "precious" / work.name, work.parent):
        kept.write_text(json.dumps(row | {"host": socket.gethostname(), "work": str(wrong)}))
        box.give(kept)
        box.ok("gc")
        assert kept_rows(box) == []
        assert precious.is_dir()
        assert work.is_dir()
    kept.write_text(json.dumps(row))
    box.ok("gc")
    assert kept_rows(box) == [kept]
    os.utime(kept, (time.time() - 31 * 86400,) * 2)
    box.ok("gc")
    assert kept_rows(box) == []


def test_kept_row_of_an_install_that_is_being_built_is_left_alone(box: Workshop) -> None:
    _, work = killed_elsewhere(box)
    (signs(box) / "toy").unlink()
    process = compiling(box)
    (kept,) = kept_rows(box)
    kept.write_text(kept.read_text().replace('"elsewhere"', json.dumps(socket.gethostname())))
    box.ok("gc")
    assert work.is_dir()
    release(box, "toy")
    done = finish(process)
    assert done.code == 0, done.stderr
    assert kept_rows(box) == [kept]
    box.ok("gc")
    assert kept_rows(box) == []


# Requests of Slurm jobs


def request(box: Workshop, name: str, **row: object) -> Path:
    """The folder of a job, as a submitter leaves it that was killed."""
    found = install(box, "toy") if name == "toy" else Prefix(box.prefix).install_at(f"store/{name}/1.0-01234567")
    folder = box.prefix / "var/jobs/slurm" / f"{name}-{found.label}"
    folder.mkdir(parents=True)
    (folder / "request.json").write_text(
        json.dumps({"schema_version": 1, "item": found.relative, "uses": [f"store/below-{name}/1.0-01234567"]})
    )
    told = {
        "schema_version": 1,
        "job": "7",
        "item": found.relative,
        "user": "me",
        "host": "login",
        "submitted": "2026-01-01T00:00:00Z",
        **row,
    }
    (folder / "slurm.json").write_text(json.dumps(told))
    return folder


def seen_by_slurm(monkeypatch: pytest.MonkeyPatch, *jobs: JobSeen) -> None:
    monkeypatch.setattr(
        "envmgr.builds.slurm.submit.see_jobs",
        lambda names, _site, _runner: {str(n): j for n, j in enumerate(jobs) if j.name in names},
    )


def test_requests_keep_what_their_jobs_use_until_their_end_was_told(box: Workshop) -> None:
    prefix = Prefix(box.prefix)
    waiting = request(box, "waiting")
    request(box, "told", told=True)
    assert requested_installs(prefix, renew=True) == {"store/waiting/1.0-01234567", "store/below-waiting/1.0-01234567"}
    answer = BuildAnswer(job="7", host="c1", seconds=1.0, error=ErrorData.of(EnvmgrError("build-failed", "no")))
    write_answer(waiting / "request.json", answer)
    assert requested_installs(prefix, renew=True) == set()


def test_request_of_a_killed_submitter_goes_once_its_install_is_there(
    box: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    box.toy()
    box.locked("toy/1.0", "toy-1.0.eb")
    box.ok("build", "toy/1.0")
    site, prefix = load_site(box.root / "site.yaml", {}), Prefix(box.prefix)
    done, lost = request(box, "toy"), request(box, "lost")
    sweep(site, Runner())  # without a Slurm that answers
    assert done.exists()
    seen_by_slurm(monkeypatch, JobSeen(f"envmgr-{done.name}", "PENDING", "", ""))
    sweep(site, Runner())
    assert done.exists()
    seen_by_slurm(monkeypatch, JobSeen(f"envmgr-{done.name}", "COMPLETED", "", ""))
    with holding(prefix, [install(box, "toy").relative], Runner(), SilentReporter()):
        sweep(site, Runner())
        assert done.exists()  # somebody follows it
    sweep(site, Runner())
    assert (done.exists(), lost.exists()) == (False, True)
    for path in (*lost.iterdir(), lost):
        os.utime(path, (1, 1))
    sweep(site, Runner())
    assert not lost.exists()


# The site's group


@pytest.mark.skipif(not AM_ROOT, reason="gives folders to a group that the build user is not in")
def test_group_that_is_named_later_reaches_easybuild_s_modules_and_the_job_table(box: Workshop) -> None:
    box.toy()
    box.locked("toy/1.0", "toy-1.0.eb")
    box.ok("build", "toy/1.0")
    other = pwd.getpwnam("games").pw_gid
    folders = [
        box.prefix / name
        for name in ("easybuild", "easybuild/modules", "easybuild/tools", "var/jobs", "var/jobs/easybuild-locks")
    ]
    module = module_file(install(box, "toy"))
    for path in (*folders, module.parent, module):
        os.chown(path, -1, other)
    module.parent.chmod(0o700)
    group = grp.getgrgid(pwd.getpwnam(BUILD_USER).pw_gid).gr_name
    box.policies |= {"group": group, "umask": "027"}
    box.write_site()
    box.toy("more")
    box.locked("more/1.0", "more-1.0.eb")
    box.ok("build", "more/1.0")
    more = module_file(install(box, "more"))
    for folder in (*folders, module.parent, more.parent):
        assert (folder.group(), folder.stat().st_mode & 0o2050) == (group, 0o2050), folder
    for file in (module, more):
        assert (file.group(), oct(file.stat().st_mode & 0o7777)) == (group, "0o444"), file
    assert box.run("verify").code == 0


# What is told of what is missing


def test_plan_and_list_name_a_needed_install_that_is_gone(box: Workshop) -> None:
    box.toy("base")
    box.toy(dependencies=[("base", "1.0")])
    box.locked("toy/1.0", "toy-1.0.eb")
    box.ok("build", "toy/1.0")
    base, toy = install(box, "base"), install(box, "toy")
    remove_tree(base.path)
    *planned, last = box.ok("build", "toy/1.0", "--dry-run").stdout.splitlines()
    assert last.startswith("toy/1.0: its recipe has no test, so only the default ones run")
    assert planned == [
        f"toy/1.0: reuse {toy.relative} (an install that it stands on is missing); module unchanged",
        f"  build  {base.relative}",
    ]
    (row,) = [e for e in box.ok("list", "--format", "json").data["entries"] if e["entry"] == "toy/1.0"]
    assert (row["state"], row["notes"]) == ("published", [f"broken: {base.relative} is gone; build it again"])
    assert f"broken: {base.relative} is gone; build it again" in box.ok("list").stdout
    box.ok("build", "toy/1.0")
    (row,) = [e for e in box.ok("list", "--format", "json").data["entries"] if e["entry"] == "toy/1.0"]
    assert row["notes"] == []
    assert nothing_left(box) == []
