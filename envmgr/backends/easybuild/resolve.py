"""From a recipe to a lock: EasyBuild resolves the easyconfig, we pick one sha256 for every file, or refuse."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from envmgr.backends.easybuild.capabilities import Setting
from envmgr.backends.easybuild.failures import eula_not_accepted
from envmgr.backends.easybuild.gpus import for_gpus, refused, said_now, unread
from envmgr.backends.easybuild.input import EasyBuildInput, accept_eula_for
from envmgr.backends.easybuild.lock import EasyBuildLock, LockedFile, LockedItem, LockedSource, letter_folder
from envmgr.backends.easybuild.settings import easyconfig_folders
from envmgr.backends.easybuild.tool import EasyBuild
from envmgr.catalog.names import nearest
from envmgr.catalog.site import Site
from envmgr.errors import EnvmgrError, InputError
from envmgr.system.files import sha256_file
from envmgr.system.run import Runner
from envmgr.system.scratch import scratch_folder
from envmgr.wording import did_you_mean

Choose = Callable[[str, str, Sequence[str]], str]
"""Gets a source's folder and name, and its accepted sha256; returns the sha256 to lock."""

_TIMEOUT = 1800.0  # seconds; a closure of 130 easyconfigs takes three


def resolve(wanted: EasyBuildInput, tool: EasyBuild, site: Site, runner: Runner, *, choose: Choose) -> EasyBuildLock:
    """The lock of an easyconfig and all that it stands on.

    `choose` decides where an easyconfig accepts several sha256 of one source, and finds the one of a source that the recipe
    accepts without any.

    Raises:
        InputError: `unknown-easyconfig`, `easyconfig-invalid`, `source-unhashed`, `external-module`, `eula-not-accepted`,
            `patch-missing`, `patch-differs`; see `gpus.refused`.
        EnvmgrError: `unresolved-dependency`; `easybuild-failed`; `source-differs` for one beside its easyconfig.
    """
    said = said_now(wanted, site)
    answer = _ask(wanted, tool, site, runner, said)
    items = [_item(raw, wanted, tool, choose) for raw in answer["items"]]
    asked = {setting for item in items for setting in item.asks}
    return EasyBuildLock(
        recipe=wanted.digest(),
        framework=answer["framework"],
        easyblocks=answer["easyblocks"],
        rpath=wanted.rpath,
        filter_deps=wanted.filter_deps,
        accept_eula=wanted.accept_eula,
        items=tuple(items),
        gpus_seen=for_gpus(item.name for item in items),
        **{setting: values for setting, values in said.items() if setting in asked},
    )


def _ask(
    wanted: EasyBuildInput, tool: EasyBuild, site: Site, runner: Runner, said: Mapping[Setting, Sequence[str]]
) -> Mapping[str, Any]:
    roots = [*easyconfig_folders(site), tool.easyconfigs]
    with scratch_folder("easybuild") as folder:
        scratch = str(folder)
        options = [
            f"--robot={':'.join(str(r) for r in roots)}",
            f"--prefix={scratch}",
            f"--tmpdir={scratch}",
            "--ignore-osdeps",
            "--module-naming-scheme=EasyBuildMNS",
            "--disable-pre-create-installdir",
            "--local-var-naming-check=error",
            "--allow-use-as-root-and-accept-consequences",
            "--ignore-index",
            *([f"--accept-eula-for={accept_eula_for(wanted.accept_eula)}"] if wanted.accept_eula else []),
            *([f"--filter-deps={','.join(wanted.filter_deps)}"] if wanted.filter_deps else []),
        ]
        request = json.dumps({"options": options, "easyconfig": wanted.easyconfig, "capabilities": said}) + "\n"
        done = runner.run(
            tool.argv(tool.inside / "resolve.py"),
            env=tool.environment(HOME=scratch),
            stdin=request,
            cwd=folder,
            timeout=_TIMEOUT,
            check=False,
        )
    try:
        answer = json.loads(done.stdout.splitlines()[-1])
    except (ValueError, IndexError):
        raise EnvmgrError(
            "easybuild-failed",
            f"EasyBuild {tool.version} did not resolve {wanted.easyconfig}",
            context=done.stderr.strip().splitlines()[-12:],
        ) from None
    if "error" in answer:
        raise _explain(wanted, answer, done.stderr, roots)
    if "unread" in answer:
        raise unread(wanted.easybuild, answer["settings"], str(answer["unread"]))
    if "refused" in answer:
        raise refused(wanted.easyconfig, answer["refused"], said)
    return dict(answer)


def _explain(wanted: EasyBuildInput, answer: Mapping[str, Any], said: str, roots: Sequence[Path]) -> EnvmgrError:
    text, code = str(answer["error"]).strip(), answer["code"]
    context = [f"easyconfig {wanted.easyconfig}"]
    if "One or more files not found" in text or code == 4:
        names = {p.name for root in roots for p in root.glob("[a-z0-9]/*/*.eb")}
        close = nearest(wanted.easyconfig, names) or sorted(n for n in names if n.startswith(wanted.easyconfig[:4]))[:3]
        return InputError(
            "unknown-easyconfig",
            f"there is no easyconfig {wanted.easyconfig}",
            context=[f"looked in {root}" for root in roots],
            hint=did_you_mean(close, "easyconfigs lie in <letter>/<Name>/ of those folders"),
        )
    if found := re.search(r"\(EULA\) for (\S+) is", text):
        seen = re.findall(r"https?://[^\s)]+", text)[:1]
        return eula_not_accepted(wanted.easyconfig, found[1], context=[*context, *seen])
    if found := re.search(r"No file found for (?:extension )?patch (\S+)", text):
        return InputError(
            "patch-missing",
            f"the patch {found[1]} is not there",
            context=context,
            hint="a patch lies in the folder of the easyconfig that names it",
        )
    if "Maximum loop cnt" in text:
        circle = list(dict.fromkeys(Path(path).name for path in re.findall(r"'spec': '([^']+)'", text)))
        return EnvmgrError(
            "unresolved-dependency",
            f"what {wanted.easyconfig} depends on goes round in a circle",
            context=[*context, f"among {', '.join(circle)}"[:300]],
            hint="take one of these dependencies out",
        )
    if code == 31 or "Irresolvable dependencies" in text or "Missing modules for dependencies" in text:
        return EnvmgrError(
            "unresolved-dependency",
            f"EasyBuild cannot resolve what {wanted.easyconfig} depends on",
            context=[*context, *_lines(text), *_there_is(text, roots)],
            hint="an easyconfig of exactly that version, toolchain and suffix must lie in one of the folders, or be among filter_deps",
        )
    return InputError(
        "easyconfig-invalid",
        f"EasyBuild {wanted.easybuild} refuses {wanted.easyconfig}",
        context=[*context, *_lines(text or said.strip())],
    )


def _there_is(text: str, roots: Sequence[Path]) -> list[str]:
    """Of each software that is wanted and not there, the easyconfigs that are."""
    wanted = dict.fromkeys(re.findall(r"^(\S+)/(\S+) is wanted by", text, re.MULTILINE))
    rows = []
    for name, version in wanted:
        found = {path.name for root in roots for path in (root / letter_folder(name)).glob("*.eb")}
        close = nearest(f"{name}-{version}.eb", found) or sorted(found)[-3:]
        rows.append(f"of {name} there is {', '.join(close)}" if close else f"of {name} there is no easyconfig at all")
    return rows


def _lines(text: str) -> list[str]:
    return [line[:300] for line in text.splitlines()[:12]]


def _item(raw: Mapping[str, Any], wanted: EasyBuildInput, tool: EasyBuild, choose: Choose) -> LockedItem:
    path = Path(raw["path"])
    if raw["external"]:
        raise InputError(
            "external-module",
            f"{path.name} depends on a module that EasyBuild does not build: {', '.join(raw['external'])}",
            hint="what an entry stands on must be in its lock: use an easyconfig for it",
        )
    folder = letter_folder(raw["name"])
    if not str(path.parent).endswith(f"/{folder}"):
        raise InputError(
            "easyconfig-misplaced",
            f"{path} is not where EasyBuild looks for it as a dependency",
            hint=f"move it to {folder}/{path.name} in its folder of easyconfigs",
        )
    sources = tuple(_source(path, s, wanted, choose, folder) for s in raw["sources"])
    return LockedItem(
        name=raw["name"],
        version=raw["version"],
        easyconfig=path.name,
        origin="easybuild" if path.is_relative_to(tool.easyconfigs) else "catalog",
        sha256=sha256_file(path),
        depends=tuple(raw["depends"]),
        build_depends=tuple(raw["build_depends"]),
        sources=sources,
        patches=tuple(_patch(path, p) for p in raw["patches"]),
        files=tuple(_file(path, f, wanted) for f in raw["files"]),
        eulas=tuple(raw["eulas"]),
        os_packages=tuple(tuple(group) for group in raw["os_packages"]),
        extensions=tuple(raw["extensions"]),
        python=raw["python"],
        asks=tuple(raw["asks"]),
        instructions=" ".join(raw["instructions"].split()),
    )


def _source(path: Path, raw: Mapping[str, Any], wanted: EasyBuildInput, choose: Choose, own: str) -> LockedSource:
    reason = _why_unhashed(path, raw, wanted)
    urls = () if raw["git"] else tuple(raw["urls"])
    accepted = raw["checksums"]
    sha256 = accepted[0] if len(accepted) == 1 else choose(raw["folder"], raw["name"], accepted)
    folder = "" if raw["folder"] == own else raw["folder"]
    return LockedSource(name=raw["name"], sha256=sha256, folder=folder, urls=urls, unhashed=reason)


def _file(easyconfig: Path, raw: Mapping[str, Any], wanted: EasyBuildInput) -> LockedSource:
    """A source, or a script that an easyblock asks for, that lies among easyconfigs."""
    reason = _why_unhashed(easyconfig, raw, wanted) if raw["can_have"] else ""
    path = Path(raw["path"])
    found = sha256_file(path)
    if raw["checksums"] and found not in raw["checksums"]:
        raise EnvmgrError(
            "source-differs",
            f"{path} is not what {easyconfig.name} says",
            context=[f"expected {raw['checksums'][0]}", f"found    {found}"],
            hint="take it back from git, or correct the checksum",
        )
    return LockedSource(name=raw["name"], sha256=found, folder=_folder_of(path, easyconfig), unhashed=reason)


def _folder_of(path: Path, easyconfig: Path) -> str:
    """Where a file lies that is not beside its easyconfig: below a folder of easyconfigs, as `p/Python`."""
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


def _why_unhashed(easyconfig: Path, raw: Mapping[str, Any], wanted: EasyBuildInput) -> str:
    """The recipe's reason for a source without a checksum; empty for one that has it."""
    if raw["checksums"]:
        return ""
    if reason := wanted.unhashed.get(raw["name"], ""):
        return reason
    raise InputError(
        "source-unhashed",
        f"{easyconfig.name} has no sha256 for its source {raw['name']}",
        hint=f"add the checksum to the easyconfig; or accept it with a reason: input.unhashed: {{{raw['name']}: why}}",
    )


def _patch(easyconfig: Path, raw: Mapping[str, Any]) -> LockedFile:
    path = Path(raw["path"])
    found = sha256_file(path)
    if raw["checksums"] and found not in raw["checksums"]:
        raise InputError(
            "patch-differs",
            f"{path} is not what {easyconfig.name} says",
            context=[f"expected {raw['checksums'][0]}", f"found    {found}"],
        )
    return LockedFile(name=raw["name"], sha256=found, folder=_folder_of(path, easyconfig))
