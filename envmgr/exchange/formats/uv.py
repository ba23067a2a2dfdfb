"""uv.lock: the exact files of a project's packages, by uv itself, which writes them as a pylock.toml.

The project's own file must lie beside it. uv gets copies of both in a folder of their own, and no network.
"""

from __future__ import annotations

import re
import tomllib

from packaging.pylock import Pylock

from envmgr.errors import CommandError, InputError
from envmgr.exchange import Parsed, ReadFile
from envmgr.exchange.pylocks import rows_of
from envmgr.system.scratch import scratch_folder
from envmgr.system.untrusted_files import ANYWHERE, Kind, read_file_text
from envmgr.wording import one_line

NAME = re.compile(r"uv\.lock")
CONTENT = re.compile(
    r"\A(?:(?!\[|lock-version).*\n)*?requires-python[ \t]*="
)  # before any table, as in no other tool's lock
_PROJECT = "pyproject.toml"
_KIND = Kind("project file", 4 << 20)
_HINT = "`uv export --format pylock.toml --output-file pylock.toml` in its project makes a file that can be imported"
_LIMIT = 60.0  # seconds


def read(given: ReadFile) -> Parsed:
    """Return the packages that the project needs without its extras and groups. Raise InputError `import-invalid`,
    `file-missing`.
    """
    from uv import find_uv_bin

    data = tomllib.loads(given.text)
    place = given.path.parent / _PROJECT
    if not place.exists():
        raise InputError("file-missing", f"{_KIND.what} {one_line(place)} does not exist", hint=_HINT)
    project = read_file_text(place, _KIND, tree=ANYWHERE)
    with scratch_folder("project") as folder:
        (folder / "uv.lock").write_text(given.text, encoding="utf-8")
        (folder / _PROJECT).write_text(project, encoding="utf-8")
        words = "export --frozen --offline --no-config --no-cache --no-default-groups --no-emit-workspace --no-header"
        argv = [find_uv_bin(), *words.split(), "--format", "pylock.toml", "--quiet", "--no-python-downloads"]
        try:
            done = given.runner.run([*argv, "--project", folder], cwd=folder, timeout=_LIMIT)
        except CommandError as error:
            raise given.invalid(" ".join(error.context), _HINT) from None
    lock = Pylock.from_dict(tomllib.loads(done.stdout))
    rows, left = rows_of(given, lock)
    packages = [each for each in data.get("package", ()) if isinstance(each, dict)]
    local = [each for each in packages if {"virtual", "editable"} & {*each.get("source", {})}]
    own = next((each for each in local if "." in each["source"].values()), {})
    kept = {each.name for each in lock.packages}
    why = "it is the project's own: a wheel of it, in an index of the site, can be a requirement"
    left += [given.left(f'name = "{each["name"]}"', why) for each in local if each["name"] not in kept]
    for kind, what in (("optional-dependencies", "extra"), ("dev-dependencies", "group")):
        left += [given.left(f"{name} = [", f"the {what} `{name}` of the project") for name in own.get(kind, ())]
    return Parsed(
        left=tuple(left),
        name=str(own.get("name", "")),
        version=str(own.get("version", "")),
        python=str(lock.requires_python or ""),
        rows=rows,
        pylock=lock,
    )
