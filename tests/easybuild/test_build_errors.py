"""Builds by EasyBuild that fail: what is told, and what stays."""

from __future__ import annotations

import re
from pathlib import Path

from envmgr.system.files import sha256_file
from tests.helpers.easybuild.failure_output import KEPT, building, logged, patched, told
from tests.helpers.easybuild.workshop import Workshop


def failed(step: str, *said: str, hint: str = KEPT) -> str:
    lines = [
        f"error[build-failed]: toy/1.0 did not build: the {step} step failed",
        "easyconfig toy-1.0.eb",
        *said,
        "log: LOG",
    ]
    return "\n  ".join(lines) + f"\n\n{hint}"


def test_compile_error_is_shown_with_the_compiler_s_words(workshop: Workshop) -> None:
    workshop.toy(files={"toy.c": "#include <nowhere/zlib.h>\nint main(void) { return 0; }\n"})
    assert building(workshop, "-j", "2") == failed(
        "build",
        "`make -j 2` failed with exit status 2:",
        "toy.c:1:10: fatal error: nowhere/zlib.h: No such file or directory",
        "    1 | #include <nowhere/zlib.h>",
        "      |          ^~~~~~~~~~~~~~~~",
        "compilation terminated.",
        "make: *** [Makefile:3: toy] Error 1",
    )
    assert "fatal error: nowhere/zlib.h" in logged(workshop)


def test_compiler_that_the_kernel_killed_gets_a_hint_of_its_own(workshop: Workshop) -> None:
    said = "g++: fatal error: Killed signal terminated program cc1plus"
    workshop.toy(files={"Makefile": f"all:\n\t@echo '{said}'; exit 1\n"})
    hint = KEPT.replace("hint: ", "hint: out of memory? Build with fewer cores (-j), or on a machine with more; ")
    assert building(workshop, "-j", "1") == failed(
        "build", "`make` failed with exit status 2:", said, "make: *** [Makefile:2: all] Error 1", hint=hint
    )


def test_failing_configure(workshop: Workshop) -> None:
    script = (
        "#!/bin/sh\necho 'checking for libfoo... no'\necho 'configure: error: libfoo 1.2 is required' >&2\nexit 1\n"
    )
    workshop.toy(files={"configure": script}, skipsteps=[])
    assert building(workshop) == failed(
        "configure",
        "`./configure --prefix=ROOT/prefix/store/toy/1.0-DIGEST` failed with exit status 1:",
        "checking for libfoo... no",
        "configure: error: libfoo 1.2 is required",
    )


def test_failing_test_step(workshop: Workshop) -> None:
    makefile = "all:\ncheck:\n\t@echo 'FAIL: t7 expected 4, got 5'; exit 2\n"
    workshop.toy(files={"Makefile": makefile}, runtest="check")
    assert building(workshop) == failed(
        "test",
        "`make check` failed with exit status 2:",
        "FAIL: t7 expected 4, got 5",
        "make: *** [Makefile:3: check] Error 2",
    )


def test_failing_install_step_and_a_command_that_is_ended_by_a_signal(workshop: Workshop) -> None:
    workshop.toy(installopts="PREFIX=/no/such/place")
    text = building(workshop)
    assert text.splitlines()[0] == "error[build-failed]: toy/1.0 did not build: the install step failed"
    assert "cannot create directory" in text
    workshop.toy(prebuildopts="kill -KILL $$; ")
    assert building(workshop, "-j", "1") == failed(
        "build", "`kill -KILL $$; make` was ended by SIGKILL (out of memory?), and said nothing"
    )


def test_patch_that_does_not_apply_and_archive_that_is_cut(workshop: Workshop) -> None:
    patch = patched(workshop)
    patch.write_text(patch.read_text().replace("toy 1.0", "something else"))
    archive = workshop.root / "mirror/t/toy/toy-1.0.tar.gz"
    workshop.toy(patches=[patch.name], checksums=[sha256_file(archive), sha256_file(patch)])
    text = building(workshop)
    assert text.splitlines()[0] == "error[build-failed]: toy/1.0 did not build: the patch step failed"
    assert "Hunk #1 FAILED at 1" in text
    archive.write_bytes(archive.read_bytes()[:200])
    workshop.easyconfig(
        "toy", "1.0", easyblock="ConfigureMake", sources=[archive.name], checksums=[sha256_file(archive)]
    )
    assert building(workshop) == failed(
        "unpack",
        "`tar xzf ROOT/build/envmgr-build-nobody/toy-1.0-DIGEST/sources/t/toy/toy-1.0.tar.gz` failed with exit status 2:",
        "gzip: stdin: unexpected end of file",
        "tar: Unexpected EOF in archive",
        "tar: Error is not recoverable: exiting now",
    )


def test_failing_sanity_check(workshop: Workshop) -> None:
    workshop.toy(
        sanity_check_paths={"files": ["bin/other"], "dirs": ["lib"]},
        sanity_check_commands=["toy && toy --nope | grep impossible"],
    )
    hint = "hint: fix the easyconfig (sanity_check_paths, sanity_check_commands), lock again, and build again"
    head = "error[sanity-check-failed]: toy/1.0 was built, but is not what its easyconfig promises\n  easyconfig toy-1.0.eb\n"
    text = building(workshop)
    assert text.startswith(head + "  no file found at 'bin/other' in ROOT/prefix/store/toy/1.0-DIGEST\n")
    assert "  no (non-empty) directory found at 'lib' in ROOT/prefix/store/toy/1.0-DIGEST\n" in text
    assert text.endswith("\n  log: LOG\n\n" + hint)
    workshop.toy(sanity_check_commands=["toy && toy --nope | grep impossible"])
    assert building(workshop) == (
        f"{head}"
        "  sanity check command toy && toy --nope | grep impossible failed with exit status 1:\n"
        "  toy 1.0\n"
        "  log: LOG\n"
        "\n"
        f"{hint}"
    )


def test_module_that_a_flat_one_cannot_repeat(workshop: Workshop) -> None:
    workshop.toy(modaliases={"t": "toy"})
    assert building(workshop) == (
        "error[module-unreadable]: EasyBuild's module toy/1.0-DIGEST does what a flat module cannot repeat\n"
        '  set_alias("t","toy")\n'
        "  toy/1.0 was not built\n"
        "  log: LOG\n"
        "\n"
        "hint: leave it out of the easyconfig (modaliases, modluafooter), or say it in the recipe's environment"
    )


def test_nothing_is_downloaded_behind_the_lock_s_back(workshop: Workshop) -> None:
    """EasyBuild's ConfigureMake would like a recent config.guess."""
    workshop.toy()
    workshop.locked("toy/1.0", "toy-1.0.eb")
    workshop.ok("build", "toy/1.0")
    log = logged(workshop)
    assert "Failed to download recent config.guess" in log  # it asked
    assert "savannah.gnu.org" not in log


def test_failed_item_keeps_what_stands_below_it(workshop: Workshop) -> None:
    workshop.toy("base")
    workshop.toy(files={"toy.c": "int main(void) { return 0 }\n"}, dependencies=[("base", "1.0")])
    workshop.toy("top", dependencies=[("toy", "1.0")])
    workshop.locked("top/1.0", "top-1.0.eb")
    text = told(workshop, workshop.run("build", "top/1.0"), 3)
    assert text.splitlines()[0] == "error[build-failed]: toy/1.0 did not build: the build step failed"
    assert "\n  not tried, because it stands on that: top/1.0\n" in text
    assert re.search(r"\n  built and kept for the next run: base/1\.0-DIGEST\n", text)
    assert [item.partition("/")[0] for item in workshop.items()] == ["base"]
    before = {p: p.stat().st_mtime_ns for p in workshop.prefix.glob("store/base/**/*")}
    workshop.toy(dependencies=[("base", "1.0")])
    workshop.ok("lock", "top/1.0")
    workshop.ok("build", "top/1.0")
    assert {p: p.stat().st_mtime_ns for p in workshop.prefix.glob("store/base/**/*")} == before


def test_error_as_json_names_the_log(workshop: Workshop) -> None:
    workshop.toy(files={"toy.c": "int main(void) { return 0 }\n"})
    workshop.locked("toy/1.0", "toy-1.0.eb")
    done = workshop.run("build", "toy/1.0", "--format", "json")
    assert done.code == 3
    assert (done.data["schema"], done.data["reference"], done.data["exit_code"]) == (
        "envmgr.error/1",
        "build-failed",
        3,
    )
    assert done.data["context"][0] == "easyconfig toy-1.0.eb"
    assert Path(done.data["log"]).is_file()


def test_pipe_in_an_install_is_refused(workshop: Workshop) -> None:
    workshop.toy(installopts="PREFIX=%(installdir)s && mkfifo %(installdir)s/bin/pipe")
    assert building(workshop) == (
        "error[install-special-file]: ROOT/prefix/store/toy/1.0-DIGEST/bin/pipe is neither file, folder nor link\n"
        "  no manifest can hold a pipe, a socket or a device\n"
        "  toy/1.0 was not built\n"
        "  log: LOG\n"
        "\n"
        "hint: remove it at the end of the build, or have the software make it when it runs"
    )
