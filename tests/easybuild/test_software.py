"""The shipped software, as far as it is had in seconds: real zlib, and CUDA, TensorRT and Anaconda from small stand-ins."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from envmgr.system.files import sha256_file, shipped
from tests.helpers.done import Done
from tests.helpers.easybuild.source_archives import write_tar
from tests.helpers.easybuild.vendor_installers import add_standins
from tests.helpers.easybuild.workshop import AM_ROOT, BUILD_USER, Workshop, real_sources
from tests.helpers.places import TESTS
from tests.helpers.sandbox import PYTHON
from tests.helpers.standin.channel import Channel
from tests.helpers.standin.rattle import rattle
from tests.helpers.wheelhouse import Wheelhouse

TWINS = TESTS / "easyconfigs"


def take(box: Workshop, entry: str, *, easyconfig: str | None = None) -> None:
    """The shipped recipe into the site's own catalog, for `easyconfig` in place of its own; with its lock made here."""
    target = box.root / "recipes" / entry
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copytree(shipped("recipes") / entry, target, ignore=shutil.ignore_patterns("*-lock.yml"))
    shutil.copy(shipped("recipes") / entry.split("/", maxsplit=1)[0] / "software.yaml", target.parent)
    if easyconfig:
        recipe = yaml.safe_load((target / "recipe.yaml").read_text())
        recipe["input"]["easyconfig"] = easyconfig
        (target / "recipe.yaml").write_text(json.dumps(recipe))
    box.ok("lock", entry)


def accept(box: Workshop, *licences: str) -> None:
    box.policies["licences"] = list(licences)
    box.write_site()


def test_zlib_from_its_source_under_its_shipped_recipe(workshop: Workshop) -> None:
    real_sources("zlib")
    shutil.copytree(TWINS / "z", workshop.root / "easyconfigs/z")
    take(workshop, "zlib/1.3", easyconfig="zlib-1.2.13.eb")
    done = workshop.ok("build", "zlib/1.3", "--format", "json").data
    assert [(t["test"], t["status"]) for t in done["tests"]] == [("round-trip", "passed")]


def test_two_builds_of_one_lock_have_the_same_bytes(workshop: Workshop) -> None:
    real_sources("bzip2")
    take(workshop, "bzip2/1.0")
    trees = []
    for _ in range(2):
        trees.append(workshop.ok("build", "--no-publish", "bzip2/1.0", "--format", "json").data["trees"]["bzip2/1.0"])
        next(workshop.prefix.glob("store/bzip2/*.manifest.json")).unlink()
    assert trees[0] == trees[1]


def test_cuda_by_its_easyblock_once_its_licence_is_acknowledged(workshop: Workshop) -> None:
    add_standins(workshop.root / "easyconfigs", workshop.root / "mirror", "CUDA-11.8.0.eb")
    take(workshop, "cuda/11.8")
    refused = workshop.run("build", "cuda/11.8")
    assert (refused.code, "licence-not-acknowledged" in refused.stderr, "cuda-eula" in refused.stderr) == (
        3,
        True,
        True,
    )
    accept(workshop, "cuda-eula")
    done = workshop.ok("build", "cuda/11.8", "--format", "json").data
    assert {t["test"]: t["status"] for t in done["tests"]} | {"gpu": ""} == {
        "nvcc": "passed",
        "compile": "passed",
        "gpu": "",
    }
    said = workshop.shell(
        "module load cuda/11.8; nvcc --version | tail -1; echo $CUDA_HOME; module purge; type -P nvcc || echo gone"
    )
    (home,) = workshop.prefix.glob("store/CUDA/11.8.0-????????")
    assert said.stdout.splitlines() == ["Cuda compilation tools, release 11.8, V11.8.0", str(home), "gone"]


def test_tensorrt_is_loaded_with_the_cuda_below_it(workshop: Workshop) -> None:
    for easyconfig in ("CUDA-12.9.1.eb", "TensorRT-10.7.0.eb"):
        add_standins(workshop.root / "easyconfigs", workshop.root / "mirror", easyconfig)
    take(workshop, "cuda/12.9")
    take(workshop, "tensorrt/10.7")
    accept(workshop, "cuda-eula")
    assert "tensorrt-eula" in workshop.run("build", "tensorrt/10.7").stderr
    accept(workshop, "cuda-eula", "tensorrt-eula")
    done = workshop.ok("build", "tensorrt/10.7", "--format", "json").data
    ends = {t["test"]: t["status"] for t in done["tests"] if t["entry"] == "tensorrt/10.7"}
    assert ends | {"gpu": ""} == {"libraries": "passed", "version": "passed", "gpu": ""}
    said = workshop.shell('module load tensorrt/10.7; echo "$LOADEDMODULES"; basename "$TENSORRT_ROOT"')
    loaded, folder = said.stdout.splitlines()
    assert (loaded, folder[:7]) == ("cuda/12.9:tensorrt/10.7", "10.7.0-"), said.stderr


def test_a_missing_installer_is_told_with_its_place_and_sha256(workshop: Workshop) -> None:
    add_standins(workshop.root / "easyconfigs", workshop.root / "mirror", "CUDA-11.8.0.eb")
    accept(workshop, "cuda-eula")
    take(workshop, "cuda/11.8")
    (installer,) = (workshop.root / "mirror").rglob("*.run")
    installer.rename(workshop.root / "downloaded.run")
    refused = workshop.run("build", "cuda/11.8")
    assert refused.code == 3
    for part in (
        "source-missing",
        installer.name,
        "sha256 ",
        f"--file /path/to/{installer.name}",
        f"c/CUDA/{installer.name}",
    ):
        assert part in refused.stderr
    workshop.ok("fetch", "cuda/11.8", "--file", str(workshop.root / "downloaded.run"))
    workshop.ok("build", "cuda/11.8")


@pytest.mark.parametrize("entry", ["anaconda/2023.09", "anaconda/2025.06"])
def test_anaconda_by_its_easyblock_with_environments_of_users_own(workshop: Workshop, entry: str) -> None:
    name = next(p.name for p in shipped("easyconfigs").glob(f"a/Anaconda3/*-{entry.split('/')[1]}*.eb"))
    add_standins(workshop.root / "easyconfigs", workshop.root / "mirror", name)
    take(workshop, entry)
    assert "anaconda-terms" in workshop.run("build", entry).stderr
    accept(workshop, "anaconda-terms")
    done = workshop.ok("build", entry, "--format", "json").data
    assert {t["status"] for t in done["tests"]} == {"passed"}
    said = workshop.shell(
        f"""
        before=$(env | grep -v -e ^_ -e ENVMGR -e LMOD -e MODULE -e LMFILES | sort)
        module load {entry}
        echo $PYTHONNOUSERSITE
        conda create --yes --name mine >/dev/null
        conda activate mine
        echo $CONDA_PREFIX
        conda deactivate
        conda activate mine
        module unload anaconda
        type conda 2>&1
        test "$before" = "$(env | grep -v -e ^_ -e ENVMGR -e LMOD -e MODULE -e LMFILES | sort)" && echo as before
        """
    )
    assert said.stdout.splitlines()[:2] == ["1", str(workshop.root / ".conda/envs/mine")], said.stderr
    assert "as before" in said.stdout, said.stdout + said.stderr
    assert workshop.ok("verify", entry, "--format", "json").data["findings"] == []
    # Users' environments are made of `pkgs`, and of what no record names: `conda create --clone` copies that.
    root = Path(workshop.ok("list", entry, "--format", "json").data["install"])
    mark = "lib/python3.11/EXTERNALLY-MANAGED"
    assert [str(path.relative_to(root)) for path in root.rglob("EXTERNALLY-MANAGED")] == [mark]
    assert mark in json.loads((root / "conda-meta/python-3.11.5-0.json").read_text())["files"]


# Builds a wheel of `tiny.py` with nothing but Python's own library.
BACKEND = """\
import zipfile

WHEEL = "Wheel-Version: 1.0\\nGenerator: tests\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n"

def build_wheel(folder, config_settings=None, metadata_directory=None):
    name = "tiny-1.0-py3-none-any.whl"
    files = {
        "tiny.py": open("tiny.py").read(),
        "tiny-1.0.dist-info/METADATA": "Metadata-Version: 2.1\\nName: tiny\\nVersion: 1.0\\n",
        "tiny-1.0.dist-info/WHEEL": WHEEL,
    }
    files["tiny-1.0.dist-info/RECORD"] = "".join(f"{n},,\\n" for n in [*files, "tiny-1.0.dist-info/RECORD"])
    with zipfile.ZipFile(f"{folder}/{name}", "w") as archive:
        for path, text in files.items():
            archive.writestr(path, text)
    return name
"""


def test_a_bundle_of_python_packages_on_a_python_below_it(workshop: Workshop, channel: Channel) -> None:
    """PythonBundle, with an extension's source from the mirror; the Python is the stand-in's, which pip must not write into."""
    version = f"{PYTHON}.0"
    made = workshop.root / "python"
    rattle(channel.url, ["python", "pip"], workshop.root / "cache", stage=made, final=made)
    workshop.easyconfig(
        "Python",
        version,
        easyblock="Bundle",
        postinstallcmds=[f"cp -R {made}/bin {made}/lib %(installdir)s"],
        sanity_check_paths={"files": ["bin/python", f"lib/python{PYTHON}/os.py"], "dirs": []},
    )
    pyproject = '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'
    files = {"pyproject.toml": pyproject, "backend.py": BACKEND, "tiny.py": "answer = 42\n", "PKG-INFO": "Name: tiny\n"}
    archive = write_tar(workshop.root / "mirror/p/pylib/tiny-1.0.tar.gz", "tiny-1.0", files)
    workshop.easyconfig(
        "pylib",
        "1.0",
        easyblock="PythonBundle",
        dependencies=[("Python", version)],
        exts_list=[("tiny", "1.0", {"checksums": [sha256_file(archive)]})],
    )
    workshop.locked(
        "pylib/1.0",
        "pylib-1.0.eb",
        tests=[{"name": "import", "run": "python -c 'import tiny; assert tiny.answer == 42'"}],
    )
    lock = yaml.safe_load((workshop.root / "recipes/pylib/1.0/easybuild-lock.yml").read_text())
    assert [s["name"] for i in lock["items"] for s in i.get("sources", ())] == ["tiny-1.0.tar.gz"]
    done = workshop.ok("build", "pylib/1.0", "--format", "json").data
    assert [t["status"] for t in done["tests"]] == ["passed"]
    text = (workshop.prefix / "current/modules/pylib/1.0.lua").read_text()
    assert 'extensions("tiny/1.0")' in text
    assert 'pushenv("PYTHONNOUSERSITE", "1")' in text
    assert "python -m venv --system-site-packages ~/venvs/pylib-1.0" in text
    (mark,) = workshop.prefix.glob("store/*/*/lib/*/EXTERNALLY-MANAGED")
    assert mark.relative_to(workshop.prefix).parts[1] == "Python"
    said = workshop.shell("module load pylib; python -m pip install --no-index tiny")
    assert "This Python belongs to a module. For your own packages see `module help`" in said.stderr
    _stands_below_a_users_environment(workshop)


def _stands_below_a_users_environment(workshop: Workshop) -> None:
    """Its packages lie in two installs, the bundle's and the Python's: none of them comes a second time."""
    house = Wheelhouse(workshop.root / "house")
    house.wheel("on-tiny", requires=["tiny>=1", "pip"])
    house.wheel("tiny", "2.0")
    workshop.settings["backends"] = {"wheels": {"indexes": {"pypi": {"url": house.simple.as_uri()}}}}
    workshop.write_site()
    home = workshop.root / "alice"
    home.mkdir()
    workshop.give(home)
    become = ["setpriv", f"--reuid={BUILD_USER}", "--clear-groups"] if AM_ROOT else []

    def envmgr(*argv: str) -> Done:
        words = [*become, *workshop.command("user", *argv)]
        env = workshop.environ(HOME=str(home))
        done = subprocess.run(words, cwd=workshop.root, env=env, capture_output=True, text=True, check=False)
        return Done(done.returncode, done.stdout, done.stderr)

    made = envmgr("create", "mine", "--on", "pylib/1.0", "on-tiny", "--format", "json")
    assert made.code == 0, made.stderr
    assert [(each["name"], each["after"]) for each in made.data["changes"]] == [("on-tiny", "1.0")]
    refused = envmgr("create", "newer", "--on", "pylib/1.0", "tiny>=2", "--replace", "tiny")
    assert (refused.code, "error[not-replaceable]" in refused.stderr) == (2, True), refused.stderr
    script = f"""
        export MODULEPATH=$MODULEPATH:{home}/.local/share/envmgr/envs/.envmgr/modules
        module load user/mine
        python -c 'import on_tiny, tiny, pip; print(on_tiny.__file__, tiny.__file__, pip.__file__, tiny.answer)'
    """
    said = workshop.shell(script)
    own, bundle, python, answer = said.stdout.split()
    assert own.startswith(f"{home}/"), said.stderr
    assert (bundle.startswith(f"{workshop.prefix}/store/pylib/"), answer) == (True, "42")
    assert python.startswith(f"{workshop.prefix}/store/Python/")


# Makes what `conda create` makes, as far as EasyBuild and the mark look at it.
CONDA = """\
#!/bin/sh
set -eu
case $1 in
--version) echo conda 24.9.0 ;;
create)
    while [ "$1" != -p ]; do shift; done
    mkdir -p "$2/bin" "$2/lib/python3.11"
    : >"$2/lib/python3.11/os.py"
    : >"$2/lib/python3.11/site.py"
    : >"$2/bin/python"
    ;;
esac
"""


def test_conda_environment_by_easybuild_is_a_python_whatever_its_name(workshop: Workshop) -> None:
    program = workshop.root / "conda"
    program.write_text(CONDA)
    program.chmod(0o755)
    workshop.easyconfig(
        "Miniforge3",
        "24.9",
        easyblock="Bundle",
        postinstallcmds=[f"mkdir %(installdir)s/bin && cp {program} %(installdir)s/bin"],
        sanity_check_paths={"files": ["bin/conda"], "dirs": []},
    )
    workshop.easyconfig(
        "qiime",
        "1.0",
        easyblock="Conda",
        builddependencies=[("Miniforge3", "24.9")],
        requirements="qiime2",
        sanity_check_paths={"files": ["bin/python"], "dirs": []},
    )
    workshop.locked("qiime/1.0", "qiime-1.0.eb")
    workshop.ok("build", "qiime/1.0")
    (mark,) = workshop.prefix.glob("store/*/*/lib/*/EXTERNALLY-MANAGED")
    assert mark.relative_to(workshop.prefix).parts[1] == "qiime"
    assert 'family("python")' in (workshop.prefix / "current/modules/qiime/1.0.lua").read_text()
