"""What an EasyBuild entry may not do: make root run what is not root's, pass a licence by, or differ from its lock."""

from __future__ import annotations

import os
import pwd
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from envmgr.backends.easybuild.lock import LOCK_NAME, read_easybuild_lock
from envmgr.system.files import sha256_file
from tests.helpers.easybuild.workshop import AM_ROOT, BUILD_USER, Workshop, easybuild_home
from tests.helpers.scenes import error_of

POISONED = {"easybuild": "5.4.0"}  # no version that is beside envmgr

only_root = pytest.mark.skipif(not AM_ROOT, reason="what root runs")


def without_build_user(box: Workshop) -> None:
    box.settings["build_user"] = None
    box.write_site()


def who_ran(box: Workshop) -> str:
    """Who executed the easyconfig that `telling` wrote; empty for nobody."""
    note = box.root / "told" / "who"
    return pwd.getpwuid(int(note.read_text())).pw_name if note.exists() else ""


def telling(box: Workshop) -> None:
    """A toy whose easyconfig writes down who executes it."""
    folder = box.root / "told"
    folder.mkdir(exist_ok=True)
    folder.chmod(0o777)
    path = box.toy()
    path.write_text(f"import os\nopen({str(folder / 'who')!r}, 'w').write(str(os.geteuid()))\n" + path.read_text())


def poison(box: Workshop) -> Path:
    """The prefix's EasyBuild of another version, as a build user could have left it: its Python writes down who runs it."""
    real, home = easybuild_home(), box.prefix / "easybuild/tools" / POISONED["easybuild"]
    (home / "bin").mkdir(parents=True)
    for name in ("lib", "easybuild"):
        (home / name).symlink_to(real / name)
    (home / "envmgr.json").write_text('{"contents": "poison"}')
    for folder in (box.prefix, home.parent.parent, home.parent):
        box.give(folder)
    folder = box.root / "told"
    folder.mkdir(exist_ok=True)
    folder.chmod(0o777)
    script = home / "bin" / "python"
    script.write_text(f'#!/bin/sh\nid -u > {folder}/who\nexec {real}/bin/python "$@"\n')
    script.chmod(0o755)
    return script


# Who runs it


@only_root
def test_root_lets_the_build_user_run_easybuild_and_easyconfigs(workshop: Workshop) -> None:
    telling(workshop)
    folder = workshop.entry("toy/1.0", "toy-1.0.eb")
    workshop.ok("lock", "toy/1.0")
    assert who_ran(workshop) == BUILD_USER
    assert (folder / LOCK_NAME).stat().st_uid == 0
    (workshop.root / "told/who").unlink()
    (folder / LOCK_NAME).unlink()
    poison(workshop)
    workshop.entry("toy/1.0", "toy-1.0.eb", input=POISONED)
    workshop.run("lock", "toy/1.0")  # what the stand-in says is refused: it is no 5.4.0
    assert who_ran(workshop) == BUILD_USER


@only_root
def test_root_without_a_build_user_does_not_run_the_prefix_s_easybuild(workshop: Workshop) -> None:
    workshop.toy()
    folder = workshop.entry("toy/1.0", "toy-1.0.eb")
    poison(workshop)
    without_build_user(workshop)
    workshop.ok("lock", "toy/1.0")
    assert who_ran(workshop) == ""
    assert (folder / LOCK_NAME).exists()


@only_root
@pytest.mark.parametrize("change", ["owner", "everyone", "group", "folder"])
def test_root_does_not_run_easyconfigs_that_others_may_write(workshop: Workshop, change: str) -> None:
    telling(workshop)
    workshop.entry("toy/1.0", "toy-1.0.eb")
    without_build_user(workshop)
    path = workshop.root / "easyconfigs/t/toy/toy-1.0.eb"
    nobody = pwd.getpwnam("nobody")
    if change == "owner":
        os.chown(path, nobody.pw_uid, nobody.pw_gid)
        said = f"{path} belongs to nobody, neither to you nor to root"
    elif change == "everyone":
        path.chmod(0o666)
        said = f"{path} can be written by everyone"
    elif change == "group":
        os.chown(path, 0, nobody.pw_gid)
        path.chmod(0o664)
        said = f"{path} can be written by its group"
    else:
        path.parent.chmod(0o777)
        said = f"{path.parent} can be written by everyone"
    told = path.parent if change == "folder" else path
    done = workshop.run("lock", "toy/1.0")
    assert done.code == 2
    assert error_of(done, workshop) == (
        f"error[easyconfig-untrusted]: {said.replace(str(workshop.root), 'ROOT')}\n"
        "  entry toy/1.0\n"
        "  an easyconfig is a program, which root would run: the site names no build user to run it as\n"
        "\n"
        f"hint: name a build_user in site.yaml; or look at it, then `chown` it, or `chmod go-w ROOT/{told.relative_to(workshop.root)}`"
    )
    assert who_ran(workshop) == ""


@only_root
def test_answer_of_the_build_user_that_is_no_lock(workshop: Workshop) -> None:
    workshop.toy()
    folder = workshop.entry("toy/1.0", "toy-1.0.eb", input=POISONED)
    poison(workshop).write_text("#!/bin/sh\necho all is well; echo a broken EasyBuild >&2\n")
    done = workshop.run("lock", "toy/1.0")
    assert done.code == 3
    assert error_of(done, workshop) == (
        "error[easybuild-failed]: EasyBuild 5.4.0 did not resolve toy-1.0.eb\n  entry toy/1.0\n  a broken EasyBuild"
    )
    assert not (folder / LOCK_NAME).exists()


@only_root
def test_build_user_that_cannot_read_the_easyconfigs(workshop: Workshop) -> None:
    workshop.toy()
    workshop.entry("toy/1.0", "toy-1.0.eb")
    (workshop.root / "easyconfigs").chmod(0o700)
    done = workshop.run("lock", "toy/1.0")
    assert done.code == 3
    assert error_of(done, workshop).startswith("error[user-cannot-read]: nobody cannot read ROOT/easyconfigs\n")


@only_root
def test_verbs_that_only_read_execute_nothing_of_it(workshop: Workshop) -> None:
    telling(workshop)
    workshop.locked("toy/1.0", "toy-1.0.eb")
    (workshop.root / "told/who").unlink()
    poison(workshop)
    for argv in (["list"], ["list", "toy/1.0"], ["check"], ["lock", "--all", "--check"], ["copy", "zlib/1.3"]):
        workshop.ok(*argv)
    assert who_ran(workshop) == ""


# Licences


def refused(box: Workshop, entry: str, word: str) -> None:
    """Build, fetch and publish all want the word; `--all` leaves the entry out; with the word nothing is wrong."""
    for verb in ("build", "fetch", "publish"):
        done = box.run(verb, entry)
        assert done.code == 3, done.stderr
        assert error_of(done, box) == (
            f"error[licence-not-acknowledged]: {entry} comes under a licence that the site has not acknowledged\n"
            f"  {word}: https://example.org\n"
            "\n"
            f"hint: read it; then add `{word}` to policies.licences in site.yaml"
        )
    box.policies["licences"] = [word]
    box.write_site()
    box.ok("build", entry, "--dry-run")


def anaconda(box: Workshop, name: str, **fields: Any) -> None:
    box.toy(name, "1.0", **fields)


FROM_ANACONDA: dict[str, Callable[[Workshop], None]] = {
    "by the name of its software": lambda box: anaconda(box, "Anaconda3"),
    "Miniconda": lambda box: anaconda(box, "Miniconda3"),
    "by where its source comes from": lambda box: anaconda(
        box, "harmless", source_urls=["https://repo.anaconda.com/miniconda/"]
    ),
    "by its old place": lambda box: anaconda(box, "harmless", source_urls=["http://repo.continuum.io/archive"]),
}


@pytest.mark.parametrize("how", FROM_ANACONDA)
def test_terms_of_anaconda_hold_whatever_the_entry_is_called(workshop: Workshop, how: str) -> None:
    FROM_ANACONDA[how](workshop)
    (easyconfig,) = (workshop.root / "easyconfigs").glob("*/*/*.eb")
    workshop.locked("tools/1", easyconfig.name)
    refused(workshop, "tools/1", "anaconda-terms")


def test_terms_hold_for_what_an_entry_depends_on(workshop: Workshop) -> None:
    anaconda(workshop, "Anaconda3")
    workshop.toy(dependencies=[("Anaconda3", "1.0")])
    workshop.locked("toy/1.0", "toy-1.0.eb")
    left_out = workshop.ok("build", "--all", "--dry-run").stderr.splitlines()[0]
    assert left_out.startswith("left out, because the licence is not acknowledged: ")
    assert left_out.endswith(", toy/1.0")
    refused(workshop, "toy/1.0", "anaconda-terms")


def test_installer_like_theirs_from_elsewhere_needs_nothing(workshop: Workshop) -> None:
    anaconda(workshop, "Miniforge3", source_urls=["https://github.com/conda-forge/miniforge/releases/download/1"])
    workshop.locked("miniforge/1", "Miniforge3-1.0.eb")
    workshop.ok("build", "miniforge/1", "--dry-run")


def test_eula_that_the_easyconfig_accepts_itself_is_the_site_s_to_accept(workshop: Workshop) -> None:
    workshop.easyconfig("CUDA", "1.0", sources=["cuda_1.0_linux.run"], checksums=["0" * 64], accept_eula=True)
    folder = workshop.locked("gpu/1.0", "CUDA-1.0.eb", requires={"nvidia_driver": "1.0"})
    assert read_easybuild_lock(folder)[0].items[-1].eulas == ("CUDA",)
    refused(workshop, "gpu/1.0", "cuda-eula")


def test_eula_that_is_asked_for_at_the_installation_is_in_the_lock(workshop: Workshop) -> None:
    """AOCC's easyblock asks when it installs, not when it fetches."""
    workshop.easyconfig("AOCC", "4.0.0", sources=["aocc-4.0.0.tar"], checksums=["0" * 64], clangversion="14.0.6")
    folder = workshop.locked("compiler/1", "AOCC-4.0.0.eb")
    assert read_easybuild_lock(folder)[0].items[-1].eulas == ("AOCC",)
    refused(workshop, "compiler/1", "aocc-eula")


def test_eula_that_any_easyconfig_says_it_accepts(workshop: Workshop) -> None:
    workshop.toy(accept_eula=True)
    workshop.locked("toy/1.0", "toy-1.0.eb")
    refused(workshop, "toy/1.0", "toy-eula")


def test_accepted_eula_is_not_a_pattern_to_easybuild(workshop: Workshop) -> None:
    workshop.easyconfig("CUDA", "1.0", sources=["cuda_1.0_linux.run"], checksums=["0" * 64])
    for name in ("C", "CU.A"):
        workshop.entry("cuda/1.0", "CUDA-1.0.eb", input={"accept_eula": [name]})
        assert error_of(workshop.run("lock", "cuda/1.0"), workshop).startswith("error[eula-not-accepted]: ")
    workshop.entry("cuda/1.0", "CUDA-1.0.eb", input={"accept_eula": ["CUDA"]}, requires={"nvidia_driver": "1.0"})
    workshop.ok("lock", "cuda/1.0")


# A source that lies beside its easyconfig


def beside(box: Workshop, *, checksum: str = "", **fields: Any) -> Path:
    """A toy whose only source lies beside its easyconfig."""
    box.toy()
    archive = box.root / "mirror/t/toy/toy-1.0.tar.gz"
    target = box.root / "easyconfigs/t/toy/toy-1.0.tar.gz"
    archive.rename(target)
    box.toy(checksums=[checksum or sha256_file(target)], **fields)
    archive.unlink()
    return target


def test_source_beside_its_easyconfig_is_locked_and_built(workshop: Workshop) -> None:
    archive = beside(workshop)
    folder = workshop.locked("toy/1.0", "toy-1.0.eb")
    (item,) = yaml.safe_load((folder / LOCK_NAME).read_text())["items"]
    assert "sources" not in item
    assert item["files"] == [{"name": "toy-1.0.tar.gz", "sha256": sha256_file(archive)}]
    workshop.ok("build", "toy/1.0")
    assert workshop.shell("module load toy/1.0; toy").stdout == "toy 1.0\n"
    (before,) = workshop.items()
    from tests.helpers.easybuild.source_archives import write_tar

    write_tar(
        archive,
        "toy-1.0",
        {
            "Makefile": "all:\ninstall:\n\tmkdir -p $(PREFIX)/bin; cp toy $(PREFIX)/bin\n",
            "toy": "#!/bin/sh\necho new\n",
        },
    )
    done = workshop.run("build", "toy/1.0")
    assert done.code == 3
    assert error_of(done, workshop).startswith(
        "error[lock-stale]: ROOT/recipes/toy/1.0/easybuild-lock.yml is older than its easyconfigs\n"
        "  ROOT/easyconfigs/t/toy/toy-1.0.tar.gz has changed\n"
    )
    workshop.easyconfig(
        "toy",
        "1.0",
        easyblock="ConfigureMake",
        skipsteps=["configure"],
        sources=[archive.name],
        checksums=[sha256_file(archive)],
        installopts="PREFIX=%(installdir)s",
        sanity_check_paths={"files": ["bin/toy"], "dirs": []},
    )
    workshop.ok("lock", "toy/1.0")
    workshop.ok("build", "toy/1.0")
    assert len(workshop.items()) == 2
    assert before in workshop.items()


def test_source_beside_its_easyconfig_is_what_its_checksum_says(workshop: Workshop) -> None:
    archive = beside(workshop, checksum="0" * 64)
    workshop.entry("toy/1.0", "toy-1.0.eb")
    done = workshop.run("lock", "toy/1.0")
    assert done.code == 3
    assert error_of(done, workshop) == (
        "error[source-differs]: ROOT/easyconfigs/t/toy/toy-1.0.tar.gz is not what toy-1.0.eb says\n"
        "  entry toy/1.0\n"
        f"  expected {'0' * 64}\n"
        f"  found    {sha256_file(archive)}\n"
        "\n"
        "hint: restore it from git, or correct the checksum"
    )
    beside(workshop)
    easyconfig = workshop.root / "easyconfigs/t/toy/toy-1.0.eb"
    easyconfig.write_text(
        "\n".join(line for line in easyconfig.read_text().splitlines() if not line.startswith("checksums")) + "\n"
    )
    assert error_of(workshop.run("lock", "toy/1.0"), workshop).startswith(
        "error[source-unhashed]: toy-1.0.eb has no sha256 for its source toy-1.0.tar.gz\n"
    )
    workshop.entry("toy/1.0", "toy-1.0.eb", input={"unhashed": {"toy-1.0.tar.gz": "we made it"}})
    assert "(we made it)" in workshop.ok("lock", "toy/1.0").stdout


def test_source_beside_its_easyconfig_is_packed_for_a_job(workshop: Workshop, tmp_path: Path) -> None:
    from envmgr.backends.easybuild.easyconfigs import copy_easyconfigs
    from envmgr.catalog.site import load_site

    archive = beside(workshop)
    folder = workshop.locked("toy/1.0", "toy-1.0.eb")
    copy_easyconfigs(read_easybuild_lock(folder)[0].items, load_site(workshop.root / "site.yaml", os.environ), tmp_path)
    assert sha256_file(tmp_path / "t/toy/toy-1.0.tar.gz") == sha256_file(archive)


# The lock and what it says of itself


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"rpath": True}, "rpath: the recipe says nothing, the lock True"),
        ({"filter_deps": ["zlib"]}, "filter_deps: the recipe says nothing, the lock zlib"),
        ({"accept_eula": ["toy"]}, "accept_eula: the recipe says nothing, the lock toy"),
    ],
)
def test_lock_that_was_edited_apart_from_its_recipe(workshop: Workshop, change: dict[str, Any], said: str) -> None:
    workshop.toy()
    folder = workshop.locked("toy/1.0", "toy-1.0.eb")
    path = folder / LOCK_NAME
    document = {**yaml.safe_load(path.read_text()), **change}
    path.write_text(yaml.dump(document, sort_keys=False))
    if "accept_eula" in change:
        workshop.policies["licences"] = ["toy-eula"]
        workshop.write_site()
    done = workshop.run("build", "toy/1.0")
    assert done.code == 3
    assert error_of(done, workshop) == (
        "error[lock-stale]: ROOT/recipes/toy/1.0/easybuild-lock.yml does not match recipe.yaml\n"
        f"  {said}\n"
        "\n"
        "hint: run `envmgr lock toy/1.0` and commit the result"
    )
    assert workshop.run("lock", "toy/1.0", "--check").code == 1


def test_lock_of_another_easybuild_than_its_files(workshop: Workshop) -> None:
    workshop.toy()
    path = workshop.locked("toy/1.0", "toy-1.0.eb") / LOCK_NAME
    path.write_text(yaml.dump({**yaml.safe_load(path.read_text()), "framework": "5.4.0"}, sort_keys=False))
    done = workshop.run("build", "toy/1.0")
    assert done.code == 2
    assert error_of(done, workshop) == (
        "error[lock-invalid]: ROOT/recipes/toy/1.0/easybuild-lock.yml is not a lock of EasyBuild\n"
        "  easybuild_files has easybuild-framework 5.4.1 for EasyBuild 5.4.0\n"
        "\n"
        "hint: run `envmgr lock toy/1.0`"
    )
    assert workshop.run("lock", "toy/1.0", "--check").code == 1


def test_easyblocks_of_another_version_than_the_lock_s_build_nothing(workshop: Workshop) -> None:
    workshop.toy()
    folder = workshop.locked("toy/1.0", "toy-1.0.eb")
    path = folder / LOCK_NAME
    path.write_text(path.read_text().replace("easyblocks: 5.4.1", "easyblocks: 5.3.0"))
    done = workshop.run("build", "toy/1.0")
    assert done.code == 3
    assert error_of(done, workshop) == (
        "error[easybuild-differs]: the lock wants easyblocks 5.3.0 of EasyBuild, its environment has another\n"
        f"  {easybuild_home()}\n"
        "  easyblocks 5.4.1\n"
        "  log: LOG\n"
        "\n"
        "hint: lock the entry again; if that environment was changed, install it again"
    )
    assert workshop.items() == []


# Many entries


def test_bad_entry_does_not_keep_the_others_from_being_locked(workshop: Workshop) -> None:
    workshop.toy("a")
    workshop.toy("z", dependencies=[("nope", "9.9")])
    workshop.easyconfig("CUDA", "1.0", sources=["cuda_1.0_linux.run"], checksums=["0" * 64])
    good, bad = workshop.entry("a/1.0", "a-1.0.eb"), workshop.entry("m/1.0", "nowhere-1.0.eb")
    worse = workshop.entry("z/1.0", "z-1.0.eb")
    acknowledged = workshop.entry(
        "cuda/1.0", "CUDA-1.0.eb", input={"accept_eula": ["CUDA"]}, requires={"nvidia_driver": "1.0"}
    )
    (bad / LOCK_NAME).write_text("as it was")
    done = workshop.run("lock", "--all")
    assert done.code == 2
    text = error_of(done, workshop)
    assert text.startswith("error[unknown-easyconfig]: there is no easyconfig nowhere-1.0.eb\n  entry m/1.0\n")
    assert (
        "\n  error[unresolved-dependency]: EasyBuild cannot resolve what z-1.0.eb depends on\n    entry z/1.0\n" in text
    )
    assert "\n  written: a/1.0, cuda/1.0\n" in text
    assert (good / LOCK_NAME).is_file()
    assert (acknowledged / LOCK_NAME).is_file()
    assert not (worse / LOCK_NAME).exists()
    assert (bad / LOCK_NAME).read_text() == "as it was"
