"""uv, as a process of its own that only resolves: what it is told, and what it says when it fails.

Source: tried with uv 0.13; its exit codes are no contract, so failures are told apart by its words.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import sys
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

from envmgr.errors import CommandError, EnvmgrError, InputError
from envmgr.system.run import Bounds, Runner, clean_env
from envmgr.system.users import Account
from envmgr.wheels.pages import environment_key, login_of
from envmgr.wheels.requirements import checked
from envmgr.wording import size_text

_LIMIT = 1800.0  # seconds that a resolution may take
# Many times what the largest resolutions that were seen need (186 packages: 0.4 GB). uv keeps whole pages in memory, and wheels without
# metadata on disk.
_BOUNDS = Bounds(memory=2 << 30, output=256 << 20)
_MOST_OF_DISK = 0.9  # of what is free below the scratch folder when it begins
_GLIBCS = (17, 28, *range(31, 41))  # 2.17 …; of `uv pip compile --help`
_RETRIES_OF = (
    r"UV_INDEX_[A-Z0-9_]+_(USERNAME|PASSWORD)|UV_(HTTP_TIMEOUT|HTTP_RETRIES|INSECURE_HOST|KEYRING_PROVIDER)|NETRC"
)
_PASSED = re.compile(rf"(?i:(https?|all|no)_proxy)|SSL_CERT_(FILE|DIR)|{_RETRIES_OF}")
_UNREACHED = re.compile(r"client error|[Cc]onnect|dns error|timed out|server error|status code 5|Failed to fetch")


@dataclass(frozen=True, slots=True)
class Place:
    """Where an index is asked: its name in the site, and a URL, or the `file://` URL of a folder of wheels and sources."""

    index: str
    url: str

    @property
    def folder(self) -> Path | None:
        """A folder of files; a `file://` URL of an index that lies in files is asked as others are."""
        parts = urlsplit(self.url)
        path = Path(unquote(parts.path))
        return path if parts.scheme == "file" and not _is_index(path) else None


def _is_index(folder: Path) -> bool:
    try:
        return folder.is_dir() and not any(p.name.endswith((".whl", ".tar.gz", ".zip")) for p in folder.iterdir())
    except PermissionError:  # as one that lacks the files
        return False


class UnreachedError(EnvmgrError):
    """An index did not answer: another place of it may."""


def compile_requirements(
    requirements: Sequence[str],
    places: Sequence[Place],
    runner: Runner,
    folder: Path,
    *,
    python: str,
    platform: str,
    constraints: Sequence[str] = (),
    exclude_newer: str | None = None,
    options: Sequence[str] = (),
    account: Account | None = None,
    environ: Mapping[str, str] = os.environ,
) -> str:
    """What uv makes of them, for `python` (a version) on `platform`: the text that `options` ask for.

    `folder` is a scratch folder; uv keeps its cache there. `places` are in order: the first that has a package's name gives it.
    A folder of wheels among the `options` is before them. Root's uv runs as `account`, if there is one, which can write its cache alone.

    Raises:
        UnreachedError; EnvmgrError: `unsolvable`, `resolve-failed`, `index-too-large`, `index-foreign`, `disk-full`; InputError
            `requirement-invalid`.
    """
    from uv import find_uv_bin

    asked, limits, cache = folder / "requirements.in", folder / "constraints.in", folder / "cache"
    for path, rows in ((asked, requirements), (limits, constraints)):
        path.write_text(_text(rows), encoding="utf-8")
        path.chmod(0o644)
    cache.mkdir(exist_ok=True)
    if account is not None:
        folder.chmod(0o711)
        os.chown(cache, account.uid, account.gid, follow_symlinks=False)
    argv: list[str | Path] = [find_uv_bin(), "pip", "compile", "--no-config", "--quiet", "--no-header"]
    argv += ["--python", sys.executable, "--no-python-downloads", "--python-version", python]
    argv += ["--python-platform", _nearest(platform), "--cache-dir", cache, *options, *_places(places)]
    argv += ["--exclude-newer", exclude_newer] if exclude_newer else []
    argv += ["--constraints", limits, asked]
    least = shutil.disk_usage(folder).free * (1 - _MOST_OF_DISK)

    def look() -> None:
        if (free := shutil.disk_usage(folder).free) < least:
            raise EnvmgrError(
                "disk-full",
                f"{size_text(free)} are left under {folder} while uv reads the index",
                context=_asked(requirements, places),
                hint="an index that sends files without end does that; else name a larger folder by TMPDIR",
            )

    try:
        env = _environment(environ)
        if account is not None:
            env |= {**account.variables(), "TMPDIR": str(cache), **_logins(places, environ)}
        done = runner.run(argv, cwd=folder, env=env, timeout=_LIMIT, run_as=account, bounds=_BOUNDS, on_tick=look)
    except CommandError as error:
        raise _failure(error, requirements, places) from None
    if "pylock.toml" in options:
        _refuse_foreign(done.stdout, places, folder)
    return done.stdout


def _text(rows: Sequence[str]) -> str:
    """A requirements file: the one door to it. Each row is written anew here, whoever said it before."""
    try:
        return "".join(f"{checked(row)}\n" for row in rows)
    except ValueError as error:
        raise InputError("requirement-invalid", str(error)) from None


def _logins(places: Sequence[Place], environ: Mapping[str, str]) -> dict[str, str]:
    """What the caller's `.netrc` has, which the other user does not read."""
    found: dict[str, str] = {}
    for place in places:
        if place.folder is None and (login := login_of(place.index, place.url, environ)):
            key = environment_key(place.index)
            found |= {f"{key}_USERNAME": login[0], f"{key}_PASSWORD": login[1]}
    return found


def _refuse_foreign(text: str, places: Sequence[Place], scratch: Path) -> None:
    """A page on the network that lists files of this machine. EnvmgrError `index-foreign`."""
    own = [Path(unquote(urlsplit(each.url).path)) for each in places if each.url.startswith("file://")]
    # The files of an index in files usually lie beside it.
    roots = [os.path.realpath(path) for path in (scratch, *(path.parent if _is_index(path) else path for path in own))]
    for package in tomllib.loads(text).get("packages", ()):
        for file in (*package.get("wheels", ()), *(package[kind] for kind in ("sdist", "archive") if kind in package)):
            url = file.get("url") or (scratch / file["path"]).as_uri()
            scheme = urlsplit(url).scheme
            path = os.path.realpath(unquote(urlsplit(url).path))
            at_home = scheme == "file" and any(os.path.commonpath((path, root)) == root for root in roots)
            if scheme not in ("http", "https") and not at_home:
                raise EnvmgrError(
                    "index-foreign",
                    f"the index lists {url} for {package['name']}, which is no file of it",
                    context=[f"index {each.index}: {each.url}" for each in places],
                    hint="ask an index that you trust: this one names files of the machine that asks",
                )


def _nearest(platform: str) -> str:
    """uv knows some glibcs only: the newest of them that is no newer. Wheels for one between the two are not found."""
    arch, _, glibc = platform.rpartition("_")
    known = [each for each in _GLIBCS if each <= int(glibc)]
    return f"{arch}_{known[-1]}" if known else platform


def _places(places: Sequence[Place]) -> list[str]:
    """In uv's words. The last index that is no folder takes the public one's part."""
    indexes = [each for each in places if each.folder is None]
    words = [word for each in places if each.folder for word in ("--find-links", str(each.folder))]
    words += [word for each in indexes[:-1] for word in ("--index", f"{each.index}={each.url}")]
    return [*words, "--default-index", f"{indexes[-1].index}={indexes[-1].url}"] if indexes else [*words, "--no-index"]


def _environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Proxies, certificates and credentials pass; no index, and none of uv's own settings, which would reach past the site's."""
    passed = {key: value for key, value in environ.items() if _PASSED.fullmatch(key)}
    return clean_env(UV_NATIVE_TLS="1", UV_NO_PROGRESS="1", NO_COLOR="1", **passed)


def _asked(requirements: Sequence[str], places: Sequence[Place]) -> list[str]:
    return [f"asked: {', '.join(requirements)}"[:1000], *(f"index {p.index}: {p.url}" for p in places)]


def _failure(error: CommandError, requirements: Sequence[str], places: Sequence[Place]) -> EnvmgrError:
    said, asked = _sentences(error.stderr), _asked(requirements, places)
    if error.returncode == -signal.SIGABRT or "it wrote more than" in error.message:
        return EnvmgrError(
            "index-too-large",
            f"uv needs more than {size_text(_BOUNDS.memory)} of memory for what the index sends",
            context=asked,
            hint="the index sends pages without end, or is no package index: open its URL, or ask another place (`lock --index NAME=URL-OR-FOLDER`)",
        )
    if "No solution found" in error.stderr or "no versions of" in error.stderr:
        hint = "loosen a requirement, or name an index that has what is missing (`indexes`, `backends.wheels.indexes` of site.yaml)"
        if "exclude-newer" in error.stderr:
            hint = "files without an upload time are never old enough: name an index that tells it, or take `exclude_newer` out"
        return EnvmgrError(
            "unsolvable", "the requirements have no solution in wheels", context=[*asked, *said], hint=hint
        )
    if _UNREACHED.search(error.stderr):
        return UnreachedError(
            "no-network",
            f"an index of {', '.join(p.index for p in places)} does not answer",
            context=[*asked, *said],
            hint="on a machine without this network, give the index a mirror in site.yaml: backends.wheels.indexes.<name>.mirrors takes URLs and folders",
        )
    return EnvmgrError("resolve-failed", "uv could not resolve the requirements", context=[*asked, *said])


def _sentences(text: str) -> list[str]:
    """The conclusion, which comes last, and the hints; the ranges of versions before it are long and tell nothing."""
    plain = " ".join(re.sub(r"^\W+", "", line) for line in text.splitlines())
    reasons, *hints = re.split(r"\s+hint: ", plain)
    sentences = re.split(r"(?<=[.,])\s+(?=(?:And |Because |we can conclude))", reasons.strip())
    shown = sentences if len(plain) < 1500 else ["…", *sentences[-3:]]
    return [each.strip()[:1000] for each in shown if each.strip()] + [
        f"hint of uv: {each.strip()[:600]}" for each in hints
    ]
