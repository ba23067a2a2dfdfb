"""Packages of the operating system: what dpkg and rpm know, what is provided by another name, what is a program."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from envmgr.backends.easybuild.failures import missing_packages
from envmgr.backends.easybuild.sources import installed_packages
from envmgr.system.run import Completed, Runner, clean_env

# rpm as it answers on Rocky 9: a name that is asked for as a package, and one that another package provides.
RPM = """\
#!/bin/sh
case "$*" in
*--whatprovides*libz-devel) echo zlib-devel-1.2.11-40.el9.x86_64;;
*--whatprovides*) for last; do :; done; echo "no package provides $last"; exit 1;;
*) shift 3; status=0
   for name; do
     case $name in zlib-devel) echo "$name installed";; *) echo "package $name is not installed"; status=1;; esac
   done; exit $status;;
esac
"""


class Here(Runner):
    """Looks for programs where this test's PATH says, first of all."""

    def run(self, argv, **more) -> Completed:  # type: ignore[no-untyped-def, override]
        return super().run([shutil.which(argv[0]) or argv[0], *argv[1:]], env=clean_env(), **more)


@pytest.mark.skipif(shutil.which("dpkg-query") is None, reason="not a Debian")
def test_dpkg_tells_installed_packages_from_others() -> None:
    assert installed_packages({"coreutils", "libc6", "no-such-package", "sh"}, Runner()) == {"coreutils", "libc6", "sh"}


def test_rpm_tells_packages_and_what_they_provide(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "rpm").write_text(RPM)
    (tmp_path / "rpm").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    asked = {"zlib-devel", "libz-devel", "no-such-package"}
    assert installed_packages(asked, Here()) == {"zlib-devel", "libz-devel"}


def test_package_names_are_those_of_each_family() -> None:
    error = missing_packages(
        ["Python"], [("openssl-devel", "libssl-dev", "libopenssl-devel"), ("zlib-devel", "zlib1g-dev"), ("bc",)]
    )
    assert error.hint.startswith(
        "dnf install bc openssl-devel zlib-devel (Rocky, Alma, RHEL) or apt-get install bc libssl-dev zlib1g-dev (Debian, Ubuntu); "
    )
