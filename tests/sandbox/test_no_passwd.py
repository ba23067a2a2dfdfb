"""A user whose number has no name here: in a container, or while the directory service does not answer."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.helpers.open_folders import for_everybody, open_to_all
from tests.helpers.sandbox import Sandbox
from tests.helpers.scenes import locked
from tests.helpers.standin.channel import Channel

ENTRY = "hello/1.0"


@dataclass
class Nameless(Sandbox):
    """envmgr runs as `uid` where /etc/passwd is empty, and no variable says who runs it."""

    uid: int = 0

    def command(self, *argv: str) -> list[str]:
        hide = 'mount --bind /dev/null /etc/passwd && exec "$@"'
        user = ["setpriv", f"--reuid={self.uid}", f"--regid={self.uid}", "--clear-groups"] if self.uid else []
        there = ["unshare", "--mount", "--propagation", "private", "sh", "-c", hide, "sh"]
        return [*there, *for_everybody(self.root), *user, *super().command(*argv)]

    def environ(self, **extra: str) -> dict[str, str]:
        return {key: value for key, value in super().environ(**extra).items() if key != "HOME"}


@pytest.fixture(params=[0, 54321])
def box(request: pytest.FixtureRequest, tmp_path: Path, channel: Channel) -> Iterator[Nameless]:
    made = Nameless(tmp_path, str(channel.folder), uid=request.param)
    made.write_site()
    open_to_all(tmp_path)
    os.chown(tmp_path, made.uid, made.uid)
    os.chown(made.root / "site.yaml", made.uid, made.uid)
    yield made
    made.clear()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: a mount over /etc/passwd")
def test_verbs_work_for_a_user_without_a_name(box: Nameless) -> None:
    locked(box, ENTRY, ["hello-prefix"])
    box.ok("build", ENTRY)
    for verb in (
        ("verify", "--all"),
        ("test", ENTRY),
        ("list",),
        ("check",),
        ("rollback", "1"),
        ("gc",),
        ("node-setup",),
        ("job", ENTRY),
        ("publish", "--remove", ENTRY),
        ("publish", ENTRY),
        ("history",),
        ("export", "--to", "ood"),
    ):
        done = box.run(*verb)  # which fails for a traceback
        assert done.code != 4, (verb, done.stderr)
        assert done.code == 0 or verb[0] in ("export", "job"), (verb, done.stderr)
    audited = box.run("audit", "--format", "json")
    assert audited.code != 4, audited.stderr
    assert json.loads(audited.stdout)
    record = json.loads((box.prefix / "generations/0001/generation.json").read_text())
    names = {f"uid {box.uid}", *(["root"] if box.uid == 0 else [])}  # nss-systemd knows root without a file
    assert record["user"] in names
    (manifest,) = box.prefix.glob("store/*/*.manifest.json")
    assert json.loads(manifest.read_text())["provenance"]["user"] in names


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: a mount over /etc/passwd")
def test_embedded_site_of_a_user_without_a_name_and_a_home(box: Nameless) -> None:
    (box.root / "site.yaml").unlink()
    done = box.run("list", ENVMGR_SITE="")
    assert done.code == 0, done.stderr
