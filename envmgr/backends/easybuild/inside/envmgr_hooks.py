"""EasyBuild's hooks: one JSON line in `$ENVMGR_EASYBUILD_EVENTS` at the beginning of every step, and at a failure."""

import json
import os
import sys
import time
from pathlib import Path


def _tell(event, **fields):
    path = Path(os.environ["ENVMGR_EASYBUILD_EVENTS"])
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps({"event": event, "time": time.time(), **fields}) + "\n")


def _step(name):
    def hook(block, *_args, **_more):
        _tell("step", step=name, log=getattr(block, "logfile", None) or "")

    return hook


def start_hook(*_args, **_more):
    """Let nothing be downloaded, such as ConfigureMake's config.guess: every source is in the lock, and here."""
    # Easyblocks imported the function by name: it must be replaced in each of their modules.
    for name, module in list(sys.modules.items()):
        if name.startswith("easybuild.") and hasattr(module, "download_file"):
            module.download_file = _download_nothing


def _download_nothing(*_args, **_more):
    return None


pre_fetch_hook = _step("fetch")
pre_extract_hook = _step("unpack")
pre_patch_hook = _step("patch")
pre_prepare_hook = _step("prepare")
pre_configure_hook = _step("configure")
pre_build_hook = _step("build")
pre_test_hook = _step("test")
pre_install_hook = _step("install")
pre_extensions_hook = _step("extensions")
pre_postproc_hook = _step("finish")
pre_sanitycheck_hook = _step("sanity")
pre_cleanup_hook = _step("cleanup")
pre_module_hook = _step("module")


def pre_single_extension_hook(extension, *_args, **_more):
    _tell("extension", name=f"{extension.name} {extension.version or ''}".strip())


def fail_hook(error, *_args, **_more):
    _tell("failed", message=str(getattr(error, "msg", error)))
