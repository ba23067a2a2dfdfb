"""Lmod: where it is installed, its system cache, its Lua, and how a shell gets a module."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from envmgr.errors import CommandError, EnvmgrError
from envmgr.system.files import free_bytes
from envmgr.system.run import Runner, clean_env
from envmgr.system.scratch import scratch_folder
from envmgr.system.shelltext import assign, script_text
from envmgr.wording import size_text

# The exit status of a smoke test whose module could not be loaded: sites' tests hardly ever end with it themselves.
LOAD_FAILED = 97

USUAL_FOLDERS = (Path("/usr/share/lmod"), Path("/opt/apps/lmod"), Path("/usr/local/lmod"), Path("/opt/lmod"))
_TIMESTAMP = "timestamp"
_NEARLY_FULL = 1 << 20  # bytes
_TIMEOUT = 600.0  # seconds, for any of Lmod's programs
SHOWN_HOME, SHOWN_USER = "@envmgr-home@", "@envmgr-user@"


@dataclass(frozen=True, slots=True)
class Lmod:
    """One installation of Lmod: `package` has `init/`, `commands` has `lmod` and `update_lmod_system_cache_files`."""

    package: Path
    commands: Path
    runner: Runner

    def init_script(self, shell: str) -> Path:
        """Return the file that a shell (`bash`, `sh`, `zsh`, `csh`, …) sources to get `module`. Raise EnvmgrError
        `lmod-shell` if Lmod has none.
        """
        path = self.package / "init" / shell
        if not path.is_file():
            raise EnvmgrError("lmod-shell", f"Lmod has no start-up file for the shell `{shell}`", context=str(path))
        return path

    def version(self) -> str:
        """Return Lmod's version, such as `8.6.19`."""
        with _scratch_environment() as env:
            done = self.runner.run([self.commands / "lmod", "bash", "--version"], env=env, timeout=_TIMEOUT)
        # Lmod writes shell code to stdout, and text for people to stderr.
        found = re.search(r"Version\s+(\d[\w.]*)", done.stdout + done.stderr)
        if not found:
            raise EnvmgrError("lmod-broken", "Lmod does not tell its version", context=done.stdout + done.stderr)
        return found[1]

    def build_spider_cache(self, modules: Path, spider: Path) -> None:
        """Write Lmod's system cache of the tree `modules` into `spider`, for exactly these paths, as they are spelled.

        Lmod lists a module here that Lua cannot read, without a word: `check_syntax` comes first.

        Raises:
            EnvmgrError: `spider-cache-failed`, or `disk-full`, with what Lmod said.
        """
        failed = "spider-cache-failed", f"Lmod could not make its cache of {modules}"
        for path in (modules, spider):
            # Lmod's script does not quote, and MODULEPATH is a list separated by colons.
            if not path.is_absolute() or re.search(r"[\s:*?\[\]\\]", str(path)):
                reason = f"{path} must be absolute and without spaces, colons, backslashes and wildcards"
                raise EnvmgrError(*failed, context=reason)
        if not modules.is_dir():  # Lmod would write an empty cache
            raise EnvmgrError(*failed, context="there is no such folder")
        command = self.commands / "update_lmod_system_cache_files"
        try:
            with _scratch_environment() as env:
                done = self.runner.run(
                    [command, "-d", spider, "-t", spider / _TIMESTAMP, modules], env=env, timeout=_TIMEOUT
                )
        except CommandError as error:
            said = [error.message, error.stdout, error.stderr]
            raise (_disk_full(spider, said) or EnvmgrError(*failed, context=said)) from error
        cache = spider / "spiderT.lua"
        if done.stderr.strip() or not cache.is_file() or not cache.stat().st_size:
            said = [done.stderr or f"{cache} was not written"]
            raise _disk_full(spider, said) or EnvmgrError(*failed, context=said)

    def spider_json(self, modules: Path) -> str:
        """Return what Lmod's `spider -o spider-json` says of the tree `modules`: module name -> modulefile -> what it is.

        Raises:
            EnvmgrError: `spider-cache-failed` if Lmod says anything else than that.
        """
        with _scratch_environment() as env:
            done = self.runner.run([self.commands / "spider", "-o", "spider-json", modules], env=env, timeout=_TIMEOUT)
        # Lmod's empty table is an empty list; it gives 0 for a folder that is not there, too.
        if done.stderr.strip() or not done.stdout.startswith(("{", "[]")):
            said = done.stderr or done.stdout[:1000]
            raise EnvmgrError("spider-cache-failed", f"Lmod could not list the modules of {modules}", context=said)
        return done.stdout

    @staticmethod
    def lmodrc_text(spider: Path) -> str:
        """Return the rc file that names the cache in `spider`. Source: Lmod's manual, "The spider cache",
        `scDescriptT`.
        """
        text = script_text(__file__, "lmodrc.lua")
        for mark, path in (("@SPIDER@", spider), ("@TIMESTAMP@", spider / _TIMESTAMP)):
            text = text.replace(f'"{mark}"', lua_quote(str(path)))
        return text

    def check_syntax(self, paths: Sequence[Path]) -> None:
        """Parse every file with the Lua that runs Lmod, in one process.

        Raises:
            EnvmgrError: `module-syntax`, with a line `file:line: reason` for each file that is not Lua.
        """
        if not paths:
            return
        argv, names = [*self._lua(), "-e", script_text(__file__, "parse.lua")], "".join(f"{path}\n" for path in paths)
        done = self.runner.run(argv, stdin=names, timeout=_TIMEOUT)
        if faults := done.stdout.splitlines():
            what = "a modulefile is" if len(faults) == 1 else f"{len(faults)} modulefiles are"
            raise EnvmgrError("module-syntax", f"{what} not valid Lua", context=faults)

    def show_modules(self, folders: Sequence[Path], names: Sequence[str]) -> str:
        """Return the output of `module show` for the modules `names` below the folders. Raise EnvmgrError
        `module-load-failed`.

        `SHOWN_HOME` and `SHOWN_USER` stand where a module asks for the home or the name of its user.
        """
        with _scratch_environment(MODULEPATH=":".join(map(str, folders)), USER=SHOWN_USER, LOGNAME=SHOWN_USER) as env:
            done = self.runner.run(
                [self.commands / "lmod", "bash", "show", *names], env=env, timeout=_TIMEOUT, check=False
            )
        # Not every error of Lmod gives another status than 0.
        if done.returncode or "Lmod has detected the following error" in done.stderr:
            raise EnvmgrError(
                "module-load-failed",
                f"Lmod cannot show {' '.join(names)[:200]}",
                context=done.stderr.strip().splitlines()[-8:],
            )
        return done.stderr.replace(env["HOME"], SHOWN_HOME)

    def module_shell_prologue(self, modules: Path, lmodrc: Path, entry: str) -> str:
        """Return bash text after which `entry` is loaded, and nothing else; it exits with `LOAD_FAILED` if that fails.

        It first removes any Lmod that the shell inherited. Lmod must have the same path on the node as here.
        """
        given = assign(
            envmgr_init=str(self.package / "init" / "bash"),
            envmgr_modules=str(modules),
            envmgr_lmodrc=str(lmodrc),
            envmgr_entry=entry,
            envmgr_status=LOAD_FAILED,
        )
        return given + script_text(__file__, "prologue.sh")

    def _lua(self) -> list[str]:
        """Return the interpreter that Lmod's own programs name in their first line."""
        with (self.commands / "lmod").open("rb") as file:
            first = file.readline(4096).decode("utf-8", "replace").strip()
        if not first.startswith("#!"):
            raise EnvmgrError("lmod-broken", f"{self.commands / 'lmod'} does not start with the Lua that runs it")
        return first[2:].split()


def find_lmod(site_lmod_dir: Path | None, environ: Mapping[str, str], *, runner: Runner | None = None) -> Lmod:
    """Return the Lmod to use: the site's, the one of the caller's shell, or one in a usual place.

    Both the package's folder (with `init/` and `libexec/`) and its `libexec` are accepted. A wrong setting of the site
    is an error: another Lmod than the chosen one is never used.

    Raises:
        EnvmgrError: `lmod-missing`, with the places that were searched.
    """
    looked: list[str] = []
    for folder in [site_lmod_dir] if site_lmod_dir else _candidates(environ):
        for package in (folder, folder.parent):
            commands = package / "libexec"
            if (commands / "lmod").is_file() and (package / "init" / "bash").is_file():
                return Lmod(package, commands, runner or Runner())
        looked.append(str(folder))
    raise EnvmgrError(
        "lmod-missing",
        "Lmod is not here" if site_lmod_dir is None else f"there is no Lmod in {site_lmod_dir}",
        context=f"looked in {', '.join(dict.fromkeys(looked))}",
        hint="`apt-get install lmod` (Debian, Ubuntu) or `dnf install epel-release && dnf install Lmod` (Rocky, Alma, "
        "RHEL); if it lies in another folder, name that in site.yaml: lmod: {dir: …}",
    )


def _candidates(environ: Mapping[str, str]) -> Iterator[Path]:
    for variable in ("LMOD_PKG", "LMOD_DIR", "LMOD_CMD"):
        if value := environ.get(variable):
            yield Path(value).parent if variable == "LMOD_CMD" else Path(value)
    for folder in USUAL_FOLDERS:
        yield folder / "lmod"  # a link to the version in use, usually
    for folder in USUAL_FOLDERS:
        versions = [path for path in folder.glob("*/") if path.name[:1].isdigit()]
        # By number: as a text, 8.10 would come before 8.9.
        yield from sorted(versions, key=lambda p: [int(n) for n in re.findall(r"\d+", p.name)], reverse=True)


def _disk_full(spider: Path, said: Sequence[str]) -> EnvmgrError | None:
    """Return the error if the disk is full now: Lmod then cuts its cache, and its Lua reports bad syntax."""
    free = free_bytes(spider)
    if free >= _NEARLY_FULL and not any("No space left" in text for text in said):
        return None
    return EnvmgrError(
        "disk-full",
        f"no space left for {spider}",
        context=(f"{size_text(free)} are free", *said),
        hint="free some space (`envmgr gc` removes old generations and unused installs), then run the same "
        "command again",
    )


@contextmanager
def _scratch_environment(**extra: str) -> Iterator[dict[str, str]]:
    """Yield a clean environment with an empty home, so that no `~/.lmodrc.lua` and no user cache has an effect."""
    with scratch_folder("lmod") as home:
        yield clean_env(**extra, HOME=str(home))


# Control characters (C0, DEL, C1), what ends a line for Python or an editor, what has a meaning inside Lua's quotes,
# and bytes that were not UTF-8 (Python keeps those as lone surrogates).
_UNSAFE = re.compile('[\x00-\x1f"\\\\\x7f-\x9f\u2028\u2029\ud800-\udfff]')


def lua_quote(text: str) -> str:
    r"""Return `text` as a Lua string literal on one line, valid in Lua 5.1 to 5.4 and safe at any place of a template.

    UTF-8 passes through. Control characters, line separators and stray bytes become `\ddd`, one per byte: three decimal
    digits are the only form that all these Luas read, and never run into a digit that follows.

    Raises:
        UnicodeEncodeError: a lone surrogate that stands for no byte.
    Source: Lua 5.1 reference manual 2.1, Lua 5.4 3.1 "Lexical Conventions".
    """
    return '"' + _UNSAFE.sub(_escaped, text) + '"'


def _escaped(match: re.Match[str]) -> str:
    if (character := match[0]) in '"\\':
        return "\\" + character
    return "".join(f"\\{byte:03d}" for byte in character.encode("utf-8", "surrogateescape"))
