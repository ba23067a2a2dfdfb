"""`python -m tools.check_templates`: templates under StrictUndefined, and all modules made of them through Lmod's Lua."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

from envmgr.errors import EnvmgrError
from envmgr.modules.lmod import find_lmod
from envmgr.modules.render import TEMPLATE_FILES, USER_NOTE
from envmgr.system.files import shipped
from tests.helpers.golden_cases import GOLDEN, cases, render_case


def main() -> int:
    """0, or 1 with each fault on stderr."""
    try:
        templates, modules = check()
    except EnvmgrError as error:
        sys.stderr.write(f"{error.render()}\n")
        return 1
    sys.stdout.write(f"{templates} templates and {modules} modules are fine\n")
    return 0


def check() -> tuple[int, int]:
    """Render every golden case and parse the result, the expected files and the Lua files; counts of both."""
    lmod = find_lmod(None, os.environ)
    folder = shipped("modulefiles")
    templates = {path.name for path in folder.iterdir() if path.is_file()}
    if unused := templates - {*TEMPLATE_FILES, USER_NOTE}:  # tests/sandbox/people loads that one
        raise EnvmgrError("template-unused", f"no golden case renders {', '.join(sorted(unused))}", context=str(folder))
    rendered = {case: render_case(case) for case in cases()}
    names = {Path(path).name for tree in rendered.values() for path in tree}
    if ".modulerc.lua" not in names or len(names) < 2:
        raise EnvmgrError("template-unused", "the golden cases do not render every template", context=str(GOLDEN))
    with tempfile.TemporaryDirectory(prefix="envmgr-check-") as scratch:
        files = [*folder.glob("*.lua"), *GOLDEN.glob("*/expected/**/*.lua")]
        for case, tree in rendered.items():
            for path, text in tree.items():
                files.append(Path(scratch, case, path))
                files[-1].parent.mkdir(parents=True, exist_ok=True)
                files[-1].write_text(text, encoding="utf-8", newline="")
        lmod.check_syntax(files)
    return len(templates), len(files)


if __name__ == "__main__":
    sys.exit(main())
