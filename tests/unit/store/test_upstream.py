"""Installs of another prefix: their names in records, when they count as there, what cannot be an upstream."""

from __future__ import annotations

from pathlib import Path

import pytest

from envmgr.catalog.names import Entry
from envmgr.catalog.site import Target
from envmgr.errors import EnvmgrError
from envmgr.store.manifest import InstallFacts, Manifest, read_facts, write_manifest
from envmgr.store.prefix import Install, Prefix, find_install
from envmgr.store.upstream import open_upstream

ENTRY = Entry("python", "3.11")
TARGET = Target(arch="x86_64", cpu_level="x86-64-v2", os_id="debian", os_major="12", glibc="2.36")


def put(install: Install, *needs: str) -> Install:
    install.path.mkdir(parents=True, exist_ok=True)
    write_manifest(install.manifest, Manifest(install.digest, "", 0o022, InstallFacts(needs=needs), {}, ()))
    return install


def find(*prefixes: Prefix, layout: int = 1) -> Install:
    return find_install(prefixes, ENTRY, "conda", {}, TARGET, layout=layout)


def test_records_name_an_install_of_the_upstream_by_its_whole_path(tmp_path: Path) -> None:
    own, above = Prefix(tmp_path / "own"), Prefix(tmp_path / "above", foreign=True)
    low = put(Install(above, Entry("low", "1"), "1" * 64))
    base = put(Install(above, ENTRY, "0" * 64), "store/low/1-11111111")
    assert base.relative == f"{tmp_path}/above/store/python/3.11-00000000"
    assert own.install_at(base.relative) == Install(above, ENTRY, "00000000")
    assert above.install_at("store/low/1-11111111").path == low.path
    assert read_facts(base).needs == (low.relative,)
    assert own.named(str(base.path)) == base.relative
    assert own.named(f"{tmp_path}/own/store/a/1-00000000") == "store/a/1-00000000"
    for wrong in ("a", "x/store/a/1-00000000"):
        with pytest.raises(ValueError):
            own.install_at(wrong)


def test_own_comes_first_then_the_upstream_and_what_is_in_none_belongs_here(tmp_path: Path) -> None:
    own, above = Prefix(tmp_path / "own"), Prefix(tmp_path / "above", foreign=True)
    assert find(own, above).prefix == own
    there = Install(above, ENTRY, find(Prefix(tmp_path / "above")).digest)
    put(there)
    assert find(own, above).path == there.path
    assert find(above, own).path == there.path
    put(find(own))
    assert find(own, above).prefix == own
    assert find(above, own).prefix == above
    assert find(own, above, layout=2).prefix == own


def test_upstream_s_install_must_be_whole_and_have_the_whole_digest(tmp_path: Path) -> None:
    own, above = Prefix(tmp_path / "own"), Prefix(tmp_path / "above", foreign=True)
    digest = find(Prefix(tmp_path / "above")).digest
    there = put(Install(above, ENTRY, digest))
    assert find(own, above) == there
    other = digest[:8] + "f" * 56
    there.manifest.unlink()
    assert not find(own, above).prefix.foreign
    put(Install(above, ENTRY, other))
    assert not find(own, above).prefix.foreign, "the same 8 digits"
    there.manifest.unlink()
    there.manifest.write_text("{")
    assert not find(own, above).prefix.foreign


def test_what_cannot_be_an_upstream(tmp_path: Path) -> None:
    def said(path: Path) -> str:
        with pytest.raises(EnvmgrError) as caught:
            open_upstream(path)
        assert caught.value.reference in ("upstream-unusable", "format-unknown")
        return "; ".join(caught.value.context) or caught.value.message

    above = tmp_path / "above"
    assert said(above) == f"{above}: No such file or directory"
    above.write_text("")
    assert said(above) == f"{above}: Not a directory"
    above.unlink()
    above.mkdir()
    assert said(above) == "it is no prefix of envmgr: it has no store"
    (above / "store").mkdir()
    assert open_upstream(above) == Prefix(above, foreign=True)
    (above / "prefix.json").write_text('{"schema": 1, "path": "/elsewhere"}')
    assert said(above) == "it was made for /elsewhere"
    (above / "prefix.json").write_text('{"schema": 2, "path": "/elsewhere"}')
    assert "has format 2" in said(above)
