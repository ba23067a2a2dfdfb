"""What the author of an image, or of a lock, wrote, and what becomes of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from envmgr.backends.container.input import ContainerInput
from envmgr.backends.container.lock import ContainerLock
from envmgr.backends.container.registry import Registry
from envmgr.catalog.site import load_site
from envmgr.errors import EnvmgrError
from envmgr.system.run import Runner

WANTED = ContainerInput(image="registry.example.org/lab/tool:1.0", commands={"tool": ""})
BLOB = {"digest": f"sha256:{'0' * 64}", "size": 1, "mediaType": "x"}


def lock(*environment: str, **more: Any) -> ContainerLock:
    blob = {"sha256": "0" * 64, "size": 1, "media_type": "x"}
    row = {"recipe_digest": "x", "image": WANTED.image, "platform": "linux/amd64", "manifest": "0" * 64, **more}
    return ContainerLock.model_validate({**row, "config": blob, "layers": [blob], "environment": environment})


@pytest.mark.parametrize(
    "line",
    [
        "A=1\nLD_PRELOAD=/tmp/x.so",
        "x; touch /tmp/x=1",
        "$(touch /tmp/x)=1",
        "A-B=1",
        "=1",
        "HOME",
        "A=\x1b[2J",
        "A=1\r",
    ],
)
def test_variable_that_is_none_for_a_shell_is_left_out_and_named(line: str) -> None:
    found = lock("PATH=/bin", line, "OK=it's = fine")
    assert found.variables == {"PATH": "/bin", "OK": "it's = fine"}
    assert found.strange == (line,)


@pytest.mark.parametrize("bind", ["/scratch/../etc", "/./x", "scratch", "/a b", "/a;b", "/a:b"])
def test_folder_that_is_no_plain_path(bind: str) -> None:
    with pytest.raises(ValidationError):
        ContainerInput(image=WANTED.image, commands={"tool": ""}, bind=(bind,))


def resolve(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, *answers: object) -> EnvmgrError:
    """The error of a registry that gives these answers."""
    left = [json.dumps(each) for each in answers]
    monkeypatch.setattr(Registry, "_ask", lambda *_, **__: left.pop(0))
    site = load_site(None, {"HOME": str(tmp_path)})
    with pytest.raises(EnvmgrError) as caught:
        Registry(WANTED, site, Runner()).resolve("x")
    return caught.value


@pytest.mark.parametrize(
    "answers",
    [
        ([],),
        ("text",),
        ({"schemaVersion": 1},),
        ({}, {}),
        ({"manifests": []},),
        ({"manifests": [7, {"platform": "linux"}, {"platform": []}]},),
        ({"config": BLOB, "layers": []}, {"os": "linux", "architecture": "amd64"}),
        ({"config": BLOB, "layers": [7]}, {"os": "linux", "architecture": "amd64"}),
        ({"config": [], "layers": [BLOB]}, {"os": "linux", "architecture": "amd64"}),
        ({"config": BLOB, "layers": [BLOB]}, {"os": "linux", "architecture": "amd64", "config": []}),
        ({"config": BLOB, "layers": [BLOB]}, {"os": "linux", "architecture": "amd64", "config": [1]}),
        ({"config": BLOB, "layers": [BLOB]}, {"os": "linux", "architecture": "amd64", "config": {"Env": [{}]}}),
        ({"config": {**BLOB, "digest": "sha512:0"}, "layers": [BLOB]}, {"os": "linux", "architecture": "amd64"}),
        ({"config": {**BLOB, "digest": f"sha256:{'0' * 60}/../"}, "layers": [BLOB]}, {}),
    ],
)
def test_answer_of_a_registry_that_is_no_image(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, answers: tuple[object, ...]
) -> None:
    assert resolve(monkeypatch, tmp_path, *answers).reference == "image-invalid"
