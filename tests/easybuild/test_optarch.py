"""`--optarch` of a CPU level, asked of EasyBuild itself: what each of its compilers makes of it, and that none is left out."""

from __future__ import annotations

import json
import re
import subprocess

import pytest

from envmgr.backends.easybuild.settings import optarch
from envmgr.catalog.site_file import CpuLevel
from tests.helpers.easybuild.workshop import easybuild_home

# What becomes of `--optarch` for every compiler, on a host with an Intel CPU and on one with an AMD CPU.
ASK = """
import json, logging, os, sys
os.environ["EBVERSIONGO"] = "1.23.0"
from easybuild.tools.options import set_up_configuration
set_up_configuration(["--allow-use-as-root-and-accept-consequences", "--optarch=" + sys.argv[1]], silent=True)
from easybuild.base import fancylogger
from easybuild.easyblocks.generic.cargo import Cargo
from easybuild.easyblocks.generic.gopackage import GoPackage
from easybuild.toolchains.compiler.craype import CrayPECompiler
from easybuild.tools.systemtools import AMD, INTEL, X86_64
from easybuild.tools.toolchain.compiler import Compiler
from easybuild.tools.toolchain.utilities import search_toolchain

class Options(dict):
    options_map = {}

def below(kind):
    return {kind}.union(*map(below, kind.__subclasses__()))

search_toolchain("")
found = {}
log = fancylogger.getLogger("ask")
for kind in below(Compiler) - below(CrayPECompiler):
    family = kind.COMPILER_FAMILY
    if not family:
        continue
    for vendor in (AMD, INTEL):
        it = kind.__new__(kind)
        it.log, it.arch, it.cpu_family, it.options = log, X86_64, vendor, Options(optarch=True)
        it.options.options_map = {"optarch": (kind.COMPILER_UNIQUE_OPTION_MAP or {}).get("optarch", "")}
        it.COMPILER_MODULE_NAME = kind.COMPILER_MODULE_NAME or []
        it._set_optimal_architecture()
        found.setdefault(family, set()).add(it.options.options_map["optarch"])
rust = Cargo.__new__(Cargo)
rust.log = log
found["rustc"] = {rust.rustc_optarch()}
for family in ("GCC", "SYSTEM"):
    go = GoPackage.__new__(GoPackage)
    go.log, go.cfg = log, type("Parameters", (dict,), {})(name="ask")
    go.cfg.toolchain = type("Toolchain", (), {"comp_family": lambda self: family})()
    found["Go with " + family] = {"=".join(go.go_microarch_opt() or ("its own",))}
print(json.dumps({family: sorted(flags) for family, flags in found.items()}))
"""


def ask(level: CpuLevel) -> dict[str, list[str]]:
    done = subprocess.run(
        [easybuild_home() / "bin/python", "-c", ASK, optarch(level)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, list[str]] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.mark.parametrize(
    ("level", "intel", "nvhpc"),
    [
        ("x86-64", "-xSSE2", "-tp=px"),
        ("x86-64-v2", "-march=corei7", "-tp=px"),
        ("x86-64-v3", "-march=core-avx2", "-tp=haswell"),
        ("x86-64-v4", "-march=skylake-avx512", "-tp=haswell"),
    ],
)
def test_every_compiler_of_easybuild_builds_for_the_level_and_not_for_the_host(
    level: CpuLevel, intel: str, nvhpc: str
) -> None:
    gcc = {"x86-64": "-march=x86-64 -mtune=generic"}.get(level, f"-mtune=generic -march={level}")
    go = f"GOAMD64={level[7:] or 'v1'}"
    # For ARM and POWER alone: EasyBuild leaves its default as it is.
    elsewhere = {"Fujitsu": [""], "IBMXL": ["qtune=auto"], "xlcxlf": ["qtune=auto"]}
    assert ask(level) == {
        "Clang": [gcc],
        "ClangGCC": [gcc],
        "GCC": [gcc],
        "LLVM": [gcc],
        "ROCm": [gcc],
        "SYSTEM": ["" if level == "x86-64" else gcc],
        "Intel": [intel],
        "NVHPC": [nvhpc],
        "PGI": ["-tp=x64"],
        **elsewhere,
        "rustc": [f"-C target-cpu={level}"],
        "Go with GCC": [go],
        "Go with SYSTEM": [go],
    }


@pytest.mark.parametrize("level", ["x86-64-v2", "x86-64-v3", "x86-64-v4"])
def test_every_family_that_easybuild_knows_is_named(level: CpuLevel) -> None:
    """Also Cray's, whose wrappers refuse the whole text. Without its name a compiler gets the build host's CPU."""
    packages = next(easybuild_home().glob("lib/python3*/site-packages/easybuild"))
    source = "\n".join(path.read_text() for path in sorted((packages / "toolchains").rglob("*.py")))
    words = dict(re.findall(r"^(TC_CONSTANT_\w+) = ['\"](\w+)['\"]", source, re.MULTILINE))
    names = set(re.findall(r"^ +COMPILER_FAMILY = (?!None)(.+)$", source, re.MULTILINE))
    parts = [part.split(":") for part in optarch(level).split(";")]
    assert len(names) > 10
    assert {name for name, _ in parts} == {words[name] for name in names} | {"rustc"}
