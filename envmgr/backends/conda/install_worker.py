"""The worker that installs conda packages with rattler: it unpacks, links and compiles files that are there.

Its protocol is in system/worker.py. Events: `total`, `linked`, `compiling`, `compile`, `compiled`, `done`, `error`.
"""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from envmgr.store.bytecode import compile_python
from envmgr.system.files import pretty_json
from envmgr.system.worker import cancel_on_sigterm, emit, serve

_LINKED_FROM = ".unpacked"
"""Folder inside a staging folder, from which files are linked."""
# Fields of a record that come from the package's own info/index.json, and so from its bytes: a lock lacks them, or does
# without its sidecar. Not what a package needs: there the channel corrects the package, and the lock has that.
_FROM_PACKAGE = """
arch build_number features license license_family noarch platform python_site_packages_path timestamp track_features
""".split()
# What says where on this machine it was installed from.
_OF_THIS_MACHINE = {"extracted_package_dir": "", "package_tarball_full_path": ""}


class InstallEvents:
    """A reporter for rattler: it emits the number of packages, and each one that is linked. The other hooks must
    exist.
    """

    def __init__(self) -> None:
        self._links: list[str] = []

    def on_transaction_start(self, total_operations: int) -> None:
        emit("total", packages=total_operations)

    def on_link_start(self, operation: int, package_name: str) -> int:  # noqa: ARG002 - rattler's signature
        self._links.append(package_name)
        return len(self._links) - 1

    def on_link_complete(self, index: int) -> None:
        emit("linked", name=self._links[index])

    def __getattr__(self, hook: str) -> Callable[..., int]:
        return lambda *_: 0


async def link_packages(request: dict[str, Any]) -> None:
    """Unpack and link the archives of `records` into `staging`, with `final` written into the files.

    Unpacked packages lie inside the staging folder, in _LINKED_FROM, and are removed before a user sees it. Linking
    therefore costs nothing, and no two installs share a file.
    """
    cancel_on_sigterm()
    import rattler

    files = {record["name"]: Path(record["path"]) for record in request["records"]}
    staging = Path(request["staging"])
    await rattler.install(
        [to_record(rattler, r, files[r["name"]].as_uri()) for r in request["records"]],
        staging,
        cache_dir=staging / _LINKED_FROM,
        platform=rattler.Subdir(request["platform"]),
        installed_packages=[],
        reporter=InstallEvents(),
        # The staging folder gets its final name only when it is complete.
        alternative_target_prefix=request["final"],
        show_progress=False,
    )
    await asyncio.to_thread(normalise_meta, staging, request["records"], files)


def to_record(rattler: Any, data: dict[str, Any], place: str) -> Any:
    package = rattler.PackageRecord(
        **{key: data.get(key) for key in ("name", "version", "python_site_packages_path")},
        build=rattler.BuildString.new_unchecked(data["build"]),
        build_number=0,  # and `noarch`: rattler reads them from the package
        subdir=data["url"].rsplit("/", 2)[1],
        depends=list(data.get("depends", ())),
        sha256=bytes.fromhex(data["sha256"]),
        md5=bytes.fromhex(data["md5"]) if data.get("md5") else None,
    )
    return rattler.RepoDataRecord(package, data["url"].rpartition("/")[2], place, data["url"].rsplit("/", 2)[0])


def normalise_meta(staging: Path, records: Iterable[Mapping[str, Any]], archives: Mapping[str, Path]) -> None:
    """Rewrite every record that rattler made. The unpacked packages must still exist. `archives` maps name -> package
    file.

    Source: comparison of two installs of one lock, which differ only in cache paths, and of locks with and without
    sidecar.
    """
    (staging / "CACHEDIR.TAG").unlink(missing_ok=True)  # backups would skip the folder
    locked = {r["url"].rpartition("/")[2]: r for r in records}
    for path in sorted((staging / "conda-meta").glob("*.json")):
        record: dict[str, Any] = json.loads(path.read_bytes())
        index = json.loads((Path(record["extracted_package_dir"]) / "info" / "index.json").read_bytes())
        wanted = locked[record["fn"]]
        kept = {key: value for key, value in record.items() if key not in _FROM_PACKAGE and key != "size"}
        kept |= {key: index[key] for key in _FROM_PACKAGE if index.get(key) is not None}
        kept |= {"url": wanted["url"], "channel": wanted["url"].rsplit("/", 2)[0], **_OF_THIS_MACHINE}
        kept["size"] = archives[wanted["name"]].stat().st_size
        kept["link"] = {"source": "", "type": 1}  # 1: a separate file, which a link to the unpacked package becomes
        path.write_text(pretty_json(kept), encoding="utf-8")
    (staging / "conda-meta" / "history").write_text("", encoding="utf-8")  # conda takes the folder for an environment


def compile_beside_removal(staging: Path, final: str, jobs: int) -> None:
    """Remove the unpacked packages (disk-bound) while compiling to byte code (processor-bound).

    Raises:
        ChildProcessError: see `compile_python`; compilation had all the free space.
        OSError: something could not be removed.
    """
    unpacked = staging / _LINKED_FROM
    # Before the removal begins: the folder is empty after it.
    makes_room = any(unpacked.iterdir())
    with ThreadPoolExecutor(1) as pool:
        removal = pool.submit(shutil.rmtree, unpacked)
        try:
            compile_python(staging, final, jobs, emit)
        except ChildProcessError:  # the disk may have been full of what was being removed
            removal.result()
            if not makes_room:
                raise
            compile_python(staging, final, jobs, emit)
    removal.result()


def work(request: dict[str, Any]) -> None:
    asyncio.run(link_packages(request))
    staging = Path(request["staging"])
    if request.get("more"):  # wheels follow, and are compiled with everything else: wheels_worker.py
        shutil.rmtree(staging / _LINKED_FROM)
    else:
        compile_beside_removal(staging, request["final"], request["jobs"])


if __name__ == "__main__":
    serve(work)
