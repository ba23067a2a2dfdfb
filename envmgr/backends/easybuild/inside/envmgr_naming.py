"""The module naming scheme: every easyconfig is one item of the store, `<name>/<version>-<digest8>`, as the plan says.

`$ENVMGR_EASYBUILD_ITEMS` is a JSON file, `{"<name>/<full version>": "<name>/<full version>-<digest8>"}`: what is built,
and all that it stands on. EasyBuild finds schemes by their class, which lies in a file of its own.
"""

import json
import os
from pathlib import Path

from easybuild.tools.build_log import EasyBuildError
from easybuild.tools.module_naming_scheme.mns import ModuleNamingScheme
from easybuild.tools.module_naming_scheme.utilities import det_full_ec_version


class EnvmgrModuleNamingScheme(ModuleNamingScheme):
    """Install folder and module have the same name; no symlinks by class, no development modules."""

    REQUIRED_KEYS = ("name", "version", "versionsuffix", "toolchain")

    def det_full_module_name(self, ec):
        wanted = f"{ec['name']}/{det_full_ec_version(ec)}"
        items = json.loads(Path(os.environ["ENVMGR_EASYBUILD_ITEMS"]).read_text(encoding="utf-8"))
        if wanted not in items:
            raise EasyBuildError("%s is not in the lock", wanted)
        return items[wanted]

    def det_module_symlink_paths(self, ec):  # noqa: ARG002 - EasyBuild's signature
        return []

    def is_short_modname_for(self, short_modname, name):
        return short_modname.startswith(f"{name}/")

    def det_make_devel_module(self):
        return False
