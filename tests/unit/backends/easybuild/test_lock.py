"""Files of a lock."""

from __future__ import annotations

from envmgr.backends.easybuild.lock import EasyBuildLock, LockedItem, locked_versions


def test_two_versions_of_one_software_are_both_told() -> None:
    """As zlib of the system's compiler and of the toolchain's, which one closure has."""

    def item(name: str, version: str, sha256: str) -> LockedItem:
        return LockedItem(
            name=name, version=version, easyconfig=f"{name}-{version}.eb", origin="easybuild", sha256=sha256 * 64
        )

    items = (item("zlib", "1.3.1", "a"), item("zlib", "1.3.1-GCCcore-13.3.0", "b"), item("toy", "1.0", "c"))
    lock = EasyBuildLock(
        recipe="", framework="5.4.1", easyblocks="5.4.1", easybuild_sha256="0" * 64, rpath=False, items=items
    )
    assert locked_versions(lock) == {
        "easybuild-framework": "5.4.1",
        "zlib/1.3.1": "1.3.1 aaaaaaaa",
        "zlib/1.3.1-GCCcore-13.3.0": "1.3.1-GCCcore-13.3.0 bbbbbbbb",
        "toy": "1.0 cccccccc",
    }
