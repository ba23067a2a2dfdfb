"""EasyBuild's private environment: whole, or made anew; what the lock says, or an error."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from envmgr.backends.easybuild import Workbench
from envmgr.backends.easybuild.choose_easybuild import (
    Files,
    easybuild_for_build,
    ensure_private,
    find_private,
    site_home,
    user_home,
)
from envmgr.backends.easybuild.installation import EasyBuild, contents_sum, own_places
from envmgr.backends.easybuild.lock import DEFAULT_FILES, EasyBuildLock
from envmgr.catalog.site import Site, load_site
from envmgr.errors import EnvmgrError
from envmgr.report import SilentReporter
from envmgr.system.run import Runner
from tests.helpers.easybuild.small_installation import write_easybuild

# Makes the environment that it is asked for, without a network, and writes down that it was asked.
UV = """\
#!/bin/sh
echo "$1" >>{told}
[ "$1" = venv ] || exit 0
for home; do :; done
mkdir -p "$home/bin"
ln -s {python} "$home/bin/python"
cp -R {contents}/. "$home"
"""


@dataclass
class Scene:
    root: Path
    environ: dict[str, str]
    site: Site

    @property
    def told(self) -> list[str]:
        note = self.root / "told"
        return note.read_text().split() if note.exists() else []

    @property
    def contents(self) -> str:
        """The sha256 of what uv installs."""
        return contents_sum(write_easybuild(self.root / "contents"))

    def ensure(self, home: Path, contents: str = "", files: Files | None = None) -> EasyBuild:
        return ensure_private("5.4.1", home, self.bench(), contents=contents, files=files)

    def bench(self, reporter: SilentReporter | None = None) -> Workbench:
        return Workbench(self.site, self.environ, Runner(), reporter or SilentReporter())


class Listening(SilentReporter):
    def __init__(self) -> None:
        self.said: list[str] = []

    def say(self, text: str) -> None:
        self.said.append(text)


@pytest.fixture
def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Scene:
    write_easybuild(tmp_path / "contents")
    uv = tmp_path / "uv"
    uv.write_text(UV.format(told=tmp_path / "told", python=sys.executable, contents=tmp_path / "contents"))
    uv.chmod(0o755)
    monkeypatch.setattr("uv.find_uv_bin", lambda: str(uv))
    (tmp_path / "site.yaml").write_text(f"prefix: {tmp_path / 'prefix'}\n")
    environ = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache"), "HOME": str(tmp_path)}
    return Scene(tmp_path, environ, load_site(tmp_path / "site.yaml", environ))


def lock_of(contents: str, version: str = "5.4.1") -> EasyBuildLock:
    item = {"name": "toy", "version": "1", "easyconfig": "toy-1.eb", "origin": "catalog", "sha256": "0" * 64}
    return EasyBuildLock.model_validate(
        {
            "recipe": "",
            "framework": version,
            "easyblocks": version,
            "easybuild_sha256": contents,
            "rpath": False,
            "items": [item],
        }
    )


@pytest.mark.parametrize("fault", ["gone", "not executable"])
def test_environment_whose_python_an_upgrade_took_away_is_made_anew(scene: Scene, fault: str) -> None:
    base, home = scene.root / "python3.11", user_home("5.4.1", scene.environ)
    write_easybuild(home)
    (home / "bin").mkdir()
    (home / "bin/python").symlink_to(base)
    (home / "envmgr.json").write_text('{"contents": "as it was"}')
    (home / "stale").touch()
    base.symlink_to(sys.executable)

    found = scene.ensure(home)
    assert find_private("5.4.1", scene.bench()) == found
    assert scene.told == []

    base.unlink()
    if fault == "not executable":
        base.touch()
    assert find_private("5.4.1", scene.bench()) is None
    assert scene.ensure(home) == found
    assert scene.told == ["venv", "pip"]
    assert os.access(found.python, os.X_OK)
    assert not (home / "stale").exists()
    assert find_private("5.4.1", scene.bench()) == found


def test_environment_is_what_the_lock_says(scene: Scene) -> None:
    home = scene.root / "home"
    found = scene.ensure(home, scene.contents)
    assert contents_sum(found.places) == scene.contents
    assert json.loads((home / "envmgr.json").read_text())["contents"] == scene.contents
    assert scene.ensure(home, scene.contents) == found
    assert scene.told == ["venv", "pip"]


def test_environment_of_the_lock_s_files_is_made_of_these_alone(scene: Scene) -> None:
    """Each given with its sha256; nothing of the caller's shell says where else to look."""
    scene.environ |= {
        "UV_FIND_LINKS": "/elsewhere",
        "UV_DEFAULT_INDEX": "http://127.0.0.1:9",
        "PIP_INDEX_URL": "http://127.0.0.1:9",
    }
    uv = scene.root / "uv"
    asked = 'if [ "$1" = pip ]; then echo "$@" >{0}/words; env >{0}/env; cat {0}/tmp/*/wanted.txt {0}/tmp/*/builds.txt >{0}/rows; fi\n'
    uv.write_text(uv.read_text().replace("#!/bin/sh\n", "#!/bin/sh\n" + asked.format(scene.root)))
    (scene.root / "tmp").mkdir()
    paths = {file.name: scene.root / file.name for file in DEFAULT_FILES}

    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("TMPDIR", str(scene.root / "tmp"))
        found = scene.ensure(scene.root / "home", scene.contents, Files(DEFAULT_FILES, lambda: paths))
    assert contents_sum(found.places) == scene.contents
    words = (scene.root / "words").read_text().split()
    assert {"--offline", "--no-index", "--require-hashes", "--no-config", "--no-deps"} <= {*words}
    rows = [f"{file.package}=={file.version} --hash=sha256:{file.sha256}" for file in DEFAULT_FILES]
    assert (scene.root / "rows").read_text().splitlines() == rows
    passed = {line.partition("=")[0] for line in (scene.root / "env").read_text().splitlines()}
    assert {name for name in passed if name.startswith(("UV_", "PIP_"))} == {"UV_NO_PROGRESS"}
    assert [*(scene.root / "tmp").iterdir()] == []


def test_environment_of_the_lock_s_files_that_is_another_than_its_sum_says_what_is_wrong(scene: Scene) -> None:
    home = scene.root / "home"
    with pytest.raises(EnvmgrError) as caught:
        scene.ensure(home, "0" * 64, Files(DEFAULT_FILES, lambda: {file.name: scene.root for file in DEFAULT_FILES}))
    assert str(caught.value) == (
        "error[easybuild-differs]: EasyBuild 5.4.1 is not what the lock says\n"
        f"  {home}\n"
        f"  sha256 {'0' * 64} was locked\n"
        f"  sha256 {scene.contents} was installed\n"
        "\n"
        "hint: it was made of the files that the lock names: the lock was edited, or made from another EasyBuild; lock again"
    )
    assert not home.exists()


def test_files_that_cannot_be_had_leave_nothing(scene: Scene) -> None:
    def bring() -> dict[str, Path]:
        raise EnvmgrError("source-missing", "toy/1.0: they are missing")

    home = scene.root / "home"
    with pytest.raises(EnvmgrError, match="they are missing"):
        scene.ensure(home, scene.contents, Files(DEFAULT_FILES, bring))
    assert (scene.told, home.exists()) == ([], False)


def test_environment_that_is_not_what_the_lock_says_does_not_stay(scene: Scene) -> None:
    home = scene.root / "home"
    with pytest.raises(EnvmgrError) as caught:
        scene.ensure(home, "0" * 64)
    assert str(caught.value) == (
        "error[easybuild-differs]: EasyBuild 5.4.1 is not what the lock says\n"
        f"  {home}\n"
        f"  sha256 {'0' * 64} was locked\n"
        f"  sha256 {scene.contents} was installed\n"
        "\n"
        "hint: the package index has another one than when the entry was locked: find out why, before you lock it again; "
        "if that folder was changed, remove it: envmgr makes it again"
    )
    assert not home.exists()


def test_environment_that_was_changed_is_looked_at_and_not_removed(scene: Scene) -> None:
    home = scene.root / "home"
    scene.ensure(home)
    with pytest.raises(EnvmgrError, match=r"EasyBuild 5\.4\.1 is not what the lock says"):
        scene.ensure(home, "0" * 64)
    assert home.is_dir(), "who changed it is not known"
    assert scene.told == ["venv", "pip"]


@pytest.mark.parametrize("marker", ["{}", "[", '{"easybuild": "5.4.1"}'])
def test_environment_without_a_whole_marker_is_made_again(scene: Scene, marker: str) -> None:
    home = scene.root / "home"
    scene.ensure(home)
    (home / "envmgr.json").write_text(marker)
    assert scene.ensure(home, scene.contents).places.home == home
    assert json.loads((home / "envmgr.json").read_text())["contents"] == scene.contents
    assert scene.told == ["venv", "pip"] * 2


def test_build_with_the_easybuild_of_the_lock_installs_none(scene: Scene) -> None:
    lock = lock_of(contents_sum(own_places()))
    reporter = Listening()
    tool = easybuild_for_build(lock, scene.bench(reporter))
    assert (tool.python, tool.places) == (Path(sys.executable), own_places())
    assert (scene.told, reporter.said) == ([], [])
    assert not (scene.root / "prefix").exists()


def test_build_with_another_easybuild_installs_it_once(scene: Scene) -> None:
    lock, reporter = lock_of(scene.contents), Listening()
    for _ in range(2):
        tool = easybuild_for_build(lock, scene.bench(reporter))
        assert tool.places.home == site_home("5.4.1", scene.site)
    assert scene.told == ["venv", "pip"]
    why = f"its sha256 is {contents_sum(own_places())}, the lock says {scene.contents}"
    assert reporter.said == [f"EasyBuild 5.4.1: envmgr's own is not used: {why}"]


def test_build_with_another_version_installs_it(scene: Scene) -> None:
    for part in (scene.root / "contents").glob("lib/python3.11/site-packages/*.dist-info"):
        part.rename(part.with_name(part.name.replace("5.4.1", "5.3.0")))
    reporter = Listening()
    lock = lock_of(contents_sum(write_easybuild(scene.root / "elsewhere")), "5.3.0")
    tool = easybuild_for_build(lock, scene.bench(reporter))
    assert tool.places.home == site_home("5.3.0", scene.site)
    assert reporter.said == ["EasyBuild 5.3.0: envmgr's own is not used: it has easybuild-framework 5.4.1"]
