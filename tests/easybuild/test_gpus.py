"""For which GPUs software is compiled: asked of the site when it is locked, and handed to the builds that ask; by EasyBuild and cmake."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from envmgr.backends.easybuild.lock import LOCK_NAME
from envmgr.system.files import sha256_file
from tests.helpers.easybuild.source_archives import write_tar
from tests.helpers.easybuild.vendor_installers import add_standins
from tests.helpers.easybuild.workshop import Workshop
from tests.helpers.scenes import error_of

CUDA = ("CUDA", "11.8.0")
# No language: cmake asks for no compiler, and for no nvcc.
CMAKE_LISTS = """\
cmake_minimum_required(VERSION 3.18)
project(gputoy LANGUAGES NONE)
file(WRITE ${CMAKE_BINARY_DIR}/codes "${MINE}|${CMAKE_CUDA_ARCHITECTURES}\\n")
install(FILES ${CMAKE_BINARY_DIR}/codes DESTINATION share)
"""
MINE = '-DMINE="%(cuda_cc_cmake)s"'
SITE = 'under `backends.easybuild` in site.yaml: `cuda_compute_capabilities: ["7.5", "8.6"]`'

DRIVER = {"nvidia_driver": "450.80.02"}
OR_ELSE = 'or under `input` of the recipe `cuda_compute_capabilities: ["7.5", "8.6"]`'


def say(box: Workshop, **settings: object) -> None:
    """What site.yaml says of EasyBuild besides its easyconfigs."""
    path = box.root / "site.yaml"
    site = json.loads(path.read_text())
    site["backends"]["easybuild"] = {"easyconfigs": ["easyconfigs"], **settings}
    path.write_text(json.dumps(site))


def gpu_toy(box: Workshop, name: str = "gputoy", **fields: object) -> None:
    """Built by cmake in a second; its easyconfig is as those of EasyBuild for CUDA are."""
    archive = write_tar(
        box.root / f"mirror/{name[0]}/{name}/{name}-1.0.tar.gz", f"{name}-1.0", {"CMakeLists.txt": CMAKE_LISTS}
    )
    box.easyconfig(
        name,
        "1.0",
        **{
            "easyblock": "CMakeMake",
            "sources": [archive.name],
            "checksums": [sha256_file(archive)],
            "configopts": MINE,
            "sanity_check_paths": {"files": ["share/codes"], "dirs": []},
            **fields,
        },
    )


def lock_of(box: Workshop, entry: str) -> dict[str, object]:
    found: dict[str, object] = yaml.safe_load((box.root / "recipes" / entry / LOCK_NAME).read_text())
    return found


def asks_of(box: Workshop, entry: str) -> dict[str, list[str]]:
    return {item["name"]: item.get("asks", []) for item in lock_of(box, entry)["items"]}  # type: ignore[attr-defined]


def codes_of(box: Workshop, name: str = "gputoy") -> dict[str, str]:
    """install -> what cmake was told."""
    return {path.parts[-3]: path.read_text().strip() for path in box.prefix.glob(f"store/{name}/*/share/codes")}


@pytest.fixture
def box(workshop: Workshop) -> Workshop:
    """With CUDA's installer, a toy that stands on it, and one that has nothing to do with it."""
    add_standins(workshop.root / "easyconfigs", workshop.root / "mirror", "CUDA-11.8.0.eb")
    workshop.policies["licences"] = ["cuda-eula"]
    workshop.write_site()
    gpu_toy(workshop, dependencies=[CUDA])
    workshop.toy()
    workshop.entry("gputoy/1.0", "gputoy-1.0.eb", input={"accept_eula": ["CUDA"]}, requires=DRIVER)
    workshop.entry("toy/1.0", "toy-1.0.eb")
    return workshop


def test_closure_that_asks_is_refused_without_built_with_and_stale_after_another_value(box: Workshop) -> None:
    box.ok("lock", "toy/1.0")
    before = (box.root / "recipes/toy/1.0" / LOCK_NAME).read_text()
    refused = box.run("lock", "gputoy/1.0")
    assert refused.code == 2
    assert error_of(refused, box).splitlines() == [
        "error[capabilities-missing]: gputoy-1.0.eb needs cuda_compute_capabilities, which neither site.yaml nor the recipe says",
        "  entry gputoy/1.0",
        "  gputoy-1.0.eb has a template of it",
        "",
        f"hint: set in site.yaml for which NVIDIA GPUs software is compiled, such as {SITE}, {OR_ELSE}",
    ]
    assert not (box.root / "recipes/gputoy/1.0" / LOCK_NAME).exists()

    say(box, cuda_compute_capabilities=["8.6", "7.5"])
    box.ok("lock", "gputoy/1.0")
    assert lock_of(box, "gputoy/1.0")["cuda_compute_capabilities"] == ["7.5", "8.6"]
    assert asks_of(box, "gputoy/1.0") == {"CUDA": [], "gputoy": ["cuda_compute_capabilities"]}
    box.ok("build", "gputoy/1.0", "toy/1.0")
    ((first, codes),) = codes_of(box).items()
    assert codes == "75;86|75;86"
    installs = box.items()

    say(box, cuda_compute_capabilities=["9.0a"])
    stale = box.run("build", "gputoy/1.0")
    assert stale.code == 3
    told = "for other GPUs than now: backends.easybuild.cuda_compute_capabilities says 9.0a, the lock 7.5, 8.6"
    head, *rest = error_of(stale, box).splitlines()
    assert head.endswith(told)
    assert rest == [
        "",
        (
            "hint: run `envmgr lock gputoy/1.0` and commit the result; or, to keep its GPUs, say "
            '`cuda_compute_capabilities: ["7.5", "8.6"]` under `input` of the recipe'
        ),
    ]
    for words in (("lock", "--check", "gputoy/1.0"), ("check", "gputoy/1.0"), ("list", "gputoy/1.0"), ("list",)):
        assert told in box.run(*words).stdout, words
    box.ok("lock", "gputoy/1.0", "toy/1.0")
    assert (box.root / "recipes/toy/1.0" / LOCK_NAME).read_text() == before
    box.ok("build", "gputoy/1.0", "toy/1.0")
    assert codes_of(box)[first] == codes, "the old install stays as it is"
    (new,) = set(box.items()) - set(installs)
    assert (new.split("/")[0], codes_of(box)[new.split("/")[1]]) == ("gputoy", "90a|90a")


def test_recipe_s_own_value_wins_over_the_site_s_and_over_the_easyconfig_s(box: Workshop) -> None:
    say(box, cuda_compute_capabilities=["7.5"])
    gpu_toy(box, dependencies=[CUDA], cuda_compute_capabilities=["6.0"])
    own = {"accept_eula": ["CUDA"], "cuda_compute_capabilities": ["8.0"]}
    box.entry("mine/1.0", "gputoy-1.0.eb", input=own, requires=DRIVER)
    box.ok("lock", "mine/1.0", "gputoy/1.0")
    box.ok("build", "mine/1.0", "gputoy/1.0")
    assert sorted(codes_of(box).values()) == ["75|75", "80|80"]
    say(box)
    box.ok("build", "mine/1.0", "--dry-run")
    box.ok("lock", "gputoy/1.0")
    assert "cuda_compute_capabilities" not in lock_of(box, "gputoy/1.0")
    box.ok("build", "gputoy/1.0")
    assert sorted(codes_of(box).values()) == ["60|60", "75|75", "80|80"]


def test_what_stands_on_cuda_gets_the_value_and_nothing_else_does(box: Workshop) -> None:
    gpu_toy(box, configopts="", dependencies=[CUDA])
    gpu_toy(box, "upper", configopts="", dependencies=[("gputoy", "1.0")])
    gpu_toy(box, "plain", configopts="")
    box.entry("upper/1.0", "upper-1.0.eb", input={"accept_eula": ["CUDA"]}, requires=DRIVER)
    box.entry("plain/1.0", "plain-1.0.eb", input={"cuda_compute_capabilities": ["8.0"]})
    nothing = "is neither in site.yaml nor in the recipe: easyconfigs that need it fail when they are built"
    assert f"cuda_compute_capabilities {nothing}" in box.ok("lock", "upper/1.0").stdout
    assert asks_of(box, "upper/1.0") == {
        "CUDA": [],
        "gputoy": ["cuda_compute_capabilities"],
        "upper": ["cuda_compute_capabilities"],
    }
    told = box.ok("lock", "plain/1.0").stdout
    assert "input.cuda_compute_capabilities: no easyconfig of the closure asks for it" in told
    assert asks_of(box, "plain/1.0") == {"plain": []}
    assert "cuda_compute_capabilities" not in lock_of(box, "plain/1.0")
    say(box, cuda_compute_capabilities=["7.5"])
    assert nothing not in box.ok("lock", "upper/1.0").stdout
    box.ok("build", "upper/1.0")
    assert codes_of(box, "upper").popitem()[1] == "|75"


@pytest.mark.parametrize(
    ("fields", "setting"),
    [
        ({"prebuildopts": "CODES='%(cuda_sm_space_sep)s' "}, "cuda_compute_capabilities"),
        ({"modextravars": {"A": "%(amdgcn_cc_space_sep)s"}}, "amdgcn_capabilities"),
        ({"sources": ["toy-%(cuda_compute_capabilities)s.tar.gz"]}, "cuda_compute_capabilities"),
    ],
)
def test_template_is_seen_without_cuda_too(workshop: Workshop, fields: dict[str, object], setting: str) -> None:
    workshop.toy(**fields)
    workshop.entry("toy/1.0", "toy-1.0.eb")
    refused = workshop.run("lock", "toy/1.0")
    assert refused.code == 2
    assert error_of(refused, workshop).splitlines()[:3] == [
        f"error[capabilities-missing]: toy-1.0.eb needs {setting}, which neither site.yaml nor the recipe says",
        "  entry toy/1.0",
        "  toy-1.0.eb has a template of it",
    ]


def test_recipes_and_sites_say_them_as_easybuild_takes_them(box: Workshop) -> None:
    wrong = {"cuda_compute_capabilities": [8.0], "amdgcn_capabilities": ["90a"]}
    box.entry("toy/1.0", "toy-1.0.eb", input=wrong)
    told = box.run("lock", "toy/1.0").stderr
    assert 'input.cuda_compute_capabilities: must be a list of texts in quotes, such as ["7.5", "8.6"]' in told
    assert "input.amdgcn_capabilities: `90a` is not an architecture of AMD's GPUs such as gfx90a" in told
    say(box, cuda_compute_capabilities=["9.0+PTX"])
    site = box.run("check")
    assert (
        "backends.easybuild.cuda_compute_capabilities: `9.0+PTX`: EasyBuild takes capabilities without +PTX"
        in site.stderr
    )


def test_values_are_known_below_the_build_user_and_in_slurm_s_copy(box: Workshop, tmp_path: Path) -> None:
    """`load_lock` on a node reads the site that `pack` made."""
    from envmgr.backends.easybuild.gpus import easybuild_settings, said_by
    from envmgr.catalog.site import load_site

    say(box, cuda_compute_capabilities=["8.0"])
    packed = load_site(box.root / "site.yaml", {}).with_settings("easybuild", easyconfigs=[str(tmp_path)])
    assert said_by(easybuild_settings(packed))["cuda_compute_capabilities"] == ("8.0",)
