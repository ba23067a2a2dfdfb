"""Notes the extension modules that a build declares to setuptools; part of no envmgr process.

build_child.py writes this text into the Python of a build, below a line `NOTES = "PATH"`, and a `.pth` file there imports
it. It changes nothing that the build sees, and no fault of it ends a build. NOTES gets a line of JSON for each extension
module, and an empty list where the build declares none.
"""

import json
import sys


class Watch:
    """Finds one module as the others on sys.meta_path would, and adds to what it does when it is loaded."""

    def find_spec(self, name, path=None, target=None):  # noqa: ARG002
        if name != "setuptools.dist":
            return None
        try:
            sys.meta_path.remove(self)
            from importlib.util import find_spec

            spec = find_spec(name)
            load = spec.loader.exec_module

            def load_and_wrap(module):
                load(module)
                wrap(module.Distribution)

            spec.loader.exec_module = load_and_wrap
        except Exception:  # noqa: BLE001 - the build goes on, and finds the module without us
            return None
        return spec


def wrap(distribution):
    """Let `setup()` note what it was given, and after its commands, which may add to that or take away."""
    run_commands = distribution.run_commands

    def run_and_note(self):
        note(self)
        run_commands(self)
        note(self)

    distribution.run_commands = run_and_note


def note(distribution):
    """Append what it declares now: `setuptools.Extension`, and `RustExtension` of setuptools-rust."""
    try:
        above = f"{distribution.ext_package}." if distribution.ext_package else ""
        found = [(above + each.name, bool(each.sources)) for each in distribution.ext_modules or ()]
        for each in getattr(distribution, "rust_extensions", None) or ():
            if not str(getattr(each, "binding", "")).endswith("Exec"):  # a program
                found += [(name, True) for name in each.target.values()]
        with open(NOTES, "a", encoding="utf-8") as file:  # noqa: F821, PTH123 - in the line above this text
            file.write(json.dumps(found) + "\n")
    except Exception:  # noqa: BLE001 - what a package makes of its own classes
        return


if "NOTES" in globals():
    sys.meta_path.insert(0, Watch())
