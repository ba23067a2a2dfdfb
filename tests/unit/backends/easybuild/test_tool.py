"""EasyBuild's private environment: whole, or made anew."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from envmgr.backends.easybuild.tool import ensure_easybuild, find_easybuild, own_home
from envmgr.catalog.site import load_site
from envmgr.report import SilentReporter
from envmgr.system.run import Runner

# Makes the environment that it is asked for, without a network, and writes down that it was asked.
UV = """\
#!/bin/sh
echo "$1" >>{told}
[ "$1" = venv ] || exit 0
for home; do :; done
mkdir -p "$home/bin"
ln -s {python} "$home/bin/python"
"""


@pytest.mark.parametrize("fault", ["gone", "not executable"])
def test_environment_whose_python_an_upgrade_took_away_is_made_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    told, uv, base = tmp_path / "told", tmp_path / "uv", tmp_path / "python3.11"
    uv.write_text(UV.format(told=told, python=sys.executable))
    uv.chmod(0o755)
    monkeypatch.setattr("uv.find_uv_bin", lambda: str(uv))
    environ = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache"), "HOME": str(tmp_path)}
    home = own_home("5.4.1", environ)
    (home / "bin").mkdir(parents=True)
    (home / "bin/python").symlink_to(base)
    (home / "envmgr.json").write_text("{}")
    (home / "stale").touch()
    base.symlink_to(sys.executable)
    site, runner = load_site(None, environ), Runner()

    found = ensure_easybuild("5.4.1", home, site, environ, runner, SilentReporter())
    assert find_easybuild("5.4.1", site, environ, runner) == found
    assert not told.exists()

    base.unlink()
    if fault == "not executable":
        base.touch()
    assert find_easybuild("5.4.1", site, environ, runner) is None
    assert ensure_easybuild("5.4.1", home, site, environ, runner, SilentReporter()) == found
    assert told.read_text().split() == ["venv", "pip"]
    assert os.access(found.python, os.X_OK)
    assert not (home / "stale").exists()
    assert find_easybuild("5.4.1", site, environ, runner) == found
