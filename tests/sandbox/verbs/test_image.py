"""`envmgr image`: made once, of the install that is there, gone with it; `verify` and `gc` know it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.helpers.done import Done
from tests.helpers.sandbox import Sandbox

ENTRY = "hello/1.0"


@pytest.fixture
def box(sandbox: Sandbox) -> Sandbox:
    sandbox.recipe(ENTRY, ["hello-prefix"])
    sandbox.ok("lock", ENTRY)
    sandbox.ok("build", ENTRY)
    return sandbox


def image(box: Sandbox) -> Path:
    (found,) = (box.prefix / "images/hello").glob("1.0-????????.sqfs")
    return found


def install(box: Sandbox) -> Path:
    return box.prefix / "store/hello" / image(box).name.removesuffix(".sqfs")


def made(box: Sandbox, *argv: str) -> list[tuple[str, str]]:
    rows = box.ok("stage", "--image", ENTRY, "--format", "json", *argv).data["images"]
    return [(row["status"], row["why"]) for row in rows]


def fails(box: Sandbox, code: int, *argv: str) -> Done:
    done = box.run(*argv)
    assert done.code == code, done.stderr
    return done


def damage(path: Path) -> None:
    path.chmod(0o644)
    with path.open("r+b") as file:
        file.seek(200)
        file.write(b"?")


def test_image_is_made_once(box: Sandbox) -> None:
    assert made(box, "--dry-run") == [("would-make", "there is none")]
    assert not (box.prefix / "images").exists()
    assert made(box) == [("made", "there is none")]
    first = image(box).read_bytes()
    assert made(box) == [("there", "")]
    record = json.loads(image(box).with_name(f"{image(box).name}.json").read_text())
    manifest = json.loads(install(box).with_name(f"{install(box).name}.manifest.json").read_text())
    assert (record["tree"], record["digest"]) == (manifest["tree"], manifest["digest"])
    assert (record["size"], record["compression"]) == (len(first), "zstd")
    assert made(box, "--compression", "lz4") == [("made", "it has zstd")]
    assert made(box) == [("there", "")]  # what is there stays, though the site says zstd
    assert made(box, "--compression", "zstd") == [("made", "it has lz4")]
    assert image(box).read_bytes() == first


def test_verify_looks_at_images(box: Sandbox) -> None:
    made(box)
    assert "1 image verified, 0 differ from their record" in box.ok("verify").stdout
    damage(image(box))
    found = fails(box, 1, "verify", "--format", "json").data["findings"]
    assert [(f["check"], f["where"], f["hint"]) for f in found] == [
        ("image", ENTRY, f"`envmgr stage --image {ENTRY}` makes it again")
    ]
    assert made(box)[0][0] == "made"
    box.ok("verify")


@pytest.mark.parametrize("what", ["image", "record", "rows"])
def test_what_is_lost_of_an_image_is_made_again(box: Sandbox, what: str) -> None:
    made(box)
    record = image(box).with_name(f"{image(box).name}.json")
    if what == "rows":
        record.chmod(0o644)
        record.write_text("{}")
    else:
        (record if what == "record" else image(box)).unlink()
    assert [f["check"] for f in fails(box, 1, "verify", "--format", "json").data["findings"]] == ["image"]
    assert made(box)[0][0] == "made"
    box.ok("verify")


def test_manifest_that_was_changed_tells_stage_of_no_image(box: Sandbox) -> None:
    made(box)
    path = install(box).with_name(f"{install(box).name}.manifest.json")
    path.chmod(0o644)
    path.write_text(path.read_text().replace('["bin"', ' ["bin"', 1))
    said = f"""error[manifest-differs]: {path} is not what the generation's record says

hint: `envmgr build --again {ENTRY}` makes it again
"""
    for argv in (["--private", ENTRY, "true"], [ENTRY, "--nodes", "nowhere", "--via", "ssh"]):
        assert fails(box, 3, "stage", *argv).stderr == said
    box.ok("build", "--again", ENTRY)
    made(box)
    box.ok("stage", "--private", ENTRY, "true")


def test_damaged_install_gets_no_image(box: Sandbox) -> None:
    made(box)
    file = next(path for path in sorted(install(box).rglob("*")) if path.is_file() and path.stat().st_size > 300)
    before = image(box).read_bytes()
    damage(file)
    image(box).unlink()
    done = fails(box, 3, "stage", "--image", ENTRY)
    assert "error[install-differs]" in done.stderr
    assert not [*(box.prefix / "images/hello").glob("*.sqfs")]
    box.ok("build", "--again", ENTRY)
    assert made(box)[0][0] == "made"
    assert image(box).read_bytes() == before


def test_image_goes_with_its_install(box: Sandbox) -> None:
    made(box)
    path = image(box)
    box.recipe("other/1.0", ["hello-prefix", "shared"])
    box.ok("lock", "other/1.0")
    box.ok("build", "other/1.0")
    box.ok("publish", "--remove", ENTRY)
    box.policies |= {"keep_generations": 1, "keep_days": 0}
    box.write_site()
    size = path.stat().st_size
    assert box.ok("gc", "--format", "json").data["size"] > size
    assert not path.exists()
    assert not path.with_name(f"{path.name}.json").exists()


def test_leftovers_of_killed_runs_go(box: Sandbox) -> None:
    made(box)
    path = image(box)
    making = path.with_name(f".making-{path.name}")
    making.write_bytes(b"half")
    orphan = path.with_name("9.9-00000000.sqfs")
    orphan.write_bytes(b"of an install that is gone")
    box.ok("gc")
    assert sorted(each.name for each in path.parent.iterdir()) == [path.name, f"{path.name}.json"]


def test_image_of_an_install_that_is_closed_to_others_is_refused(sandbox: Sandbox) -> None:
    sandbox.policies |= {"umask": "027"}
    sandbox.write_site()
    sandbox.recipe(ENTRY, ["hello-prefix"])
    sandbox.ok("lock", ENTRY)
    sandbox.ok("build", ENTRY)
    assert "error[image-restricted]" in fails(sandbox, 3, "stage", "--image", ENTRY).stderr


def test_build_makes_the_images_that_the_site_wants(sandbox: Sandbox) -> None:
    sandbox.settings |= {"images": {"entries": ["hello/*"], "compression": "lz4"}}
    sandbox.write_site()
    for name in (ENTRY, "other/1.0"):
        sandbox.recipe(name, ["hello-prefix"])
        sandbox.ok("lock", name)
    done = sandbox.ok("build", "--format", "json", ENTRY, "other/1.0").data
    assert [(row["entries"], row["status"], row["compression"]) for row in done["images"]] == [([ENTRY], "made", "lz4")]
    assert sandbox.ok("stage", "--image", "--format", "json").data["images"][0]["status"] == "there"
