"""`make demo`: one node, nothing configured: lock, build, load, change a recipe under an open shell, roll back.

Everything lies in a throw-away folder, which goes at the end (KEEP=1 keeps it). What is shown is also checked; exit 1 when
an expectation does not hold.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from demo.session import DemoError, LoginShell, Session, paths
from envmgr.system.files import remove_tree
from tests.helpers.standin.wheels import PYTHON, pins

ROOT = Path(__file__).resolve().parent.parent
ENTRY = "pydata/1.0"
OTHERS = ("pyyaml", "tabulate")
# The question, whose answer does not depend on numpy's version.
SOLVE = "python -c 'import numpy; print(numpy.__version__, numpy.linalg.solve([[2, 1], [1, 3]], [3, 5]))'"
ANSWER = "[0.8 1.4]"
BASE, WHEELS = f"python/{PYTHON}", "pywheels/1.0"

SOFTWARE = """\
description: numpy, and what people use with it
homepage: https://numpy.org
licence: BSD-3-Clause
category: python
"""

RECIPE = """\
schema: 1
backend: conda
input:
  channels: [standin]
  specs: [python {python}.*, numpy {numpy}.*, pyyaml, tabulate]
tests:
  - name: solve a linear system
    run: python -c 'import numpy; assert numpy.allclose(numpy.linalg.solve([[2, 1], [1, 3]], [3, 5]), [0.8, 1.4])'
"""

BASE_RECIPE = """\
schema: 1
backend: conda
input:
  channels: [standin]
  specs: [python {python}.*]
"""

WHEELS_RECIPE = """\
schema: 1
backend: wheels
input:
  python: {base}
  requirements: [numpy=={numpy}]
tests:
  - name: solve a linear system
    run: python -c 'import numpy; assert numpy.allclose(numpy.linalg.solve([[2, 1], [1, 3]], [3, 5]), [0.8, 1.4])'
"""

CHANNEL = """\
  conda:
    channels:
      standin:
        url: https://channel.invalid/standin
        mirrors: [{folder}]
"""

INDEX = """\
  wheels:
    indexes:
      pypi: {{url: "{url}"}}
"""


def main() -> int:
    start = time.monotonic()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # clean up then, too
    work = Path(tempfile.mkdtemp(prefix="envmgr-demo-"))
    session = Session(work)
    try:
        answer = play(session)
    except (DemoError, OSError, subprocess.SubprocessError) as error:
        sys.stdout.flush()
        print(f"\ndemo failed: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    finally:
        session.close()
        if os.environ.get("KEEP"):
            print(f"kept {work}", file=sys.stderr)
        else:
            remove_tree(work)
    print(f"\n{ENTRY} answered: {answer}")
    print(f"demo: all {session.checks} expectations held, {time.monotonic() - start:.0f} s")
    return 0


def play(session: Session) -> str:
    """The whole session; returns what numpy said in the last shell."""
    old, new = (pin.version for pin in pins() if pin.name == "numpy")
    recipe = make_site(session, old)
    first_build(session)
    shell = open_shell(session, "user", old)
    rebuild(session, recipe, old, new)
    pinned(session, shell, old, new)
    wheels(session, new)
    answer = back(session, old)
    where(session)
    return answer


def make_site(session: Session, numpy: str) -> Path:
    """A site on the stand-in channel, and a recipe; returns the recipe's path."""
    session.title("A channel, a site, a recipe")
    session.note("a small conda channel: this machine's python, and real wheels from PyPI")
    packages = [word for name in ("python", "numpy", *OTHERS) for word in ("--package", name)]
    wheels = ROOT / "tests" / ".cache" / "wheels"
    command = [
        sys.executable,
        "-m",
        "tests.helpers.standin",
        str(session.work / "channel"),
        "--wheels",
        str(wheels),
        *packages,
    ]
    session.type(command, shown="python -m tests.helpers.standin channel", cwd=ROOT, env=dict(os.environ))
    session.envmgr("init", "site", "--prefix", str(session.work / "prefix"), "--name", "demo")
    session.write("site/site.yaml", CHANNEL.format(folder="../channel"), append=True)
    session.write("site/recipes/pydata/software.yaml", SOFTWARE)
    path = session.write(f"site/recipes/{ENTRY}/recipe.yaml", RECIPE.format(python=PYTHON, numpy=minor(numpy)))
    said = session.envmgr("check")
    session.expect(": 0 errors" in said, "the site and its recipes have no fault")
    return path


def first_build(session: Session) -> None:
    session.title("Lock, build, publish")
    said = session.envmgr("lock", ENTRY)
    session.expect("written" in said, "the lock lies beside the recipe, with a sha256 for every package")
    session.envmgr("build", ENTRY, "--dry-run")
    said = session.envmgr("build", ENTRY)
    session.expect("generation 1 is current" in said, "generation 1 is published, after its smoke test")
    said = session.envmgr("list")
    session.expect("published" in said, "the list says so")


def open_shell(session: Session, name: str, version: str) -> LoginShell:
    """A fresh login shell with the entry loaded, and numpy's answer checked."""
    session.title("A user logs in")
    session.note("~/.bash_profile holds the one line that `envmgr shell-init` is for")
    shell = session.login(name)
    shell.type("module -t avail")
    load_and_solve(session, shell, version)
    return shell


def rebuild(session: Session, recipe: Path, old: str, new: str) -> None:
    session.title("The recipe changes while that shell stays open")
    text = recipe.read_text(encoding="utf-8").replace(f"numpy {minor(old)}.*", f"numpy {minor(new)}.*")
    recipe.write_text(text, encoding="utf-8")
    session.note(f"numpy {minor(old)}.* became numpy {minor(new)}.* in recipe.yaml")
    said = session.envmgr("build", ENTRY, status=3)
    session.expect("error[lock-stale]" in said, "a lock that does not answer its recipe is not built")
    said = session.envmgr("lock", ENTRY)
    session.expect(f"~ numpy {old}" in said and f"-> {new}" in said, "the lock changed in numpy")
    said = session.envmgr("build", ENTRY)
    session.expect("generation 2 is current (was 1)" in said, "generation 2 is published; 1 is still there")
    said = session.envmgr("diff")
    session.expect(f"~ numpy {old}" in said, "the difference of 1 and 2 is numpy")


def pinned(session: Session, shell: LoginShell, old: str, new: str) -> None:
    session.title("Open shells keep what they have, new shells get the new one")
    said = shell.type(SOLVE)
    session.expect(said == f"{old} {ANSWER}", f"the open shell still has numpy {old}")
    shell.type("module unload pydata")
    left = shell.type('echo "$PATH"; echo "${PYDATA_ROOT-no PYDATA_ROOT}"')
    clean = str(session.work / "prefix") not in left and left.endswith("no PYDATA_ROOT")
    session.expect(clean, "unloading leaves nothing behind, though a newer generation is current")
    shell.type("module load pydata")
    said = shell.type(SOLVE)
    session.expect(said == f"{old} {ANSWER}", f"loading again in that shell gives numpy {old} again")
    load_and_solve(session, session.login("user2"), new)


def wheels(session: Session, numpy: str) -> None:
    """An entry of wheels from the index that pip asks here, on the channel's Python."""
    session.title("The same from a Python package index")
    for entry, text in (
        (BASE, BASE_RECIPE.format(python=PYTHON)),
        (WHEELS, WHEELS_RECIPE.format(base=BASE, numpy=numpy)),
    ):
        session.write(f"site/recipes/{Path(entry).parent}/software.yaml", SOFTWARE)
        session.write(f"site/recipes/{entry}/recipe.yaml", text)
    if place := pip_index():
        session.write("site/site.yaml", INDEX.format(url=place), append=True)
    session.envmgr("lock", BASE, WHEELS)
    session.type(["cat", f"site/recipes/{WHEELS}/wheels.lock"])
    said = session.envmgr("build", WHEELS)
    session.expect(
        "generation 3 is current" in said, "one wheel a package, by sha256, is installed, tested and published"
    )
    shell = session.login("user-of-wheels")
    shell.type(f"module load {WHEELS}")
    said = shell.type(SOLVE)
    session.expect(said == f"{numpy} {ANSWER}", "a user loads it as every other module")
    shell.type("python -m venv --system-site-packages --without-pip mine")
    said = shell.type("mine/bin/python -c 'import numpy; print(numpy.__version__)'")
    session.expect(said == numpy, "and an environment of the user's own stands on it")


def pip_index() -> str:
    """The index that pip is told to ask on this machine; empty where that is the public one."""
    command = [sys.executable, "-m", "pip", "config", "get", "global.index-url"]
    said = subprocess.run(command, capture_output=True, text=True, check=False)
    return os.environ.get("PIP_INDEX_URL") or said.stdout.strip()


def back(session: Session, old: str) -> str:
    session.title("Roll back")
    session.envmgr("rollback", "1")
    answer = load_and_solve(session, session.login("user3"), old)
    said = session.envmgr("history")
    session.expect("rolled back 3 -> 1" in said, "the history says so")
    return answer


def where(session: Session) -> None:
    session.title("What a module says, and where things lie")
    session.type(["cat", f"prefix/current/modules/{ENTRY}.lua"])
    said = session.envmgr("verify")
    session.expect("1 install verified, 0 differ" in said, "the install is byte for byte what its manifest says")
    for line in paths(session.work / "prefix"):
        print(f"  {line}")


def load_and_solve(session: Session, shell: LoginShell, version: str) -> str:
    shell.type(f"module load {ENTRY}")
    said = shell.type(SOLVE)
    session.expect(said == f"{version} {ANSWER}", f"numpy {version} of the entry works in the new login shell")
    place = shell.type('python -c "import sys; print(sys.prefix)"')
    store = str(session.work / "prefix" / "store" / "pydata")
    session.expect(place.startswith(store), "and it is the one of the store")
    return said


def minor(version: str) -> str:
    return version.rpartition(".")[0]


if __name__ == "__main__":
    sys.exit(main())
