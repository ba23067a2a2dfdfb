"""What loading an entry changes in an environment: the same shell text on nodes and, for what is expected, here."""

from __future__ import annotations

import shlex
import time
from collections.abc import Sequence
from pathlib import Path

from envmgr.system.detached import run_detached
from envmgr.system.run import Runner

_SECONDS = 20.0  # for one entry; the prefix may begin to hang

# effect LMOD MODULEPATH LMOD_RC ENTRY: the environment after `module load`, a line a variable, without what Lmod keeps
# for itself and what differs between accounts. Status 1, and Lmod's words on stderr, where it cannot be loaded.
EFFECT = r"""
effect() {
  env -i HOME=/nonexistent USER=nobody PATH=/usr/local/bin:/usr/bin:/bin LANG=C.UTF-8 \
    MODULEPATH="$2" LMOD_RC="$3" LMOD_CACHED_LOADS=yes /bin/sh -c '
      cd / && text=$("$1" sh load "$2") && eval "$text" && env -0' sh "$1" "$4" >"$scratch" || return 1
  LC_ALL=C sort -z "$scratch" | tr '\n\000' '\037\n' | grep -v -E \
    '^(MODULEPATH|LMOD_[A-Z0-9_]*|_ModuleTable[A-Za-z0-9_]*|__LMOD_[^=]*|LOADEDMODULES|_LMFILES_|HOME|USER|PWD|OLDPWD|SHLVL|_)='
}
"""


def expected_effects(
    lmod: Path, modules: Path, lmodrc: Path, entries: Sequence[str], runner: Runner, seconds: float
) -> dict[str, str]:
    """entry -> what loading it here gives, within `seconds` for all; an entry that cannot be loaded here is left out."""
    found = {}
    end = time.monotonic() + seconds
    for entry in entries:
        words = " ".join(shlex.quote(str(word)) for word in (lmod, modules, lmodrc, entry))
        script = f"{EFFECT}\nscratch=$(mktemp) && trap 'rm -f \"$scratch\"' EXIT && effect {words}"
        left = min(_SECONDS, end - time.monotonic())
        done = run_detached(["/bin/sh", "-c", script], seconds=left, check=runner.raise_if_cancelled)
        if done.returncode == 0:
            found[entry] = done.output
    return found
