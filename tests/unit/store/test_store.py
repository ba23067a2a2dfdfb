from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envmgr.catalog.names import Entry
from envmgr.catalog.site import Target
from envmgr.errors import EnvmgrError
from envmgr.store.manifest import InstallFacts, Manifest, write_manifest
from envmgr.store.prefix import Install, Prefix, install_digest, installs

TARGET = Target(arch="x86_64", cpu_level="x86-64-v2", os_id="rocky", os_major="9", glibc="2.34")
IDENTITY = [{"name": "zlib", "version": "1.3", "url": "https://example.org/zlib-1.3.conda", "sha256": "ab" * 32}]
ROOT = Path("/shared/envmgr")
ENTRY = Entry("pytorch", "2.1-cuda11.8")


def digest(**change: Any) -> str:
    arguments: dict[str, Any] = {
        "entry": ENTRY,
        "backend": "conda",
        "identity": IDENTITY,
        "target": TARGET,
        "root": ROOT,
        "layout": 1,
    }
    arguments |= change
    return install_digest(**arguments)


def put(install: Install, recorded: str | None = None) -> Install:
    """The install as an empty folder with a manifest."""
    install.path.mkdir(parents=True)
    manifest = Manifest(recorded or install.digest, "0" * 64, 0o022, InstallFacts(), {}, ())
    write_manifest(install.manifest, manifest)
    return install


def test_install_digest_is_golden() -> None:
    """Another value here renames every install of every site: count `layout` up on purpose, never by accident."""
    assert digest() == "6734cc6b74e4b6788e99b4231684e4bbaeab2e05eeaf21dbd8ac1e5627686629"


@pytest.mark.parametrize(
    "change",
    [
        {"backend": "easybuild"},
        {"entry": Entry("pytorch", "2.1")},
        {"identity": []},
        {"identity": [{**IDENTITY[0], "sha256": "ac" * 32}]},
        {"identity": [{**IDENTITY[0], "url": "https://mirror.org/zlib-1.3.conda"}]},
        {"identity": IDENTITY * 2},
        {"target": TARGET.model_copy(update={"arch": "aarch64"})},
        {"target": TARGET.model_copy(update={"cpu_level": "x86-64-v3"})},
        {"target": TARGET.model_copy(update={"os_id": "debian"})},
        {"target": TARGET.model_copy(update={"os_major": "10"})},
        {"target": TARGET.model_copy(update={"glibc": "2.39"})},
        {"root": Path("/shared/envmgr2")},
        {"layout": 2},
    ],
    ids=[
        "backend",
        "entry",
        "packages",
        "sha256",
        "url",
        "twice",
        "arch",
        "cpu",
        "os",
        "os-major",
        "glibc",
        "prefix",
        "layout",
    ],
)
def test_install_digest_changes_with_everything_that_decides_the_bytes(change: dict[str, Any]) -> None:
    assert digest(**change) != digest()


JSON = st.recursive(
    st.none() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


def reordered(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: reordered(value[key]) for key in reversed(value)}
    return [reordered(v) for v in value] if isinstance(value, list) else value


@given(JSON)
def test_install_digest_does_not_depend_on_the_order_of_dicts(identity: Any) -> None:
    assert digest(identity=reordered(identity)) == digest(identity=identity)
    assert digest(identity=json.loads(json.dumps(identity))) == digest(identity=identity)


@given(JSON, JSON)
def test_install_digest_differs_for_different_identities(a: Any, b: Any) -> None:
    assert (digest(identity=a) == digest(identity=b)) == (
        json.dumps(a, sort_keys=True) == json.dumps(b, sort_keys=True)
    )


def test_prefix_has_the_layout_of_the_design() -> None:
    prefix = Prefix(ROOT)
    assert {
        name: str(getattr(prefix, name).relative_to(ROOT))
        for name in dir(prefix)
        if name[0] != "_" and isinstance(getattr(prefix, name), Path) and name != "root"
    } == {
        "store": "store",
        "generations": "generations",
        "flips": "flips",
        "candidate": "candidate",
        "candidates": "candidates",
        "current": "current",
        "place": "prefix.json",
        "cache": "cache",
        "images": "images",
        "source_cache": "cache/sources",
        "holds": "var/jobs/holds",
        "hold_lock": "var/lock/hold.lock",
        "user_holds": "var/users",
        "jobs": "var/jobs",
        "slurm_jobs": "var/jobs/slurm",
        "logs": "var/log",
        "locks": "var/lock",
        "publish_lock": "var/lock/publish.lock",
        "history": "var/history.jsonl",
    }
    assert prefix.generation(42) == ROOT / "generations/0042"
    assert prefix.generation(12345) == ROOT / "generations/12345"


def test_install_paths_lie_side_by_side() -> None:
    install = Install(Prefix(ROOT), ENTRY, "0123456789abcdef" * 4)
    store = ROOT / "store/pytorch"
    assert install.path == store / "2.1-cuda11.8-01234567"
    assert install.staging == store / ".staging-2.1-cuda11.8-01234567"
    assert install.manifest == store / "2.1-cuda11.8-01234567.manifest.json"
    assert install.lock == ROOT / "var/lock/store-pytorch-2.1-cuda11.8-01234567.lock"


def test_install_exists_only_with_folder_and_manifest(tmp_path: Path) -> None:
    install = Install(Prefix(tmp_path), ENTRY, "ab" * 32)
    assert not install.exists()
    install.path.mkdir(parents=True)
    assert not install.exists()
    put_manifest_only = Install(Prefix(tmp_path), Entry("other", "1"), "ab" * 32)
    put(put_manifest_only).path.rmdir()
    assert not put_manifest_only.exists()
    install.path.rmdir()
    assert put(install).exists()


@pytest.mark.parametrize("extra", [0, 1])
def test_install_check_length_refuses_a_path_longer_than_255(extra: int) -> None:
    tail = len("/store/pytorch/2.1-cuda11.8-abababab")
    root = "/" + "p" * (254 + extra - tail)
    install = Install(Prefix(Path(root)), ENTRY, "ab" * 32)
    assert len(str(install.path)) == 255 + extra
    if not extra:
        install.check_length()
        return
    with pytest.raises(EnvmgrError) as caught:
        install.check_length()
    assert caught.value.render() == (
        "error[prefix-too-long]: the install path of pytorch/2.1-cuda11.8 has 256 characters; packages have room for 255\n"
        f"  {install.path}\n"
        "\n"
        "hint: choose a shorter prefix in site.yaml"
    )


def test_install_check_digest_tells_two_digests_with_the_same_first_digits(tmp_path: Path) -> None:
    wanted, other = "ab" * 4 + "0" * 56, "ab" * 4 + "1" * 56
    install = put(Install(Prefix(tmp_path), ENTRY, wanted), recorded=other)
    with pytest.raises(EnvmgrError) as caught:
        install.check_digest()
    assert caught.value.render() == (
        "error[digest-collision]: two digests of pytorch/2.1-cuda11.8 share their first 8 digits\n"
        f"  wanted    {wanted}\n"
        f"  installed {other}\n"
        "\n"
        "hint: change the recipe in any way that changes its lock, and lock again"
    )


def test_install_check_digest_is_silent_for_its_own_and_for_nothing(tmp_path: Path) -> None:
    install = Install(Prefix(tmp_path), ENTRY, "ab" * 32)
    install.check_digest()
    put(install).check_digest()


def test_install_check_digest_calls_a_damaged_manifest_damaged_not_a_collision(tmp_path: Path) -> None:
    install = Install(Prefix(tmp_path), ENTRY, "ab" * 32)
    install.path.mkdir(parents=True)
    install.manifest.write_text("")
    with pytest.raises(EnvmgrError, match="manifest-damaged"):
        install.check_digest()


def test_installs_finds_versions_with_dashes_and_skips_what_is_not_complete(tmp_path: Path) -> None:
    prefix = Prefix(tmp_path)
    assert list(installs(prefix)) == []
    made = [
        put(Install(prefix, Entry(n, v), d * 64)) for n, v, d in (("a", "1", "1"), ("b", "2-x-3", "2"), ("b", "2", "3"))
    ]
    (prefix.store / "b" / "9-44444444").mkdir()
    (prefix.store / "b" / ".staging-9-55555555").mkdir()
    put(Install(prefix, Entry("b", "8"), "6" * 64)).path.rmdir()
    assert sorted(installs(prefix), key=str) == sorted(made, key=str)


def test_installs_keeps_one_with_a_damaged_manifest_so_that_it_can_be_removed(tmp_path: Path) -> None:
    prefix = Prefix(tmp_path)
    install = put(Install(prefix, ENTRY, "ab" * 32))
    install.manifest.chmod(0o644)
    install.manifest.write_text("")
    (found,) = installs(prefix)
    assert (found.entry, found.path, found.manifest) == (ENTRY, install.path, install.manifest)
