"""What is said of packages that no place gives."""

from __future__ import annotations

from pathlib import Path

import pytest

from envmgr.backends.conda.client import failure_for
from envmgr.catalog.site import load_site

FILE = "zlib-1.3.1-0.conda"
CARRIED = (
    "  or run `envmgr fetch x/1` on a machine with a network and the same catalog, bring the folder `cache` of its prefix, and run\n"
    "    `envmgr fetch x/1 --file /path/to/cache`: a build needs no network then"
)


def hint(channel: str, site: Path | None, kind: str = "unreachable", entry: str = "x/1") -> str:
    lost = {"name": "zlib", "reasons": [(f"{channel}/linux-64/{FILE}", kind, "Name or service not known")]}
    return failure_for(entry, load_site(site, {}))(
        {"kind": "DownloadError", "message": "zlib", "failed": [lost]}, {}
    ).hint


@pytest.mark.parametrize(
    ("channel", "name"),
    [("https://conda.anaconda.org/conda-forge", "conda-forge"), ("https://channel.invalid/ours", "ours")],
)
def test_channel_that_the_site_does_not_have_is_named_with_the_lines_that_give_it_a_mirror(
    tmp_path: Path, channel: str, name: str
) -> None:
    (tmp_path / "site.yaml").write_text(f"schema: 1\nprefix: {tmp_path}\n")
    words = f"backends: {{conda: {{channels: {{{name}: {{url: {channel}, mirrors: [/path/to/mirror]}}}}}}}}"
    for site, where in (
        (tmp_path / "site.yaml", f"{tmp_path}/site.yaml"),
        (None, "a site.yaml (`envmgr init site` writes one)"),
    ):
        assert hint(channel, site) == (
            "without this network, packages can come from a mirror or from a carried cache:\n"
            f"  name a mirror in {where}, a URL or a folder that has the files in linux-64/ and noarch/, as\n"
            f"    `{words}`\n{CARRIED}"
        )
    (tmp_path / "site.yaml").write_text(f"schema: 1\nprefix: {tmp_path}\n{words}\n")
    assert hint(channel, tmp_path / "site.yaml", "stalled") == (
        "try again later; without this network, packages can come from a mirror or from a carried cache:\n"
        f"  add a mirror that can be reached to backends.conda.channels.{name}.mirrors in {tmp_path}/site.yaml: a URL, or a folder\n"
        f"{CARRIED}"
    )


def test_other_failures_of_a_download_keep_their_own_hint() -> None:
    assert hint("https://channel.invalid/ours", None, "not-found").startswith(
        "the channel or mirror no longer has it: "
    )


def test_entry_of_that_name_that_no_channel_gives_is_named() -> None:
    told = hint("https://conda.anaconda.org/conda-forge", None, entry="pytorch/2.1-cuda11.8")
    assert told.splitlines()[-1].startswith("  or build pytorch/2.1-cuda12.1 or ")
    assert told.endswith(", which comes from elsewhere")
    assert "which comes from elsewhere" not in hint("https://conda.anaconda.org/conda-forge", None, entry="x/1")
