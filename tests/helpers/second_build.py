"""Invariant 4's other build: of another user, on another host, in another shell; and whether both trees are one."""

from __future__ import annotations

import json
import os
import pwd
import subprocess
from typing import Any

import pytest

from tests.helpers.open_folders import for_everybody
from tests.helpers.sandbox import Sandbox

AM_ROOT = os.geteuid() == 0


def build_here_and_elsewhere(box: Sandbox, entry: str, user: str = "nobody") -> tuple[dict[str, Any], dict[str, Any]]:
    """The provenance of two builds into one path, whose trees and manifests are the same byte for byte; the second one stays.

    The second has another host name, TMPDIR, HOME, umask, locale, time zone, hash seed and number of processors; where root runs
    the tests, it is by `user`.
    """
    box.ok("build", "--no-publish", "-j", "2", entry)
    first = _manifests(box)
    before = box.root / "first"
    box.prefix.rename(before)
    _build_elsewhere(box, entry, user)
    second = _manifests(box)
    done = subprocess.run(
        [
            "diff",
            "--recursive",
            "--no-dereference",
            before / "store",
            box.prefix / "store",
            "--exclude=*.manifest.json",
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        pytest.fail(done.stdout + done.stderr)
    assert _without_provenance(second) == _without_provenance(first)
    own = next(path for path in second if path.startswith(f"{entry.partition('/')[0]}/"))
    return first[own]["provenance"], second[own]["provenance"]


def _build_elsewhere(box: Sandbox, entry: str, user: str) -> None:
    other = box.root / "other"
    for folder in (other, box.prefix):
        folder.mkdir(exist_ok=True)
    script = 'hostname elsewhere && umask 077 && cd / && exec taskset --cpu-list 0 "$@"'
    words = [
        "unshare",
        *([] if AM_ROOT else ["--user", "--map-current-user", "--keep-caps"]),
        "--uts",
        "sh",
        "-c",
        script,
        "sh",
    ]
    if AM_ROOT:
        account = pwd.getpwnam(user)
        if "build_user" in box.settings:  # an ordinary user who is not that one is refused
            box.settings["build_user"] = user
            box.write_site()
        for folder in (other, box.prefix):
            os.chown(folder, account.pw_uid, account.pw_gid)
        words = [*for_everybody(box.root), *words, "setpriv", "--clear-groups"]
        words += [f"--reuid={account.pw_uid}", f"--regid={account.pw_gid}"]
    subprocess.run(
        [*words, *box.command("build", "--no-publish", "-j", "1", entry)],
        env=box.environ(
            TMPDIR=str(other), HOME=str(other), LANG="C", LC_ALL="C", TZ="Asia/Tokyo", PYTHONHASHSEED="7", USER=user
        ),
        stdout=subprocess.DEVNULL,
        check=True,
    )


def _manifests(box: Sandbox) -> dict[str, dict[str, Any]]:
    return {
        str(path.relative_to(box.prefix / "store")): json.loads(path.read_text())
        for path in sorted(box.prefix.glob("store/*/*.manifest.json"))
    }


def _without_provenance(found: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """The digest, the tree's digest, its rows, facts and modules of EasyBuild."""
    return {path: {key: value for key, value in each.items() if key != "provenance"} for path, each in found.items()}
