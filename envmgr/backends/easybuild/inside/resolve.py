"""Resolve easyconfigs: one JSON request on stdin, one JSON answer on stdout. This runs under EasyBuild's Python.

Nothing is downloaded or built. EasyBuild itself says which files each easyblock would fetch: its own step runs with an
`obtain_file` that only notes what is asked for.
"""

import ast
import inspect
import json
import logging
import os
import re
import sys
import textwrap
from contextlib import contextmanager, redirect_stdout, suppress
from functools import cache
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parent))  # only our own files
import gpu_settings

TYPES = ("adler32", "crc32", "md5", "sha1", "sha256", "sha512", "size")


def main():
    request = json.loads(sys.stdin.readline())
    answer = sys.stdout
    logging.disable(logging.CRITICAL)  # every easyblock opens a log, and all of them would get every word
    # EasyBuild and easyblocks print to stdout, which is for the answer only.
    with redirect_stdout(sys.stderr):
        try:
            result = resolve_closure(request)
        except Exception as error:  # noqa: BLE001 - whatever it is, the caller gets it
            code = getattr(error, "exit_code", None)
            result = {"error": str(getattr(error, "msg", error)), "code": int(code) if code is not None else None}
    answer.write(json.dumps(result) + "\n")
    answer.flush()
    os._exit(0)


def resolve_closure(request):
    from easybuild.framework.easyconfig.tools import det_easyconfig_paths, parse_easyconfigs
    from easybuild.tools import filetools
    from easybuild.tools.build_log import EasyBuildError
    from easybuild.tools.modules import modules_tool
    from easybuild.tools.options import set_up_configuration
    from easybuild.tools.robot import resolve_dependencies
    from easybuild.tools.version import EASYBLOCKS_VERSION, VERSION

    # ConfigureMake would get a config.guess; easyblocks, which import this function, are imported later.
    filetools.download_file = lambda *_args, **_more: None
    values = gpu_settings.known_settings(request["capabilities"])
    capabilities = [f"--{name.replace('_', '-')}={','.join(each)}" for name, each in values.items() if each]
    unread = ""
    try:
        set_up_configuration(args=[*request["options"], *capabilities], silent=True)
    except EasyBuildError as error:
        if not capabilities:
            raise
        set_up_configuration(args=request["options"], silent=True, reconfigure=True)  # for what asks for none of them
        unread = error.msg
    paths = det_easyconfig_paths([request["easyconfig"]])
    parsed, _ = parse_easyconfigs([(path, False) for path in paths], validate=False)
    try:
        ordered = resolve_dependencies(parsed, modules_tool(), retain_all_deps=True)
    except EasyBuildError as error:
        code = error.exit_code
        raise EasyBuildError("%s", "\n".join([error.msg, *wanting(parsed)]), exit_code=code) from error
    looks = gpu_settings.look_at(ordered, values)
    if unread and any(look["asks"] for look in looks):
        return {"unread": unread, "settings": sorted(name for name, each in values.items() if each)}
    lacks = [[Path(item["spec"]).name, *look["lacks"]] for item, look in zip(ordered, looks, strict=True)]
    if any(settings for _, *settings in lacks):
        return {"lacks": [row for row in lacks if row[1:]]}
    return {
        "framework": str(VERSION),
        "easyblocks": str(EASYBLOCKS_VERSION),
        "items": [{**item_answer(item), "asks": look["asks"]} for item, look in zip(ordered, looks, strict=True)],
    }


def wanting(parsed):
    """Return the easyconfigs that depend on a missing one: EasyBuild does not name them, and closures are deep."""
    from easybuild.framework.easyconfig.easyconfig import robot_find_easyconfig
    from easybuild.framework.easyconfig.tools import parse_easyconfigs
    from easybuild.tools.build_log import EasyBuildError
    from easybuild.tools.module_naming_scheme.utilities import det_full_ec_version

    waiting, known, found = list(parsed), set(), []
    with suppress(EasyBuildError):  # the error to report is that something is missing
        while waiting:
            item = waiting.pop(0)
            for dep in item["dependencies"]:
                path = robot_find_easyconfig(dep["name"], det_full_ec_version(dep))
                if path is None:
                    found.append(f"{key_of(dep)} is wanted by {Path(item['spec']).name}")
                elif path not in known:
                    known.add(path)
                    waiting += parse_easyconfigs([(path, False)], validate=False)[0]
    return dict.fromkeys(found)


def item_answer(item):
    from easybuild.tools.module_naming_scheme.utilities import det_full_ec_version

    config = item["ec"]
    sources, patches, files, eulas = files_of(item)
    needed = [dep for dep in config.all_dependencies if not dep.get("external_module")]
    external = [dep["full_mod_name"] for dep in config.all_dependencies if dep.get("external_module")]
    build_only = {key_of(dep) for dep in needed if dep.get("build_only")}
    return {
        "path": item["spec"],
        "name": config["name"],
        "version": det_full_ec_version(config),
        "depends": sorted({key_of(dep) for dep in needed} - build_only),
        "build_depends": sorted(build_only),
        "external": external,
        "sources": sources,
        "patches": patches,
        "files": files,
        "eulas": eulas,
        "os_packages": [[dep] if isinstance(dep, str) else list(dep) for dep in config["osdependencies"]],
        "extensions": [extension_name(e) for e in config.get_ref("exts_list") or []],
        "instructions": config["download_instructions"] or "",
    }


def extension_name(extension):
    if isinstance(extension, str):
        return extension
    return "/".join(str(part) for part in extension[:2])


def key_of(dep):
    from easybuild.tools.module_naming_scheme.utilities import det_full_ec_version

    return f"{dep['name']}/{det_full_ec_version(dep)}"


def files_of(item):
    """Return what the easyblock's own fetch step asks for: sources, patches, files among easyconfigs, and EULAs."""
    from easybuild.framework.easyblock import get_easyblock_instance

    with noting() as (asked, local, eulas):
        block = get_easyblock_instance(item)
        block.update_config_template_run_step()  # as EasyBuild does before each step
        # There are no files to check: `/nowhere/…` stands for each.
        block.fetch_step(skip_checksums=True)
        make_extensions(block)
    eulas |= eulas_of(block)
    checksums = {source["name"]: source["checksum"] for source in block.src}
    patches = {p["name"]: (p["path"], p.get("checksum")) for p in block.patches}
    for extension in block.exts or ():
        if not isinstance(extension, dict):
            continue
        for name in extension.get("sources", ()):
            checksums[name] = block.get_checksum_for(extension.get("checksums") or [], filename=name, index=0)
        for number, patch in enumerate(extension.get("patches", ())):
            found = block.get_checksum_for(extension.get("checksums") or [], filename=patch["name"], index=number + 1)
            patches[patch["name"]] = (patch["path"], found)
    for name in asked.keys() & patches.keys():  # archives among the patches, as OpenBLAS has them, come as sources do
        _, checksums[name] = patches.pop(name)
    sources = [{**spec, "checksums": sha256_of(checksums.get(name), spec["name"])} for name, spec in asked.items()]
    files = [
        {
            "name": name,
            "path": path,
            "checksums": sha256_of(checksums.get(name), name),
            "can_have": name in checksums,  # a script for tests has no place among an easyconfig's checksums
        }
        for name, path in local.items()
        if name not in patches
    ]
    patches = [{"name": n, "path": str(p), "checksums": sha256_of(c, n)} for n, (p, c) in patches.items()]
    return sources, patches, files, sorted(eulas)


def make_extensions(block):
    """Make them to note what they ask for. Those of generic easyblocks ask for nothing, and there are thousands."""
    from easybuild.framework.easyconfig.easyconfig import get_easyblock_class

    lenient = {"error_on_failed_import": False, "error_on_missing_easyblock": False}
    for extension in block.exts or ():
        with suppress(Exception):  # nothing is installed here: what else they miss does not matter
            kind = get_easyblock_class(extension.get("easyblock"), name=extension["name"], **lenient)
            if kind is not None and not kind.__module__.startswith("easybuild.easyblocks.generic."):
                kind(block, extension)


@contextmanager
def noting():
    """Note what easyblocks ask EasyBuild for: files to get, files that lie among easyconfigs, EULAs."""
    from easybuild.framework.easyblock import EasyBlock
    from easybuild.framework.easyconfig.easyconfig import letter_dir_for

    asked, local, eulas = {}, {}, set()
    obtain_file, check_eula = EasyBlock.obtain_file, EasyBlock.check_accepted_eula

    def note_eula(self, name=None, **kwargs):
        eulas.add(name or self.name)
        return check_eula(self, name=name, **kwargs)

    def note(self, filename, urls=None, download_filename=None, git_config=None, alt_location=None, **kwargs):
        remote = bool(re.match(r"(https?|ftp)://", filename))
        if not remote:
            # A file that is not there is no error here: it may be one to download.
            look = {**kwargs, "no_download": True, "warning_only": True}
            found = obtain_file(self, filename, alt_location=alt_location, **look)
            if found and filename != "checksums.json":  # only EasyBuild reads it
                local[filename] = found
            if found or filename.endswith(".patch") or kwargs.get("no_download"):
                return found
        first = filename not in asked
        spec = asked.setdefault(filename, {"name": Path(filename).name, "urls": [], "git": bool(git_config)})
        location = alt_location or self.name
        spec["folder"] = f"{letter_dir_for(location)}/{location}"
        name = download_filename or filename
        places = [filename] if remote else [full_url(url, name) for url in [*(urls or ()), *self.cfg["source_urls"]]]
        spec["urls"] += [url for url in places if url not in spec["urls"]]
        if first and kwargs.get("warning_only"):
            return None  # not had under this name: its other name on PyPI is asked for next
        return f"/nowhere/{filename}"

    EasyBlock.obtain_file, EasyBlock.check_accepted_eula = note, note_eula
    try:
        yield asked, local, eulas
    finally:
        EasyBlock.obtain_file, EasyBlock.check_accepted_eula = obtain_file, check_eula


def eulas_of(block):
    """Return the software whose licence agreement the easyblock asks for in any step, or the easyconfig accepts.

    Some easyblocks ask in the fetch step, some in the install step. Nothing is installed here, so their code is read.
    """
    found = set()
    for part in (block, *(instance for _, instance in getattr(block, "comp_instances", ()))):
        found |= asked_by(part)
    if not found and block.cfg["accept_eula"]:
        found.add(block.name)
    return found


def asked_by(block):
    """Return the names in the easyblock's calls of EasyBuild's check."""
    kinds = (kind for kind in type(block).__mro__ if kind.__name__ != "EasyBlock")
    return {name or block.name for kind in kinds for name in checked_in(kind)}


@cache
def checked_in(kind):
    """Return the names in the calls of one class without its bases; an empty one stands for the software's own."""
    if not kind.__module__.startswith("easybuild.easyblocks"):
        return ()
    found = []
    with suppress(OSError, TypeError, SyntaxError):  # no source to read
        for node in ast.walk(ast.parse(textwrap.dedent(inspect.getsource(kind)))):
            if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "check_accepted_eula":
                named = [*node.args[:1], *(k.value for k in node.keywords if k.arg == "name")]
                found.append(named[0].value if named and isinstance(named[0], ast.Constant) else "")
    return tuple(found)


def full_url(url, name):
    """Return the URL of a file below a text or a pair: SourceForge wants a word after the file's name."""
    if isinstance(url, tuple):
        return f"{url[0]}/{name}/{url[1]}"
    return url + name if url.endswith(("/", "=")) else f"{url}/{name}"


def sha256_of(checksum, name):
    """Return the sha256 accepted for `name`. `checksum` is a text, a typed pair, alternatives, or a dict by name."""
    if isinstance(checksum, str):
        return [checksum.lower()] if len(checksum) == 64 else []
    if isinstance(checksum, dict):
        return sha256_of(checksum.get(name), name)
    if isinstance(checksum, (list, tuple)):
        if len(checksum) == 2 and checksum[0] in TYPES:
            return sha256_of(checksum[1], name) if checksum[0] == "sha256" else []
        return [digest for each in checksum for digest in sha256_of(each, name)]
    return []


if __name__ == "__main__":
    main()
