"""A kernel for Jupyter: a Python, with what a module sets. Nothing is sourced, and no module is loaded.

Jupyter replaces `${NAME}` in a value by its own variable, leaves it as it is where it has none, and reads `$$` as a
dollar. So only PATH, which each process has, ends with Jupyter's own value: other lists have only what modules add.
Source: jupyter-client, "Making kernels for Jupyter", "Kernel specs"; its code, which replaces `${NAME}` since 6.0.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from envmgr.modules.spec import ModuleSpec
from envmgr.modules.statements import AtLoad, ModulePolicies, Statement, operations
from envmgr.system.files import sha256_bytes

KERNELS = "kernels"
"""A folder of a generation. JUPYTER_PATH names the generation: Jupyter looks for a folder of this name there."""


def kernel_name(entry: str) -> str:
    """Return the name that notebooks keep: `pytorch-2.1-cuda11.8`, the same in every generation.

    An entry that this does not say exactly (`C++/1.0`, `a/b-1`) has eight digits of its sha256 behind it.
    """
    plain = re.sub("[^a-z0-9._-]", "-", entry.lower())  # what Jupyter takes
    read_back = re.sub("-(?=[0-9])", "/", plain, count=1)
    return plain if read_back == entry else f"{plain}-{sha256_bytes(entry.encode())[:8]}"


def kernel_spec(python: str, display_name: str, env: dict[str, str], about: dict[str, Any]) -> dict[str, Any]:
    """Return the content of kernel.json; `about` is for people and envmgr."""
    return {
        "argv": [python, "-m", "ipykernel_launcher", "-f", "{connection_file}"],
        "display_name": display_name,
        "language": "python",
        "env": env,
        "metadata": {"envmgr": about},
    }


def kernel_env(specs: Iterable[ModuleSpec], policies: ModulePolicies, generation: int) -> dict[str, str]:
    """Return what loading these modules sets, in this order, as values of a kernel.json.

    It cannot say that a variable is unset. A default of a module counts more than Jupyter's own value.
    """
    env = {"PATH": "${PATH}"}
    for statement in (each for spec in specs for each in operations(spec, policies)):
        _apply(statement, env, generation)
    return env


def _apply(statement: Statement, env: dict[str, str], generation: int) -> None:
    match statement.kind, statement.name, statement.arguments:
        case "call", "pushenv", (str(name), False):
            env.pop(name, None)
        case "call", "pushenv", (str(name), value):
            env[name] = _text(value)
        case "generation", "pushenv", (str(name),):
            env[name] = str(generation)
        case "call" | "in-generation", "prepend_path", (str(name), *pieces):
            value = f"{generation:04d}".join(map(_text, pieces))
            env[name] = f"{value}:{env[name]}" if name in env else value
        case "call", "append_path", (str(name), value):
            env[name] = f"{env[name]}:{_text(value)}" if name in env else _text(value)
        case "set-default", name, (value, *_):
            env.setdefault(name, _text(value))
        case "wrap", name, (alone, before, after):
            env[name] = f"{_text(before)}{env[name]}{_text(after)}" if env.get(name) else _text(alone)
        case "keep-system", name, _:
            env.setdefault(name, "")
        case _:
            pass


def _text(value: str | bool | AtLoad) -> str:
    pieces = value if isinstance(value, tuple) else ((str(value), False),)
    return "".join(f"${{{text}}}" if is_variable else text.replace("$", "$$") for text, is_variable in pieces)
