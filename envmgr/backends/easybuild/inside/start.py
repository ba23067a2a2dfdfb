"""Start a program of EasyBuild, or one of this folder, which can import only EasyBuild and the standard library.

    python -S -s -P start.py PACKAGES PROGRAM [ARGUMENT ...]

envmgr's own environment has other packages. EasyBuild would use those that it knows (rich, archspec, GitPython), and
behave as in no other environment. The code that runs is the code whose sha256 was taken. PROGRAM is a module's name, or
the path of a file.
"""

import runpy
import sys
from importlib.machinery import PathFinder


def alone_in(packages):
    """Return a finder of modules on Python's path that finds, in the folder `packages`, only the package easybuild."""

    class Finder(PathFinder):
        @classmethod
        def find_spec(cls, name, path=None, target=None):
            if path is None and name != "easybuild":
                path = [folder for folder in sys.path if folder != packages]
            return super().find_spec(name, path, target)

    return Finder


def main():
    packages, program = sys.argv[1:3]
    sys.argv[:3] = [program]
    sys.path.append(packages)  # where EasyBuild looks for its own parts
    sys.meta_path[sys.meta_path.index(PathFinder)] = alone_in(packages)
    if program.endswith(".py"):
        runpy.run_path(program, run_name="__main__")
    else:
        runpy.run_module(program, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
