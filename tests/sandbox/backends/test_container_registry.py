"""Registries on a bad day: one that asks for a token, sends to another host, or stops in the middle of a layer."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.helpers.backends import ENTRY
from tests.helpers.backends.container import HELLO, ContainerScene, open_scene
from tests.helpers.registry import busybox, files
from tests.helpers.registry_front import front, write_login
from tests.helpers.standin.channel import Channel


@pytest.fixture
def scene(tmp_path: Path, channel: Channel) -> Iterator[ContainerScene]:
    with contextmanager(open_scene)(tmp_path, channel) as scene:
        yield scene


def recipe(scene: ContainerScene, host: str) -> None:
    given = {"image": f"{host}/lab/hello:1.0", "commands": ["hello"]}
    scene.box.recipe(ENTRY, [], backend="container", input=given)


def hello(scene: ContainerScene) -> str:
    return str(scene.box.shell(f"module load {ENTRY}; hello").stdout)


def test_token_by_the_login_of_the_site(scene: ContainerScene, tmp_path: Path) -> None:
    login = tmp_path / "auth.json"
    with front(scene.registry, "token") as found:
        recipe(scene, found.host)
        done = scene.box.run("lock", ENTRY)
        assert (done.code, "error[download-refused]" in done.stderr, "skopeo login" in done.stderr) == (3, True, True)
        write_login(login, found.host, password="wrong")
        done = scene.box.run("lock", ENTRY, REGISTRY_AUTH_FILE=str(login))
        assert (done.code, "error[download-refused]" in done.stderr) == (3, True)
        write_login(login, found.host)
        scene.box.ok("lock", ENTRY, REGISTRY_AUTH_FILE=str(login))
        scene.box.ok("build", ENTRY, REGISTRY_AUTH_FILE=str(login))
    assert hello(scene) == "hello world\n"


def test_layers_may_come_from_another_host(scene: ContainerScene) -> None:
    with front(scene.registry, "redirect") as found:
        recipe(scene, found.host)
        scene.box.ok("lock", ENTRY)
        scene.box.ok("build", ENTRY)
        assert any("/blobs/" in path for path in found.seen)
    assert hello(scene) == "hello world\n"


def test_registry_that_stops_in_the_middle_of_a_layer(scene: ContainerScene) -> None:
    scene.box.settings["policies"] = {"stall_timeout": 2}
    scene.box.write_site()
    with front(scene.registry, "stall") as found:
        recipe(scene, found.host)
        scene.box.ok("lock", ENTRY)
        done = scene.box.run("build", ENTRY)
        assert (done.code, "error[download-stalled]" in done.stderr) == (3, True), done.stderr
        assert scene.box.leftovers() == []
        found.ways.clear()
        scene.box.ok("build", ENTRY)
    assert hello(scene) == "hello world\n"


@pytest.mark.parametrize("how", ["registry", "folder"])
def test_image_in_docker_s_own_form(scene: ContainerScene, tmp_path: Path, how: str) -> None:
    """skopeo would write another config of it than the registry has."""
    layers = [busybox(), files({"usr/bin/hello": HELLO}, mode=0o755)]
    scene.registry.push("lab/docker:1.0", layers, form="v2s2", Env=["PATH=/usr/bin:/bin", "GREETING=docker"])
    image = f"{scene.registry.host}/lab/docker:1.0"
    scene.box.recipe(ENTRY, [], backend="container", input={"image": image, "commands": ["hello"]})
    scene.box.ok("lock", ENTRY)
    if how == "folder":
        argv = ["skopeo", "--insecure-policy", "copy", "-q", "--src-tls-verify=false", f"docker://{image}"]
        subprocess.run([*argv, f"dir:{tmp_path}/brought"], check=True, capture_output=True)
        scene.cut()
        scene.box.ok("fetch", ENTRY, "--file", str(tmp_path / "brought"))
    scene.box.ok("build", ENTRY)
    assert hello(scene) == "hello docker\n"
