"""A user's environment on a Python that EasyBuild built becomes an entry of wheels on that Python."""

from __future__ import annotations

from pathlib import Path

from envmgr.system.yamlfile import parse_yaml
from tests.helpers.easybuild.workshop import Workshop
from tests.helpers.standin.interpreter import DEBIAN_SITE
from tests.helpers.wheelhouse import Wheelhouse

SYSTEM = Path("/usr/bin/python3").resolve()
MINOR = SYSTEM.name.removeprefix("python")
# The operating system's Python, at a place of its own: it finds its library by where it lies.
INSTALL = f"""\
all:
install:
\tmkdir -p $(PREFIX)/bin $(PREFIX)/lib
\tcp {SYSTEM} $(PREFIX)/bin/{SYSTEM.name}
\tln -s {SYSTEM.name} $(PREFIX)/bin/python3
\tcp -r /usr/lib/{SYSTEM.name} $(PREFIX)/lib/
\trm -rf $(PREFIX)/lib/{SYSTEM.name}/config-* $(PREFIX)/lib/{SYSTEM.name}/EXTERNALLY-MANAGED
\trm -f $(PREFIX)/lib/{SYSTEM.name}/sitecustomize.py
\tcp sitecustomize.py $(PREFIX)/lib/{SYSTEM.name}/
"""


def test_packages_on_a_python_of_easybuild_are_an_entry_on_it(workshop: Workshop) -> None:
    box = workshop
    house = Wheelhouse(box.root / "house")
    house.wheel("einops", "0.7")
    house.wheel("on-einops", requires=["einops"])
    box.settings["backends"] = {"wheels": {"indexes": {"pypi": {"url": house.simple.as_uri()}}}}
    box.write_site()
    version = f"{MINOR}.2"
    program = f"bin/{SYSTEM.name}"
    box.toy(
        "Python",
        version,
        files={"Makefile": INSTALL, "sitecustomize.py": DEBIAN_SITE.decode()},
        sanity_check_paths={"files": [program], "dirs": ["lib"]},
    )
    box.locked("python/x", f"Python-{version}.eb")
    box.ok("build", "python/x")
    home = str(box.root / "home")
    Path(home).mkdir()
    box.ok("user", "create", "mine", "--on", "python/x", "on-einops", HOME=home)
    box.ok("user", "export", "mine", "--output", "mine.toml", HOME=home)
    box.ok("import", "mine.toml", "--as", "python-mine/x", "--python", "python/x")
    recipe = parse_yaml((box.root / "recipes/python-mine/x/recipe.yaml").read_text(), "recipe")
    assert recipe["backend"] == "wheels"
    assert recipe["input"]["python"] == "python/x"
    assert recipe["input"]["requirements"] == ["einops==0.7", "on-einops==1.0"]
    box.ok("lock", "--check", "python-mine/x")
