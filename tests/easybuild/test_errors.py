"""What goes wrong with an EasyBuild entry, as its administrator reads it; and that nothing half made stays."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest
import yaml

from envmgr.backends.easybuild.lock import LOCK_NAME
from envmgr.backends.easybuild.settings import EASYBUILD
from envmgr.system.files import sha256_file, shipped
from tests.helpers.easybuild.failure_output import LOCK_AGAIN, building, locking, patched, told
from tests.helpers.easybuild.source_archives import write_tar
from tests.helpers.easybuild.workshop import AM_ROOT, BUILD_USER, Workshop, easybuild_home
from tests.helpers.scenes import error_of, plain

# The recipe


def test_faults_of_a_recipe_s_input_are_all_told(workshop: Workshop) -> None:
    workshop.entry(
        "toy/1.0", "../x.eb", input={"nope": 1, "easybuild": "4.9.0", "accept_eula": ["a b"], "unhashed": {"file": " "}}
    )
    faults = [
        "input.easyconfig: must be the file name of an easyconfig, such as zlib-1.3.1.eb",
        "input.easybuild: must be 5.0.0 or newer: the exit codes and hooks of older ones are not understood",
        "input.accept_eula: `a b` is not the name of a software",
        "input.unhashed: `file` needs a reason",
        "input.nope: unknown field",
    ]
    done = workshop.run("lock", "toy/1.0")
    assert done.code == 2
    assert error_of(done, workshop) == "\n  ".join(
        ["error[recipe-invalid]: the easybuild input of toy/1.0 has faults", "entry toy/1.0", *faults]
    )
    checked = workshop.run("check")
    assert checked.code == 1
    lines = [line for line in plain(checked.stdout, workshop).splitlines() if ": toy/1.0" in line]
    errors = [line for line in lines if line.startswith("error")]
    assert errors == [f"error[recipe]: toy/1.0: ROOT/recipes/toy/1.0/recipe.yaml: {fault}" for fault in faults]
    assert [line.partition(":")[0] for line in lines if line not in errors] == ["warning[tests]", "warning[lock]"]


def test_path_for_a_file_name_among_unhashed_sources(workshop: Workshop) -> None:
    workshop.entry("toy/1.0", "toy-1.0.eb", input={"unhashed": {"a/b.tar.gz": "trusted"}})
    done = workshop.run("check")
    assert "input.unhashed.a/b.tar.gz: is a path, not a file name" in done.stdout
    assert done.code == 1


def test_unknown_easyconfig(workshop: Workshop) -> None:
    workshop.toy()
    workshop.entry("toy/1.0", "toyy-1.0.eb")
    done = workshop.run("lock", "toy/1.0")
    assert done.code == 2
    text = error_of(done, workshop)
    assert text.splitlines()[:6] == [
        "error[unknown-easyconfig]: there is no easyconfig toyy-1.0.eb",
        "  entry toy/1.0",
        "  looked in ROOT/easyconfigs",
        f"  looked in {shipped('easyconfigs')}",
        f"  looked in {easybuild_home() / 'easybuild/easyconfigs'}",
        "",
    ]
    assert text.splitlines()[6].startswith("hint: did you mean toy-1.0.eb")
    machine = workshop.run("lock", "toy/1.0", "--format", "json")
    assert {k: machine.data[k] for k in ("schema", "reference", "exit_code")} == {
        "schema": "envmgr.error/1",
        "reference": "unknown-easyconfig",
        "exit_code": 2,
    }


def test_solver_is_not_for_easybuild(workshop: Workshop) -> None:
    workshop.entry("toy/1.0", "toy-1.0.eb")
    done = workshop.run("lock", "toy/1.0", "--solver", "rattler")
    assert done.code == 2
    assert error_of(done, workshop) == (
        "error[unknown-solver]: there is no solver `rattler`\n  entry toy/1.0\n\nhint: easybuild has none: leave it out"
    )


# The easyconfig, at lock


def test_unresolvable_dependency(workshop: Workshop) -> None:
    """EasyBuild itself does not say which easyconfig wants it."""
    workshop.toy("nada")
    workshop.toy("middle", dependencies=[("nope", "9.9"), ("nada", "1", "-x")])
    workshop.toy(dependencies=[("middle", "1.0")])
    hint = "an easyconfig of exactly that version, toolchain and suffix must lie in one of the folders, or be among filter_deps"
    assert locking(workshop) == (
        "error[unresolved-dependency]: EasyBuild cannot resolve what toy-1.0.eb depends on\n"
        "  entry toy/1.0\n"
        "  easyconfig toy-1.0.eb\n"
        "  Missing dependencies: nope/9.9, nada/1-x (no easyconfig file or existing module found)\n"
        "  nope/9.9 is wanted by middle-1.0.eb\n"
        "  nada/1-x is wanted by middle-1.0.eb\n"
        "  there is no easyconfig of nope\n"
        "  easyconfigs of nada: nada-1.0.eb\n"
        "\n"
        f"hint: {hint}"
    )


def test_dependencies_that_go_round_in_a_circle(workshop: Workshop) -> None:
    workshop.toy(dependencies=[("other", "1.0")])
    workshop.toy("other", dependencies=[("toy", "1.0")])
    assert locking(workshop) == (
        "error[unresolved-dependency]: the dependencies of toy-1.0.eb form a circle\n"
        "  entry toy/1.0\n"
        "  easyconfig toy-1.0.eb\n"
        "  among toy-1.0.eb, other-1.0.eb\n"
        "\n"
        "hint: take one of these dependencies out"
    )


EASYCONFIGS: dict[str, tuple[Callable[[Workshop], object], str]] = {
    "syntax": (
        lambda box: box.easyconfig("toy", "1.0", "def ("),
        "Parsing easyconfig file failed: invalid syntax (<string>, line 7)",
    ),
    "unknown parameter": (
        lambda box: box.toy(nonsense=["x"]),
        (
            "Use of 1 unknown easyconfig parameters detected in toy-1.0.eb: nonsense\n"
            "  If these are just local variables please rename them to start with 'local_', or try using "
            "--fix-deprecated-easyconfigs to do this automatically.\n"
            "  For more information, see https://docs.easybuild.io/easyconfig-files-local-variables/ ."
        ),
    ),
    "unknown easyblock": (
        lambda box: box.toy(easyblock="NoSuchBlock"),
        (
            "Failed to obtain class for NoSuchBlock easyblock (not available?): "
            "No module named 'easybuild.easyblocks.generic.nosuchblock'"
        ),
    ),
    "no easyblock": (lambda box: box.easyconfig("toy", "1.0"), "No software-specific easyblock 'EB_toy' found for toy"),
}


@pytest.mark.parametrize("case", EASYCONFIGS)
def test_easyconfig_that_easybuild_refuses(workshop: Workshop, case: str) -> None:
    write, said = EASYCONFIGS[case]
    write(workshop)
    assert locking(workshop) == (
        "error[easyconfig-invalid]: EasyBuild 5.4.1 refuses toy-1.0.eb\n"
        "  entry toy/1.0\n"
        "  easyconfig toy-1.0.eb\n"
        f"  Failed to process easyconfig ROOT/easyconfigs/t/toy/toy-1.0.eb: {said}"
    )


def test_external_module(workshop: Workshop) -> None:
    workshop.easyconfig("toy", "1.0", "dependencies = [('cray/1.0', EXTERNAL_MODULE)]", easyblock="ConfigureMake")
    assert locking(workshop) == (
        "error[external-module]: toy-1.0.eb depends on a module that EasyBuild does not build: cray/1.0\n"
        "  entry toy/1.0\n"
        "\n"
        "hint: what an entry stands on must be in its lock: use an easyconfig for it"
    )


def test_patch_that_is_missing(workshop: Workshop) -> None:
    patched(workshop).unlink()
    assert locking(workshop) == (
        "error[patch-missing]: the patch toy-mended.patch is not there\n"
        "  entry toy/1.0\n"
        "  easyconfig toy-1.0.eb\n"
        "\n"
        "hint: a patch lies in the folder of the easyconfig that names it"
    )


def test_patch_that_is_not_the_easyconfig_s(workshop: Workshop) -> None:
    patch = patched(workshop, checksum="0" * 64)
    assert locking(workshop) == (
        "error[patch-differs]: ROOT/easyconfigs/t/toy/toy-mended.patch is not what toy-1.0.eb says\n"
        "  entry toy/1.0\n"
        f"  expected {'0' * 64}\n"
        f"  found    {sha256_file(patch)}"
    )


def test_patch_that_changed_since_it_was_locked(workshop: Workshop) -> None:
    patch = patched(workshop)
    workshop.locked("toy/1.0", "toy-1.0.eb")
    good = patch.read_text()
    patch.write_text(good.replace("mended", "bent"))
    assert told(workshop, workshop.run("build", "toy/1.0"), 3) == (
        "error[lock-stale]: ROOT/recipes/toy/1.0/easybuild-lock.yml is older than its easyconfigs\n"
        "  ROOT/easyconfigs/t/toy/toy-mended.patch has changed\n"
        "\n" + LOCK_AGAIN
    )
    patch.write_text(good)
    workshop.ok("build", "toy/1.0")
    assert workshop.shell("module load toy/1.0; toy").stdout == "toy mended\n"


def test_patch_that_is_gone_since_it_was_locked(workshop: Workshop) -> None:
    patch = patched(workshop)
    workshop.locked("toy/1.0", "toy-1.0.eb")
    sha256 = sha256_file(patch)
    patch.unlink()
    assert told(workshop, workshop.run("build", "toy/1.0"), 3) == (
        "error[easyconfig-differs]: toy-mended.patch is not what the lock says\n"
        "  no folder of easyconfigs has t/toy/toy-mended.patch\n"
        f"  sha256 {sha256} was locked\n"
        "  toy/1.0 was not built\n"
        "  log: LOG\n"
        "\n"
        "hint: lock the entry again, or restore the file from git"
    )


def test_easyconfig_in_another_s_folder(workshop: Workshop) -> None:
    path = workshop.toy()
    other = workshop.root / "easyconfigs/o/other"
    other.mkdir(parents=True)
    path.rename(other / path.name)
    assert locking(workshop) == (
        "error[easyconfig-misplaced]: ROOT/easyconfigs/o/other/toy-1.0.eb is not where EasyBuild looks for it as a dependency\n"
        "  entry toy/1.0\n"
        "\n"
        "hint: move it to t/toy/toy-1.0.eb in its folder of easyconfigs"
    )


# Checksums


def test_source_without_a_checksum_is_refused_and_accepted_with_a_reason(workshop: Workshop) -> None:
    workshop.toy(checksums=[])
    assert locking(workshop) == (
        "error[source-unhashed]: toy-1.0.eb has no sha256 for its source toy-1.0.tar.gz\n"
        "  entry toy/1.0\n"
        "\n"
        "hint: add the checksum to the easyconfig; or accept it with a reason: input.unhashed: {toy-1.0.tar.gz: why}"
    )
    folder = workshop.entry("toy/1.0", "toy-1.0.eb", input={"unhashed": {"toy-1.0.tar.gz": "we made it"}})
    archive = workshop.root / "mirror/t/toy/toy-1.0.tar.gz"
    away = archive.rename(archive.with_name("away"))
    done = workshop.run("lock", "toy/1.0")
    assert done.code == 2
    assert error_of(done, workshop) == (
        "error[source-unhashed]: toy-1.0.tar.gz has no sha256, and no file of that name is here to take it from\n"
        "  entry toy/1.0\n"
        "\n"
        "hint: put it into a folder of sources.mirrors (site.yaml), as t/toy/toy-1.0.tar.gz, after you looked at it"
    )
    away.rename(archive)
    done = workshop.ok("lock", "toy/1.0")
    assert "toy-1.0.tar.gz has no checksum upstream: locked by the file in a mirror (we made it)" in done.stdout
    (item,) = yaml.safe_load((folder / LOCK_NAME).read_text())["items"]
    assert item["sources"] == [{"name": archive.name, "sha256": sha256_file(archive), "unhashed": "we made it"}]
    workshop.ok("build", "toy/1.0")


def test_of_several_accepted_checksums_that_of_the_file_that_is_here_is_locked(workshop: Workshop) -> None:
    workshop.toy()
    archive = workshop.root / "mirror/t/toy/toy-1.0.tar.gz"
    here, elsewhere = sha256_file(archive), "1" * 64
    workshop.toy(checksums=[(elsewhere, here)])
    folder = workshop.locked("toy/1.0", "toy-1.0.eb")
    assert yaml.safe_load((folder / LOCK_NAME).read_text())["items"][0]["sources"][0]["sha256"] == here
    archive.rename(archive.with_name("away"))
    workshop.ok("lock", "toy/1.0")
    assert yaml.safe_load((folder / LOCK_NAME).read_text())["items"][0]["sources"][0]["sha256"] == elsewhere


def test_checksum_that_is_wrong_in_the_easyconfig(workshop: Workshop) -> None:
    workshop.toy(checksums=["0" * 64])
    text = building(workshop)
    assert text.startswith(
        "error[source-differs]: toy/1.0: toy-1.0.tar.gz is not what the lock names\n"
        f"  sha256 {'0' * 64}\n"
        "  file://ROOT/mirror/t/toy/toy-1.0.tar.gz: sha256 is "
    )


def test_source_that_nobody_has(workshop: Workshop) -> None:
    workshop.toy(download_instructions="Ask the vendor for it.")
    (workshop.root / "mirror/t/toy/toy-1.0.tar.gz").unlink()
    text = building(workshop)
    assert text.startswith("error[source-missing]: toy/1.0: toy-1.0.tar.gz is missing\n  sha256 ")
    assert "\n  toy-1.0.eb says: Ask the vendor for it.\n" in text


# The lock


def edited(box: Workshop, change: Callable[[dict[str, Any]], object]) -> str:
    """What `build` says of a lock of toy and base that `change` edited."""
    path = box.root / "recipes/toy/1.0" / LOCK_NAME
    good = path.read_text()
    document = yaml.safe_load(good)
    change(document)
    path.write_text(yaml.dump(document, sort_keys=False))
    done = box.run("build", "toy/1.0")
    text = told(box, done, 2 if "lock-invalid" in done.stderr else 3)
    path.write_text(good)
    return text.removeprefix(
        "error[lock-invalid]: ROOT/recipes/toy/1.0/easybuild-lock.yml is not a lock of EasyBuild\n"
    )


def test_lock_that_was_edited_by_hand(workshop: Workshop) -> None:
    workshop.toy("base")
    workshop.toy(dependencies=[("base", "1.0")])
    folder = workshop.locked("toy/1.0", "toy-1.0.eb")
    hint = "\n\nhint: run `envmgr lock toy/1.0`"
    assert edited(workshop, lambda d: d["items"].reverse()) == (
        "  toy/1.0 depends on base/1.0, which is not before it" + hint
    )
    assert edited(workshop, lambda d: d["items"].append(d["items"][0])) == "  base/1.0 is there twice" + hint
    assert edited(workshop, lambda d: d.update(items=[])).startswith("  items: ")
    assert edited(workshop, lambda d: d.update(more=1)) == "  more: unknown field" + hint
    assert (
        edited(workshop, lambda d: d["items"][0].update(sha256="abc"))
        == "  items.0.sha256: must be 64 hex digits" + hint
    )
    assert edited(workshop, lambda d: d["items"][0].update(name="../x")) == (
        "  items.0.name: `../x` cannot be a folder's name" + hint
    )
    assert edited(workshop, lambda d: d["items"][0].update(easyconfig="../x.eb")) == (
        "  items.0.easyconfig: must be a file name" + hint
    )
    assert edited(workshop, lambda d: d["items"][0]["sources"][0].update(name="../x")) == (
        "  items.0.sources.0.name: must be a file name" + hint
    )
    assert edited(workshop, lambda d: d["items"][0].update(sha256="0" * 64)).startswith("error[lock-stale]: ")
    path = folder / LOCK_NAME
    path.write_text(path.read_text().replace("items:", "items: ["))
    done = workshop.run("build", "toy/1.0")
    assert done.code == 2
    assert re.sub(r"yml:\d+:\d+: .*", "yml:PLACE", told(workshop, done, 2)) == (
        "error[yaml-syntax]: ROOT/recipes/toy/1.0/easybuild-lock.yml:PLACE"
    )
    path.unlink()
    assert told(workshop, workshop.run("build", "toy/1.0"), 3) == (
        "error[lock-missing]: toy/1.0 has no lock\n  ROOT/recipes/toy/1.0/easybuild-lock.yml\n\n" + LOCK_AGAIN
    )


def test_lock_that_names_another_source_than_the_easyconfig(workshop: Workshop) -> None:
    """Both files are here: it is EasyBuild itself that compares with the easyconfig."""
    workshop.toy()
    folder = workshop.locked("toy/1.0", "toy-1.0.eb")
    other = write_tar(workshop.root / "mirror/t/toy/toy-1.0.tar.gz", "toy-1.0", {"Makefile": "all:\n"})
    lock = folder / LOCK_NAME
    right = yaml.safe_load(lock.read_text())["items"][0]["sources"][0]["sha256"]
    lock.write_text(lock.read_text().replace(right, sha256_file(other)))
    text = told(workshop, workshop.run("build", "toy/1.0"), 3)
    assert text.splitlines()[:2] == [
        "error[source-differs]: EasyBuild refuses a source of toy/1.0",
        "  easyconfig toy-1.0.eb",
    ]
    assert right in text
    assert text.endswith("\nhint: the easyconfig has another checksum than the lock: lock the entry again")


def test_build_dry_run_shows_every_item_and_makes_nothing(workshop: Workshop) -> None:
    base = workshop.toy("base")
    toy = workshop.toy(dependencies=[("base", "1.0")])
    workshop.locked("toy/1.0", "toy-1.0.eb")
    before = sorted(workshop.prefix.rglob("*"))
    said, _, last = plain(workshop.ok("build", "toy/1.0", "--dry-run").stdout, workshop).partition("toy/1.0: its ")
    assert last.startswith("recipe has no test")
    assert said == (
        "toy/1.0: build store/toy/1.0-DIGEST (3 packages, download size unknown); module new\n"
        f"  easybuild-framework  {EASYBUILD}\n"
        f"  base                 1.0    {sha256_file(base)[:8]}\n"
        f"  toy                  1.0    {sha256_file(toy)[:8]}\n"
    )
    (step,) = workshop.ok("build", "toy/1.0", "--dry-run", "--format", "json").data["steps"]
    assert [re.sub(r"-\w{8}$", "", path) for path in step["planned"]["missing"]] == ["store/base/1.0", "store/toy/1.0"]
    assert sorted(workshop.prefix.rglob("*")) == before


# The site and the machine


@pytest.mark.skipif(not AM_ROOT, reason="only root is refused")
def test_root_without_a_build_user(workshop: Workshop) -> None:
    workshop.toy()
    workshop.locked("toy/1.0", "toy-1.0.eb")
    del workshop.settings["build_user"]
    site = workshop.root / "site.yaml"
    site.write_text(json.dumps({k: v for k, v in json.loads(site.read_text()).items() if k != "build_user"}))
    before = sorted(workshop.prefix.rglob("*"))
    assert told(workshop, workshop.run("build", "toy/1.0"), 3) == (
        "error[root-refused]: EasyBuild does not build as root, and the site names no build user\n"
        "\n"
        "hint: useradd --system --create-home envmgr, then in site.yaml: build_user: envmgr"
    )
    assert sorted(workshop.prefix.rglob("*")) == before  # nothing that the build user could not write afterwards


def test_folder_of_builds_with_a_space_in_its_path(workshop: Workshop) -> None:
    workshop.toy()
    workshop.locked("toy/1.0", "toy-1.0.eb")
    workshop.settings["build_dir"] = str(workshop.root / "build/my files")
    workshop.write_site()
    assert told(workshop, workshop.run("build", "toy/1.0"), 3) == (
        f"error[build-folder]: nothing can be compiled in `ROOT/build/my files/envmgr-build-{BUILD_USER}`\n"
        "  spaces, colons, quotes and shell characters do not survive makefiles\n"
        "  toy/1.0 was not built\n"
        "  log: LOG\n"
        "\n"
        "hint: name another place in site.yaml (build_dir), or in $TMPDIR"
    )
    assert not (workshop.root / "build/my files").exists()


@pytest.mark.skipif(not AM_ROOT, reason="needs a second user")
def test_folder_of_builds_that_somebody_else_owns(workshop: Workshop) -> None:
    workshop.toy()
    workshop.locked("toy/1.0", "toy-1.0.eb")
    folder = workshop.root / "build/envmgr-build-nobody"
    folder.mkdir()
    done = workshop.run("build", "toy/1.0")
    assert done.code == 3
    assert error_of(done, workshop) == (
        "error[build-folder]: ROOT/build/envmgr-build-nobody can be changed by other users\n"
        "  software is compiled there: a user who can write it decides what is installed\n"
        "  toy/1.0 was not built\n"
        "  log: LOG\n"
        "\n"
        "hint: remove it, or name another place in site.yaml: build_dir"
    )
    assert folder.is_dir()
    folder.rmdir()
    workshop.ok("build", "toy/1.0")


def test_missing_packages_of_the_system(workshop: Workshop) -> None:
    workshop.toy("base", osdependencies=["no-such-program"])
    workshop.toy(dependencies=[("base", "1.0")], osdependencies=[("nope-devel", "libnope-dev"), ("coreutils", "nope")])
    assert building(workshop) == (
        "error[os-package-missing]: base, toy need packages of the operating system that are not here\n"
        "  no-such-program\n"
        "  nope-devel or libnope-dev\n"
        "  log: LOG\n"
        "\n"
        "hint: dnf install no-such-program nope-devel (Rocky, Alma, RHEL) or apt-get install libnope-dev no-such-program "
        "(Debian, Ubuntu); nodes need the libraries of the same packages to run it"
    )


def test_eula_that_the_recipe_or_the_site_does_not_accept(workshop: Workshop) -> None:
    workshop.easyconfig("CUDA", "1.0", sources=["cuda_1.0_linux.run"], checksums=["0" * 64])
    workshop.entry("cuda/1.0", "CUDA-1.0.eb")
    done = workshop.run("lock", "cuda/1.0")
    assert done.code == 2
    assert error_of(done, workshop) == (
        "error[eula-not-accepted]: CUDA-1.0.eb needs CUDA, whose licence agreement is not accepted\n"
        "  entry cuda/1.0\n"
        "  easyconfig CUDA-1.0.eb\n"
        "  https://docs.nvidia.com/cuda/eula/index.html\n"
        "\n"
        "hint: read it; then add `accept_eula: [CUDA]` to the recipe's input, and `cuda-eula` to policies.licences in site.yaml"
    )
    workshop.entry("cuda/1.0", "CUDA-1.0.eb", input={"accept_eula": ["CUDA"]}, requires={"nvidia_driver": "1.0"})
    workshop.ok("lock", "cuda/1.0")
    assert told(workshop, workshop.run("build", "cuda/1.0"), 3) == (
        "error[licence-not-acknowledged]: cuda/1.0 comes under a licence that the site has not acknowledged\n"
        "  cuda-eula: https://example.org\n"
        "\n"
        "hint: read it; then add `cuda-eula` to policies.licences in site.yaml"
    )


def test_digest_that_collides(workshop: Workshop) -> None:
    workshop.toy()
    workshop.locked("toy/1.0", "toy-1.0.eb")
    workshop.ok("build", "toy/1.0")
    (manifest,) = workshop.prefix.glob("store/toy/*.manifest.json")
    text = manifest.read_text()
    digest = json.loads(text)["digest"]
    manifest.chmod(0o644)
    manifest.write_text(text.replace(digest, digest[:8] + "0" * 56))
    workshop.ok("publish", "--remove", "toy/1.0")
    done = workshop.run("build", "toy/1.0")
    assert done.code == 3
    assert error_of(done, workshop) == (
        "error[digest-collision]: two digests of toy/1.0 share their first 8 digits\n"
        f"  wanted    {digest}\n"
        f"  installed {digest[:8]}{'0' * 56}\n"
        "  log: LOG\n"
        "\n"
        "hint: change the recipe in any way that changes its lock, and lock again"
    )
    assert json.loads(manifest.read_text())["digest"] == digest[:8] + "0" * 56
