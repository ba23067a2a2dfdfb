"""uv, as a process of its own that only resolves: its arguments, its environment, and its failures.

Source: tried with uv 0.13. Its exit codes are no contract, so failures are recognised by its words.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from tempfile import mkdtemp
from typing import Any
from urllib.parse import unquote, urlsplit

from envmgr.errors import CommandError, EnvmgrError, InputError
from envmgr.system.child import NETWORK, passed
from envmgr.system.run import Runner, clean_env
from envmgr.system.users import Account
from envmgr.wheels.index import IndexPlace, has_pages, login_of, login_variables
from envmgr.wheels.requirements import Question, checked

_LIMIT = 1800.0  # seconds that a resolution may take
_MOST_OUTPUT = 256 << 20  # bytes
_GLIBCS = (17, 28, *range(31, 41))  # 2.17 …; of `uv pip compile --help`
# Proxies, certificates and credentials pass; no index, and none of uv's own settings, which would override the site's.
_PASSED = (
    *("NETRC", "UV_INDEX_*_USERNAME", "UV_INDEX_*_PASSWORD"),
    *("UV_HTTP_TIMEOUT", "UV_HTTP_RETRIES", "UV_INSECURE_HOST", "UV_KEYRING_PROVIDER"),
)
_UNREACHED = re.compile(r"client error|[Cc]onnect|dns error|timed out|server error|status code 5|Failed to fetch")


class UnreachedError(EnvmgrError):
    """An index did not answer: another place of it may."""


def public_index(runner: Runner, environ: Mapping[str, str] = os.environ) -> str:
    """Return the URL of the public index: uv knows it. Raise EnvmgrError `resolve-failed`."""
    from uv import find_uv_bin

    words = ["pip", "compile", "--no-config", "--no-header", "--quiet", "--no-cache", "--emit-index-url"]
    own = ["--python", sys.executable, "--no-python-downloads", "-"]
    done = runner.run([find_uv_bin(), *words, *own], stdin="", env=_environment(environ), timeout=_LIMIT, check=False)
    if found := re.match(r"--index-url (https://[^\s@]+)\s", done.stdout):
        return found[1]
    raise EnvmgrError("resolve-failed", "uv does not say where the public index is", context=_sentences(done.stderr))


def compile_requirements(
    wanted: Question,
    python: str,
    places: Sequence[IndexPlace],
    runner: Runner,
    folder: Path,
    *,
    options: Sequence[str] = (),
    account: Account | None = None,
    environ: Mapping[str, str] = os.environ,
) -> str:
    """Return the pylock.toml that uv makes of what is `wanted` for `python` (a version), as `options` ask.

    `folder` is a scratch folder; uv keeps its cache there. `places` are in order: a package comes from the first that
    has its name, and a folder of wheels among the `options` goes before all. Of what is kept it takes another version
    only where that does not fit. Root's uv runs as `account`, if there is one, which can only write its cache.

    Raises:
        UnreachedError; EnvmgrError: `unsolvable`, `resolve-failed`, `disk-full`; InputError: `requirement-invalid`.
    """
    from uv import find_uv_bin

    asked, limits, cache = folder / "requirements.in", folder / "constraints.in", folder / "cache"
    for path, rows in ((asked, wanted.requirements), (limits, wanted.constraints)):
        try:  # each row is read and written again here, even if it was read before
            text = "".join(f"{checked(row)}\n" for row in rows)
        except ValueError as error:
            raise InputError("requirement-invalid", str(error)) from None
        path.write_text(text, encoding="utf-8")
        path.chmod(0o644)
    cache.mkdir(exist_ok=True)
    env = _environment(environ)
    if account is not None:
        folder.chmod(0o711)
        os.chown(cache, account.uid, account.gid, follow_symlinks=False)
        env |= {**account.variables(), "TMPDIR": str(cache), **_logins(places, environ)}
    argv: list[str | Path] = [find_uv_bin(), "pip", "compile", "--no-config", "--no-header", "--format", "pylock.toml"]
    # uv keeps what the file has that it writes; a quiet uv would write nothing else.
    argv += ["--output-file", _old_answer(wanted.kept, folder, account)] if wanted.kept else ["--quiet"]
    argv += ["--python", sys.executable, "--no-python-downloads", "--python-version", python]
    argv += ["--python-platform", _nearest(wanted.platform), "--cache-dir", cache, *options, *_index_options(places)]
    argv += ["--exclude-newer", wanted.exclude_newer] if wanted.exclude_newer else []
    argv += ["--constraints", limits, asked]
    try:
        done = runner.run(argv, cwd=folder, env=env, timeout=_LIMIT, run_as=account, most_output=_MOST_OUTPUT)
    except CommandError as error:
        raise _failure(error, wanted, places) from None
    return done.stdout


def _old_answer(kept: Iterable[str], folder: Path, account: Account | None) -> Path:
    """Write an answer with these packages into a new folder that uv can write."""
    place = Path(mkdtemp(dir=folder))
    path = place / "pylock.toml"
    rows = "".join('{{name = "{}", version = "{}"}}, '.format(*row.split("==")) for row in kept)
    path.write_text(f'lock-version = "1.0"\ncreated-by = "envmgr"\npackages = [{rows}]\n', encoding="utf-8")
    path.chmod(0o644)
    if account is not None:
        os.chown(place, account.uid, account.gid)
    return path


def _environment(environ: Mapping[str, str]) -> dict[str, str]:
    own = passed(environ, *NETWORK, *_PASSED)
    # Sites add their own certificates to those of the system, which uv uses with UV_NATIVE_TLS.
    return clean_env(UV_NATIVE_TLS="1", UV_NO_PROGRESS="1", NO_COLOR="1", **own)


def _logins(places: Sequence[IndexPlace], environ: Mapping[str, str]) -> dict[str, str]:
    """Return the logins in the caller's `.netrc`, which the other user cannot read, as variables."""
    found: dict[str, str] = {}
    for place in places:
        if place.folder is None and (login := login_of(place.index, place.url, environ)):
            found |= dict(zip(login_variables(place.index), login, strict=True))
    return found


def refuse_foreign(packages: Iterable[Mapping[str, Any]], places: Sequence[IndexPlace], scratch: Path) -> None:
    """Raise EnvmgrError `index-foreign` if a page on the network lists files of this machine."""
    own = [Path(unquote(urlsplit(each.url).path)) for each in places if each.url.startswith("file://")]
    # The files of an index in files usually lie beside it.
    roots = [os.path.realpath(path) for path in (scratch, *(path.parent if has_pages(path) else path for path in own))]
    for package in packages:
        for file in (*package.get("wheels", ()), *(package[kind] for kind in ("sdist", "archive") if kind in package)):
            url = file.get("url") or (scratch / file["path"]).as_uri()
            scheme = urlsplit(url).scheme
            # A link or `..` may lead out of the index's own folder.
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
    """Return the newest platform that uv knows and that is no newer: uv finds no wheels for a glibc between the two."""
    arch, _, glibc = platform.rpartition("_")
    known = [each for each in _GLIBCS if each <= int(glibc)]
    return f"{arch}_{known[-1]}" if known else platform


def _index_options(places: Sequence[IndexPlace]) -> list[str]:
    """Return the places in uv's words. The last index that is no folder replaces uv's default, the public one."""
    indexes = [f"{each.index}={each.url}" for each in places if each.folder is None]
    words = [word for each in places if each.folder for word in ("--find-links", str(each.folder))]
    words += [word for each in indexes[:-1] for word in ("--index", each)]
    return [*words, "--default-index", indexes[-1]] if indexes else [*words, "--no-index"]


def _failure(error: CommandError, wanted: Question, places: Sequence[IndexPlace]) -> EnvmgrError:
    asked = f"asked: {', '.join(wanted.requirements)}"[:1000]
    context = [asked, *(f"index {each.index}: {each.url}" for each in places), *_sentences(error.stderr)]
    if "No solution found" in error.stderr or "no versions of" in error.stderr:
        hint = (
            "loosen a requirement, or name an index that has what is missing (`indexes`, `backends.wheels.indexes` "
            "of site.yaml)"
        )
        if "usable wheels" in error.stderr or "no wheels with a matching" in error.stderr:
            hint = (
                "ask for a version with wheels for this Python and platform, or `build` it from its source, in a recipe "
                "of wheels"
            )
        if "exclude-newer" in error.stderr:
            hint = (
                "files without an upload time are never old enough: name an index that tells it, or take "
                "`exclude_newer` out"
            )
        return EnvmgrError("unsolvable", "the requirements have no solution in wheels", context=context, hint=hint)
    if _UNREACHED.search(error.stderr):
        return UnreachedError(
            "no-network",
            f"an index of {', '.join(p.index for p in places)} does not answer",
            context=context,
            hint="on a machine without this network, give the index a mirror in site.yaml: "
            "backends.wheels.indexes.<name>.mirrors takes URLs and folders",
        )
    return EnvmgrError("resolve-failed", "uv could not resolve the requirements", context=context)


def _sentences(text: str) -> list[str]:
    """Return the conclusion, which comes last, and the hints; the ranges of versions before it are long and say
    nothing.
    """
    plain = " ".join(re.sub(r"^\W+", "", line) for line in text.splitlines())
    plain = re.sub(r"^.*?No solution found.*?(?=Because )", "", plain)
    reasons, *hints = re.split(r"\s+hint: ", plain)
    sentences = re.split(r"(?<=[.,])\s+(?=(?:And |Because |we can conclude))", reasons.strip())
    shown = sentences if len(plain) < 1500 else ["…", *sentences[-3:]]
    told = [each.strip()[:1000] for each in shown if each.strip()]
    # Nobody can give the option here that some hints name.
    return told + [f"hint of uv: {each.strip()[:600]}" for each in hints if "--no-build" not in each]
