"""Starts a program of EasyBuild, or one of this folder, that can import EasyBuild and the standard library, and nothing else.

    python -S -s -P start.py PACKAGES PROGRAM ARGUMENT…

envmgr's own environment has other packages: EasyBuild would use those that it knows (rich, archspec, GitPython), and behave as in no
other environment. What runs is what was summed. PROGRAM is a module's name, or the path of a file.
"""

import runpy
import sys

OWN = ("easybuild", "__main__")


class OnlyEasyBuild:
    """The first that Python asks where a module is."""

    @staticmethod
    def find_spec(name, _path=None, _target=None):
        top = name.partition(".")[0]
        if top in OWN or top in sys.stdlib_module_names:
            return  # the next one finds it
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def main():
    packages, program = sys.argv[1:3]
    sys.argv[:3] = [program]
    sys.path.append(packages)
    sys.meta_path.insert(0, OnlyEasyBuild)
    if program.endswith(".py"):
        runpy.run_path(program, run_name="__main__")
    else:
        runpy.run_module(program, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
