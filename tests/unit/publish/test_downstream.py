"""The uses of an upstream's installs, read from prefixes whose owners may put anything there."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from envmgr.publish.downstream import ask_downstreams, downstream_prefixes, read_downstreams

CENTRAL = Path("/cluster/sw")
PYTHON = "store/python/3.11-01234567"
GONE = "if it is gone for good, take it out of `downstream:` in site.yaml"


def prefix(root: Path, text: str = f'"{CENTRAL}/{PYTHON}"', record: str = "generations/0001/generation.json") -> Path:
    (root / "store").mkdir(parents=True, exist_ok=True)
    (root / record).parent.mkdir(parents=True, exist_ok=True)
    (root / record).write_text(text)
    return root


@pytest.mark.parametrize(
    "record",
    [
        "generations/0001/generation.json",
        "var/jobs/holds/c1-12-3.json",
        "var/jobs/slurm/app-1/request.json",
        "store/app/1.0-89abcdef.manifest.json",
    ],
)
def test_every_record_that_names_an_install_counts(tmp_path: Path, record: str) -> None:
    found = read_downstreams(CENTRAL, [str(prefix(tmp_path / "own", record=record))])
    assert (found.named, found.unknown) == ({PYTHON: [f"the downstream {tmp_path}/own"]}, [])
    assert ask_downstreams(CENTRAL, [str(tmp_path / "own")], lambda: None) == found


@pytest.mark.parametrize(
    "text",
    [
        PYTHON,  # its own
        f"/other{CENTRAL}x/{PYTHON}",
        f"{CENTRAL}/generations/0001",
        f"{CENTRAL}/store/../../etc/passwd-01234567",
        f"{CENTRAL}/{PYTHON}8",
        f"{CENTRAL}/store/python/3.11",
        "",
        "\0\xff",
    ],
)
def test_other_texts_keep_nothing(tmp_path: Path, text: str) -> None:
    found = read_downstreams(CENTRAL, [str(prefix(tmp_path / "own", text))])
    assert (found.named, found.unknown) == ({}, [])


def test_record_of_any_format_counts(tmp_path: Path) -> None:
    """One that a later envmgr wrote, or that is damaged, keeps what it names."""
    found = read_downstreams(CENTRAL, [str(prefix(tmp_path, f'{{"schema_version": 9, [{CENTRAL}/{PYTHON}\xff'))])
    assert list(found.named) == [PYTHON]


def test_what_is_no_file_or_no_folder_is_not_opened_and_said(tmp_path: Path) -> None:
    secret = prefix(tmp_path / "elsewhere", f"{CENTRAL}/store/secret/1-01234567")
    for name in ("pipe", "link", "folder", "linked"):
        prefix(tmp_path / name)
        record = tmp_path / name / "generations/0001/generation.json"
        if name == "linked":
            (tmp_path / name / "generations").rename(tmp_path / name / "moved")
            (tmp_path / name / "generations").symlink_to(secret / "generations")
            continue
        record.unlink()
        if name == "pipe":
            os.mkfifo(record)
        elif name == "link":
            record.symlink_to(secret / "generations/0001/generation.json")
        else:
            record.mkdir()
    for name, where in {
        "pipe": "generations/0001/generation.json: it is no regular file",
        "link": "generations/0001/generation.json: it is no regular file",
        "folder": "generations/0001/generation.json: it is no regular file",
        "linked": "generations: it is a link, which is not followed",
    }.items():
        found = read_downstreams(CENTRAL, [str(tmp_path / name)])
        assert (found.named, found.unknown) == ({}, [f"downstream: {tmp_path}/{name}/{where}"])


def test_pattern_that_fits_the_prefix_itself(tmp_path: Path) -> None:
    """All of its manifests have its own path in them."""
    own = prefix(tmp_path / "sw", f"{tmp_path}/sw/{PYTHON}", "store/a/1.0-89abcdef.manifest.json")
    assert read_downstreams(own, [f"{tmp_path}/*"]).named == {}


def test_prefixes_by_pattern(tmp_path: Path) -> None:
    for name in ("al", "bo"):
        prefix(tmp_path / "home" / name / "sw")
    (tmp_path / "home/eve/sw").mkdir(parents=True)  # without a store
    (tmp_path / "home/file").write_text("")
    (tmp_path / "empty").mkdir()

    def said(pattern: str) -> tuple[list[str], list[str]]:
        found, unknown = downstream_prefixes(f"{tmp_path}/{pattern}")
        return [str(each.relative_to(tmp_path)) for each in found], [u.replace(f"{tmp_path}/", "") for u in unknown]

    assert said("home/*/sw") == (["home/al/sw", "home/bo/sw"], [])
    assert said("home/b*/sw") == (["home/bo/sw"], [])
    assert said("home/al/sw") == (["home/al/sw"], [])
    assert said("home/eve/sw") == ([], [f"downstream: home/eve/sw has no store: is it mounted? {GONE}"])
    assert said("gone/*/sw") == ([], [f"downstream: gone: No such file or directory; {GONE}"])
    assert said("empty/*/sw") == ([], [f"downstream: empty is empty: is it mounted? {GONE}"])
