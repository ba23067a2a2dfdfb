"""What nodes say of the upstream's installs, and the script that looks at them."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from envmgr.audit.checks import upstream
from envmgr.audit.model import Evidence
from envmgr.publish.records import PublishedEntry
from envmgr.system.files import sha256_bytes
from envmgr.system.shelltext import script_text
from tests.helpers.evidence import SHA, audit_plan, evidence, site, told

PATH = "/up/store/python/3.11-00000000"


def given(answers: Mapping[str, Mapping[str, str]]) -> Evidence:
    made = evidence(answers)
    assert made.published is not None
    entry = PublishedEntry(digest=SHA, path="store/app/1-00000000", lock=SHA, fingerprint="", needs=(PATH,))
    record = made.published.record.model_copy(update={"entries": {"app/1": entry}, "manifests": {PATH: SHA}})
    return replace(made, published=replace(made.published, record=record))


def good(manifest: str = SHA) -> dict[str, str]:
    return {"upstream.seen": "1", "upstream.manifest.0": manifest}


def test_findings() -> None:
    assert told(upstream, given({"c1": good(), "c2": good()})) == []
    assert told(upstream, given({"c1": {"upstream.user": "unknown"}})) == [], "another check reports it"
    expected = "an install of the upstream /up, which alice can enter"
    gone = {"upstream.seen": "1", "upstream.bad.0": "No such file or directory"}
    (line,) = told(upstream, given({"c1": good(), "c2": gone}))
    hint = f"on the node: `findmnt -T {PATH}`: other nodes have it; is /up mounted there?"
    assert line == f"error c2: app/1: {PATH}: No such file or directory | {expected} | {hint}"
    (line,) = told(upstream, given({"c1": gone, "c2": gone}))
    assert line.endswith("| `envmgr verify` tells what is left of it, and what to do")
    (line,) = told(upstream, given({"c1": good("1" * 64), "c2": good()}))
    assert line.startswith(f"error c1: app/1: {PATH}: its manifest is another one (111111111111) | 000000000000, as")
    (line,) = told(upstream, given({"c1": good(""), "c2": good()}))
    assert line.startswith(f"error c1: app/1: {PATH}: its manifest cannot be read | ")
    (line,) = told(upstream, given({"c1": {}, "c2": good()}))
    assert line.startswith(f"error c1: app/1: {PATH}: no answer within ")


def test_site_without_an_upstream_is_asked_nothing() -> None:
    assert upstream.probe(audit_plan(site())) == {}
    assert told(upstream, evidence({"c1": {}})) == []


def test_script_looks_at_each_install(tmp_path: Path) -> None:
    there, gone = tmp_path / "python/3.11-00000000", tmp_path / "gone"
    there.mkdir(parents=True)
    (tmp_path / "python/3.11-00000000.manifest.json").write_text("{}")
    (tmp_path / "bare").mkdir()
    words = ["/bin/sh", "-c", script_text(upstream.__file__ or "", "look.sh"), "sh"]
    done = subprocess.run(
        [*words, str(there), str(gone), str(tmp_path / "bare")], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines() == [
        f"@upstream.manifest.0={sha256_bytes(b'{}')}",
        "@upstream.seen=1",
        "@upstream.bad.1=No such file or directory",
        "@upstream.seen=2",
        "@upstream.manifest.2=",
        "@upstream.seen=3",
    ]
    assert done.stderr == ""
