"""Where a lock's records come from: channels, mirrors and snapshots, and what of that a lock says."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

import yaml

from envmgr.backends.conda.lockfile import LOCK_NAME, SIDECAR_NAME
from tests.helpers.sandbox import Sandbox
from tests.helpers.standin.channel import Channel
from tests.helpers.standin.server import serve

CANONICAL = "http://channel.invalid/standin"
NOTE = "records of a Friday: not the whole channel"


def snapshot(channel: Channel, folder: Path, *, drop: str = "") -> Path:
    """The channel's records without its packages; `drop` names a field that the records lose."""
    for subdir in ("linux-64", "noarch"):
        data = json.loads((channel.folder / subdir / "repodata.json").read_bytes())
        for record in data["packages.conda"].values():
            record.pop(drop, None)
        (folder / subdir).mkdir(parents=True)
        (folder / subdir / "repodata.json").write_text(json.dumps(data))
    return folder


def channels(sandbox: Sandbox, *mirrors: str | Path, note: str = "", **others: dict[str, Any]) -> None:
    standin = {"url": CANONICAL, "mirrors": [str(m) for m in mirrors], "note": note}
    sandbox.settings = {"channels": {"standin": standin, **others}}
    sandbox.write_site()


def snapshots(folder: Path) -> dict[str, str]:
    """What the lock says of each channel that was a snapshot: its note, and the digests of its repodata."""
    custom = yaml.safe_load((folder / LOCK_NAME).read_text())["metadata"]["custom_metadata"]
    return {key.removeprefix("envmgr_snapshot_"): text for key, text in custom.items() if "_snapshot_" in key}


def urls(folder: Path) -> list[str]:
    return [p["url"] for p in yaml.safe_load((folder / LOCK_NAME).read_text())["package"]]


def test_snapshot_is_told_with_its_note_and_its_digests(sandbox: Sandbox, channel: Channel) -> None:
    records = snapshot(channel, sandbox.root / "records")
    channels(sandbox, "records", note=NOTE)  # relative to site.yaml
    folder = sandbox.recipe("demo/1", ["left", "packaging"])

    done = sandbox.ok("lock", "demo/1")

    assert done.stdout.endswith(f"  note: standin: solved from a snapshot ({NOTE}), not from the channel itself\n")
    digests = {
        s: hashlib.sha256((records / s / "repodata.json").read_bytes()).hexdigest() for s in ("linux-64", "noarch")
    }
    said = f"{NOTE}; linux-64 {digests['linux-64']}; noarch {digests['noarch']}"
    assert snapshots(folder) == {"standin": said}
    assert str(sandbox.root) not in (folder / LOCK_NAME).read_text() + (folder / SIDECAR_NAME).read_text()


def test_snapshot_that_was_not_needed_is_told_too(sandbox: Sandbox, channel: Channel) -> None:
    snapshot(channel, sandbox.root / "records")
    channels(sandbox, "records", full={"url": "http://channel.invalid/full", "mirrors": [str(channel.folder)]})
    wanted = {"channels": ["full", "standin"], "specs": ["left"]}
    folder = sandbox.recipe("demo/1", [], input=wanted)

    sandbox.ok("lock", "demo/1")

    assert [*snapshots(folder)] == ["standin"]
    assert {u.rsplit("/", 2)[0] for u in urls(folder)} == {"http://channel.invalid/full"}


def test_lock_is_the_same_from_every_kind_of_mirror(sandbox: Sandbox, channel: Channel) -> None:
    folder = sandbox.recipe("demo/1", ["numpy", "left"])
    locked = []
    with serve(channel.folder) as server:
        for place in (channel.folder, server.url, channel.folder.resolve().as_uri()):
            channels(sandbox, place)
            sandbox.ok("lock", "demo/1")
            locked.append([(folder / name).read_bytes() for name in (LOCK_NAME, SIDECAR_NAME)])

    assert locked[1:] == locked[:1] * 2
    assert snapshots(folder) == {}
    assert {u.rsplit("/", 2)[0] for u in urls(folder)} == {CANONICAL}


def test_channel_itself_is_no_snapshot(sandbox: Sandbox, channel: Channel) -> None:
    with serve(channel.folder) as server:
        sandbox.settings = {"channels": {"standin": {"url": server.url}}}
        sandbox.write_site()
        folder = sandbox.recipe("demo/1", ["left"])
        sandbox.ok("lock", "demo/1")

        assert snapshots(folder) == {}
        assert {u.rsplit("/", 2)[0] for u in urls(folder)} == {server.url}


def test_needs_are_the_channels_which_corrects_its_packages(sandbox: Sandbox, channel: Channel) -> None:
    """What info/index.json of the package says is what the channel said before. The same install without the sidecar."""
    mirror = sandbox.root / "mirror"
    shutil.copytree(channel.folder, mirror)
    repodata = mirror / "noarch/repodata.json"
    data = json.loads(repodata.read_bytes())
    for record in data["packages.conda"].values():
        if record["name"] == "left":
            record |= {"depends": ["shared >=1,<2"], "constrains": ["right >=1"]}
    repodata.write_text(json.dumps(data))
    channels(sandbox, mirror)
    folder = sandbox.recipe("demo/1", ["left"], tests=[{"name": "t", "run": ":"}])
    sandbox.ok("lock", "demo/1")
    sandbox.ok("build", "demo/1")
    (install,) = sandbox.prefix.glob("store/demo/1-*[0-9a-f]")
    (record,) = (json.loads(path.read_bytes()) for path in install.glob("conda-meta/left-*.json"))
    assert (record["depends"], "constrains" in record) == (["shared >=1,<2"], False)
    (folder / SIDECAR_NAME).unlink()
    (step,) = sandbox.ok("build", "demo/1", "--dry-run", "--format", "json").data["steps"]
    assert step["planned"]["path"] == str(install.relative_to(sandbox.prefix))


def test_next_mirror_is_asked_when_one_does_not_answer(sandbox: Sandbox, channel: Channel) -> None:
    channels(sandbox, "nowhere", "http://127.0.0.1:9/dead", channel.folder)
    folder = sandbox.recipe("demo/1", ["left"])

    sandbox.ok("lock", "demo/1")

    assert snapshots(folder) == {}
    assert {u.rsplit("/", 2)[0] for u in urls(folder)} == {CANONICAL}


def test_channel_option_solves_from_another_folder_once(sandbox: Sandbox, channel: Channel) -> None:
    snapshot(channel, sandbox.root / "records")
    channels(sandbox, channel.folder, note=NOTE)
    folder = sandbox.recipe("demo/1", ["left"])

    done = sandbox.ok("lock", "demo/1", "--channel", "standin=records")

    # The site's note is on the site's mirrors, not on this folder.
    assert done.stdout.endswith("  note: standin: solved from a snapshot, not from the channel itself\n")
    assert snapshots(folder)["standin"].startswith("linux-64 ")
    assert {u.rsplit("/", 2)[0] for u in urls(folder)} == {CANONICAL}


def test_channel_option_is_refused_when_it_cannot_be_meant(sandbox: Sandbox) -> None:
    sandbox.recipe("demo/1", ["left"])
    known = "conda-forge, nvidia, pytorch, standin"
    root = sandbox.root
    for text, message in {
        "standin": "error[bad-channel]: `standin` is not NAME=URL-OR-FOLDER\n",
        "stand-in=records": (
            "error[unknown-channel]: stand-in=…: neither the site nor these recipes have a channel or an index `stand-in`\n"
            f"\nhint: known: {known}\n"
        ),
        "standin=records": (
            f"error[channel-missing]: {root}/records is no folder\n  entry demo/1\n  given for channel standin\n"
        ),
        f"standin={root}/recipes/demo": (
            f"error[channel-missing]: {root}/recipes/demo has no <subdir>/repodata.json\n"
            "  entry demo/1\n  given for channel standin\n"
        ),
    }.items():
        done = sandbox.run("lock", "demo/1", "--channel", text)
        assert (done.code, done.stderr) == (2, message)


def test_channel_of_a_recipe_that_the_site_does_not_have_is_told_with_those_it_has(sandbox: Sandbox) -> None:
    sandbox.recipe("demo/1", [], input={"channels": ["bioconda"], "specs": ["left"]})

    done = sandbox.run("lock", "demo/1")

    assert done.code == 2
    assert done.stderr == (
        "error[unknown-channel]: the site has no channel `bioconda`\n"
        "  entry demo/1\n"
        "  known: conda-forge, nvidia, pytorch, standin\n"
        "\n"
        "hint: add it to site.yaml under `backends.conda.channels` with its url\n"
    )


def test_channel_may_be_a_url_in_the_recipe(sandbox: Sandbox, channel: Channel) -> None:
    with serve(channel.folder) as server:
        folder = sandbox.recipe("demo/1", [], input={"channels": [server.url], "specs": ["left"]})
        sandbox.ok("lock", "demo/1")
        assert {u.rsplit("/", 2)[0] for u in urls(folder)} == {server.url}

    sandbox.recipe("demo/1", [], input={"channels": ["ftp://example.org/x"], "specs": ["left"]})
    done = sandbox.run("lock", "demo/1")
    assert done.code == 2
    assert done.stderr.startswith("error[unknown-channel]: the site has no channel `ftp://example.org/x`\n")


def test_record_without_sha256_is_refused(sandbox: Sandbox, channel: Channel) -> None:
    snapshot(channel, sandbox.root / "records", drop="sha256")
    channels(sandbox, "records")
    sandbox.recipe("demo/1", ["shared"])

    done = sandbox.run("lock", "demo/1")

    assert done.code == 2
    assert done.stderr == (
        "error[channel-unhashed]: the channel gives no sha256 for shared 2.0\n"
        "  entry demo/1\n"
        f"  {CANONICAL}/noarch/shared-2.0-0.conda\n"
        "\n"
        "hint: an install could not be checked: use a channel that has sha256 sums\n"
    )


def test_record_without_md5_is_locked_without_one(sandbox: Sandbox, channel: Channel) -> None:
    snapshot(channel, sandbox.root / "records", drop="md5")
    channels(sandbox, "records")
    folder = sandbox.recipe("demo/1", ["shared"])

    sandbox.ok("lock", "demo/1")

    (package,) = yaml.safe_load((folder / LOCK_NAME).read_text())["package"]
    assert list(package["hash"]) == ["sha256"]
    assert sandbox.run("lock", "demo/1", "--check").code == 0


def test_site_without_network_or_mirror_says_so(sandbox: Sandbox) -> None:
    channels(sandbox)
    sandbox.recipe("demo/1", ["shared"])

    done = sandbox.run("lock", "demo/1")

    assert done.code == 3
    assert done.stderr.splitlines()[0].startswith(f"error[no-network]: cannot fetch {CANONICAL}/")
    assert done.stderr.endswith(
        "hint: on a machine without network, give the channel a mirror in site.yaml: backends.conda.channels.<name>.mirrors takes URLs and folders\n"
    )
