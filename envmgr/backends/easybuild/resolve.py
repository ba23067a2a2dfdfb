"""Make a lock of a recipe: EasyBuild resolves the easyconfig, and each file gets one sha256 or is refused."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from envmgr.backends.easybuild.failures import EULA_NEEDED, eula_not_accepted
from envmgr.backends.easybuild.gpus import capabilities_missing, capabilities_unread
from envmgr.backends.easybuild.installation import INSIDE, EasyBuild, contents_sum
from envmgr.backends.easybuild.lock import EasyBuildLock, LockedFile, LockedItem, LockedSource, letter_folder
from envmgr.backends.easybuild.settings import EasyBuildInput, Setting, accept_eula_for, easyconfig_folders, said_now
from envmgr.catalog.names import nearest
from envmgr.catalog.site import Site
from envmgr.errors import EnvmgrError, InputError
from envmgr.store.prefix import Prefix
from envmgr.system.files import sha256_file
from envmgr.system.run import Runner
from envmgr.system.scratch import scratch_folder
from envmgr.wording import did_you_mean

_TIMEOUT = 1800.0  # seconds; a closure of 130 easyconfigs takes three
# Fields of an item that `inside/resolve.py` returns as the lock has them.
_AS_LOCKED = ["name", "version", "depends", "build_depends", "eulas", "os_packages", "extensions", "asks"]


def resolve_easyconfig(wanted: EasyBuildInput, tool: EasyBuild, site: Site, runner: Runner) -> EasyBuildLock:
    """Return the lock of an easyconfig and everything that it depends on, without EasyBuild's own files.

    Raises:
        InputError: `unknown-easyconfig`, `easyconfig-invalid`, `easyconfig-misplaced`, `source-unhashed`,
            `external-module`, `eula-not-accepted`, `patch-missing`, `patch-differs`; `capabilities-missing`, `capabilities-unread`.
        EnvmgrError: `unresolved-dependency`; `easybuild-failed`; `source-differs` for one beside its easyconfig.
    """
    said = said_now(wanted, site)
    answer = _ask(wanted, tool, site, runner, said)
    items = tuple(_item(raw, wanted, tool, site) for raw in answer["items"])
    asked = {setting for item in items for setting in item.asks}
    return EasyBuildLock(
        recipe=wanted.digest(),
        framework=answer["framework"],
        easyblocks=answer["easyblocks"],
        easybuild_sha256=contents_sum(tool.places),
        rpath=wanted.rpath,
        filter_deps=wanted.filter_deps,
        accept_eula=wanted.accept_eula,
        items=items,
        **{setting: values for setting, values in said.items() if setting in asked},
    )


def _ask(
    wanted: EasyBuildInput, tool: EasyBuild, site: Site, runner: Runner, said: Mapping[Setting, Sequence[str]]
) -> Mapping[str, Any]:
    roots = [*easyconfig_folders(site), tool.easyconfigs]
    with scratch_folder("easybuild") as folder:
        options = [
            f"--robot={':'.join(str(r) for r in roots)}",
            f"--prefix={folder}",
            f"--tmpdir={folder}",
            # Packages of the system matter on the host that builds, which checks them itself.
            "--ignore-osdeps",
            # envmgr's own scheme needs digests of installs, which follow from the finished lock.
            "--module-naming-scheme=EasyBuildMNS",
            "--disable-pre-create-installdir",
            "--local-var-naming-check=error",
            # Nothing is built or installed here.
            "--allow-use-as-root-and-accept-consequences",
            # An index in a folder of easyconfigs may be older than its files.
            "--ignore-index",
            *([f"--accept-eula-for={accept_eula_for(wanted.accept_eula)}"] if wanted.accept_eula else []),
            *([f"--filter-deps={','.join(wanted.filter_deps)}"] if wanted.filter_deps else []),
        ]
        request = json.dumps({"options": options, "easyconfig": wanted.easyconfig, "capabilities": said}) + "\n"
        argv, env = tool.argv(INSIDE / "resolve.py"), tool.environment(HOME=str(folder))
        done = runner.run(argv, env=env, stdin=request, cwd=folder, timeout=_TIMEOUT, check=False)
    try:
        answer = json.loads(done.stdout.splitlines()[-1])
    except (ValueError, IndexError):
        message = f"EasyBuild {tool.version} did not resolve {wanted.easyconfig}"
        raise EnvmgrError("easybuild-failed", message, context=done.stderr.strip().splitlines()[-12:]) from None
    if "error" in answer:
        raise _why_not_resolved(wanted, answer, done.stderr, roots)
    if "unread" in answer:
        raise capabilities_unread(wanted.easybuild, answer["settings"], str(answer["unread"]))
    if "lacks" in answer:
        raise capabilities_missing(wanted.easyconfig, answer["lacks"])
    return dict(answer)


def unknown_easyconfig(easyconfig: str, roots: Sequence[Path]) -> InputError:
    """Return the error for an easyconfig that is in none of the folders."""
    names = {p.name for root in roots for p in root.glob("[a-z0-9]/*/*.eb")}
    close = nearest(easyconfig, names) or sorted(n for n in names if n.startswith(easyconfig[:4]))[:3]
    return InputError(
        "unknown-easyconfig",
        f"there is no easyconfig {easyconfig}",
        context=[f"looked in {root}" for root in roots],
        hint=did_you_mean(close, "easyconfigs lie in <letter>/<Name>/ of those folders"),
    )


def _why_not_resolved(
    wanted: EasyBuildInput, answer: Mapping[str, Any], stderr: str, roots: Sequence[Path]
) -> EnvmgrError:
    text, code, easyconfig = str(answer["error"]).strip(), answer["code"], wanted.easyconfig
    context = [f"easyconfig {easyconfig}"]
    if "One or more files not found" in text or code == 4:
        return unknown_easyconfig(easyconfig, roots)
    if found := EULA_NEEDED.search(text):
        return eula_not_accepted(easyconfig, found[1], context=[*context, *re.findall(r"https?://[^\s)]+", text)[:1]])
    if found := re.search(r"No file found for (?:extension )?patch (\S+)", text):
        hint = "a patch lies in the folder of the easyconfig that names it"
        return InputError("patch-missing", f"the patch {found[1]} is not there", context=context, hint=hint)
    if "Maximum loop cnt" in text:
        circle = list(dict.fromkeys(Path(path).name for path in re.findall(r"'spec': '([^']+)'", text)))
        return EnvmgrError(
            "unresolved-dependency",
            f"the dependencies of {easyconfig} form a circle",
            context=[*context, f"among {', '.join(circle)}"[:300]],
            hint="take one of these dependencies out",
        )
    if code == 31 or "Irresolvable dependencies" in text or "Missing modules for dependencies" in text:
        return EnvmgrError(
            "unresolved-dependency",
            f"EasyBuild cannot resolve what {easyconfig} depends on",
            context=[*context, *_lines(text), *_there_is(text, roots)],
            hint="an easyconfig of exactly that version, toolchain and suffix must lie in one of the folders, "
            "or be among filter_deps",
        )
    message = f"EasyBuild {wanted.easybuild} refuses {easyconfig}"
    return InputError("easyconfig-invalid", message, context=[*context, *_lines(text or stderr.strip())])


def _there_is(text: str, roots: Sequence[Path]) -> Iterator[str]:
    """Yield, for each software that is wanted and missing, the easyconfigs of it that are there."""
    for name, version in dict.fromkeys(re.findall(r"^(\S+)/(\S+) is wanted by", text, re.MULTILINE)):
        found = {path.name for root in roots for path in (root / letter_folder(name)).glob("*.eb")}
        close = nearest(f"{name}-{version}.eb", found) or sorted(found)[-3:]
        yield f"easyconfigs of {name}: {', '.join(close)}" if close else f"there is no easyconfig of {name}"


def _lines(text: str) -> list[str]:
    return [line[:300] for line in text.splitlines()[:12]]


def _item(raw: Mapping[str, Any], wanted: EasyBuildInput, tool: EasyBuild, site: Site) -> LockedItem:
    path, folder = Path(raw["path"]), letter_folder(raw["name"])
    if raw["external"]:
        raise InputError(
            "external-module",
            f"{path.name} depends on a module that EasyBuild does not build: {', '.join(raw['external'])}",
            hint="what an entry stands on must be in its lock: use an easyconfig for it",
        )
    if not str(path.parent).endswith(f"/{folder}"):
        raise InputError(
            "easyconfig-misplaced",
            f"{path} is not where EasyBuild looks for it as a dependency",
            hint=f"move it to {folder}/{path.name} in its folder of easyconfigs",
        )
    return LockedItem(
        **{name: raw[name] for name in _AS_LOCKED},
        easyconfig=path.name,
        origin="easybuild" if path.is_relative_to(tool.easyconfigs) else "catalog",
        sha256=sha256_file(path),
        sources=tuple(_source(path, each, wanted, site, folder) for each in raw["sources"]),
        patches=tuple(_patch(path, each) for each in raw["patches"]),
        files=tuple(_local_source(path, each, wanted) for each in raw["files"]),
        instructions=" ".join(raw["instructions"].split()),
    )


def _source(easyconfig: Path, raw: Mapping[str, Any], wanted: EasyBuildInput, site: Site, own: str) -> LockedSource:
    folder, accepted = raw["folder"], raw["checksums"]
    reason = _why_unhashed(easyconfig, raw, wanted)
    return LockedSource(
        name=raw["name"],
        sha256=accepted[0] if len(accepted) == 1 else _chosen(folder, raw["name"], accepted, site),
        folder="" if folder == own else folder,
        urls=() if raw["git"] else tuple(raw["urls"]),
        unhashed=reason,
    )


def _chosen(folder: str, name: str, accepted: Sequence[str], site: Site) -> str:
    """Return the sha256 of a file that is here, among several accepted ones; otherwise upstream's, which is the first.

    Without any accepted one, it is that of the file.
    """
    cache = Prefix(site.prefix).source_cache
    if here := [digest for digest in accepted if (cache / digest / name).is_file()]:
        return here[0]
    found = [sha256_file(path) for path in _in_mirrors(folder, name, site)]
    if accepted:
        return next((digest for digest in found if digest in accepted), accepted[0])
    if found:
        return found[0]
    raise InputError(
        "source-unhashed",
        f"{name} has no sha256, and no file of that name is here to take it from",
        hint=f"put it into a folder of sources.mirrors (site.yaml), as {folder}/{name}, after you looked at it",
    )


def _in_mirrors(folder: str, name: str, site: Site) -> Iterator[Path]:
    """Yield the files of that name in mirrors that are folders."""
    for mirror in site.sources.mirrors:
        if mirror.startswith("file://"):
            root = Path(unquote(urlsplit(mirror).path))
            places = (root / folder / name, root / folder / "extensions" / name, root / name)
            yield from (path for path in places if path.is_file())


def _why_unhashed(easyconfig: Path, raw: Mapping[str, Any], wanted: EasyBuildInput) -> str:
    """Return the recipe's reason for a source without a checksum; empty for one that has it."""
    if raw["checksums"]:
        return ""
    if reason := wanted.unhashed.get(raw["name"], ""):
        return reason
    raise InputError(
        "source-unhashed",
        f"{easyconfig.name} has no sha256 for its source {raw['name']}",
        hint=f"add the checksum to the easyconfig; or accept it with a reason: input.unhashed: {{{raw['name']}: why}}",
    )


def _local_source(easyconfig: Path, raw: Mapping[str, Any], wanted: EasyBuildInput) -> LockedSource:
    """Return a source, or a script that an easyblock asks for, that lies among easyconfigs."""
    reason = _why_unhashed(easyconfig, raw, wanted) if raw["can_have"] else ""
    path, found = Path(raw["path"]), sha256_file(Path(raw["path"]))
    if differing := _differing(found, raw):
        raise EnvmgrError(
            "source-differs",
            f"{path} is not what {easyconfig.name} says",
            context=differing,
            hint="restore it from git, or correct the checksum",
        )
    return LockedSource(name=raw["name"], sha256=found, folder=_folder_of(path, easyconfig), unhashed=reason)


def _patch(easyconfig: Path, raw: Mapping[str, Any]) -> LockedFile:
    path, found = Path(raw["path"]), sha256_file(Path(raw["path"]))
    if differing := _differing(found, raw):
        raise InputError("patch-differs", f"{path} is not what {easyconfig.name} says", context=differing)
    return LockedFile(name=raw["name"], sha256=found, folder=_folder_of(path, easyconfig))


def _differing(found: str, raw: Mapping[str, Any]) -> list[str]:
    accepted = raw["checksums"]
    return [] if not accepted or found in accepted else [f"expected {accepted[0]}", f"found    {found}"]


def _folder_of(path: Path, easyconfig: Path) -> str:
    """Return a file's folder below a folder of easyconfigs, such as `p/Python`; empty beside its easyconfig."""
    if path.parent == easyconfig.parent:
        return ""
    folder = "/".join(path.parent.parts[-2:])
    if folder != letter_folder(path.parent.name):
        raise InputError(
            "easyconfig-misplaced",
            f"{path} is not where EasyBuild looks for the files of {easyconfig.name}",
            hint=f"move it beside {easyconfig}",
        )
    return folder
