"""What a shell brings along, by the shell text that looks at it."""

from __future__ import annotations

import subprocess

import pytest

from envmgr.audit.checks import all_checks, ambient
from envmgr.audit.model import ReadsInstalls
from envmgr.system.shelltext import assign, script_text

TEXT = assign(ambient_names="pip python", ambient_without="/etc/envmgr/bin") + script_text(
    ambient.__file__ or "", "context.sh"
)


def told(shell: str, before: str, **env: str) -> list[str]:
    script = f'put() {{ printf \'%s=%s\\n\' "$1" "$2"; }}\n{before}\n{TEXT}'
    given = {"PATH": "/usr/bin:/bin", "HOME": "/", **env}
    done = subprocess.run([shell, "-c", script], capture_output=True, text=True, check=True, env=given)
    return [line for line in done.stdout.splitlines() if not line.startswith(("ambient.loaded=", "ambient.tmp="))]


@pytest.mark.parametrize("shell", ["dash", "bash"])
def test_clean_shell_has_its_path_alone(shell: str) -> None:
    assert told(shell, "") == ["ambient.PATH=/usr/bin:/bin"]
    assert told(shell, "", PATH="/usr/bin:/etc/envmgr/bin:/bin") == ["ambient.PATH=/usr/bin:/bin"]
    assert told(shell, "", PATH="/usr/bin:/bin:/etc/envmgr/bin") == ["ambient.PATH=/usr/bin:/bin"]


@pytest.mark.parametrize("shell", ["dash", "bash"])
def test_alias_is_told_by_its_name_and_not_by_what_it_runs(shell: str) -> None:
    assert told(shell, "alias ll='exec python -s' x=' pip '") == ["ambient.PATH=/usr/bin:/bin"]
    assert told(shell, "alias python='python3 -s'")[1:] == ["ambient.alias.python=python='python3 -s'"]
    assert told(shell, "", ENVMGR_ALIASES="ll python cp")[1:] == ["ambient.alias.python=python"]
    assert told(shell, "", ENVMGR_ALIASES="mypython python3")[1:] == []


def test_function_and_variables_are_told() -> None:
    assert told("bash", "python() { :; }", PYTHONPATH="/opt x", LD_PRELOAD="")[0] == "ambient.PYTHONPATH=/opt x"
    assert "ambient.function.python=" in "\n".join(told("bash", "python() { :; }"))
    assert "ambient.function.python=" in told("dash", "python() { :; }")


def test_manifests_are_read_for_checks_that_need_them_alone() -> None:
    assert {name for name, check in all_checks().items() if isinstance(check, ReadsInstalls)} == {"ambient", "software"}
