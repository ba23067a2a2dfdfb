"""What each verb that changes something is asked to do in the rounds: from which state, and what must be so at the end."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from envmgr.people.lock import lock_of
from envmgr.people.places import UserPlaces
from envmgr.store.manifest import read_manifest, unmasked_tree
from envmgr.store.tree import tree_digest
from envmgr.system.files import remove_tree
from tests.helpers.easybuild.workshop import Workshop
from tests.helpers.sandbox import PYTHON, Sandbox
from tests.helpers.scenes import locked
from tests.helpers.verbs import VERBS
from tests.helpers.wheelhouse import Wheelhouse

_FOR_NODES = {"adopt", "audit"}  # they look at nodes, and write only what an option names
MUTATING = tuple(
    sorted(
        name
        for name, command in VERBS.items()
        if name not in _FOR_NODES and any(each.name == "dry_run" for each in command.params)
    )
)
"""The verbs that change something are those that can be asked to change nothing."""


@dataclass(frozen=True, slots=True)
class Plot:
    """`argv` on the state that `prepare` makes of a prefix with three generations; `done` says whether it has had its effect.

    `over` are references of errors with which the verb refuses to do what is done; `forgets` for gc, which may take generations;
    `within` is a command line of sh that runs it ("$@"), with ROOT for the sandbox's folder, where it changes /etc, which is then looked at
    too. `harmed` where what is published is not whole before; `easybuild` where the prefix is a workshop's, with nothing published.
    """

    argv: tuple[str, ...]
    prepare: Callable[[Sandbox], None] = lambda _: None
    done: Callable[[Sandbox], bool] = lambda _: True
    over: tuple[str, ...] = ()
    within: str = ""
    easybuild: bool = False
    forgets: bool = False
    harmed: bool = False
    environ: Mapping[str, str] = field(default_factory=dict)


def publish_three(box: Sandbox) -> None:
    """Three signed generations: one entry, two, another smoke test; `hello` is locked and not built."""
    key = box.root / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "admin", "-f", key], check=True)
    (box.root / "allowed_signers").write_text(f"admin@example.org {key.with_suffix('.pub').read_text()}")
    box.settings["signing"] = {"key": str(key), "allowed_signers": str(box.root / "allowed_signers")}
    box.write_site()
    locked(box, "kept/1.0", ["shared"])
    locked(box, "greet/1.0", ["hello-activate"])
    box.ok("build", "kept/1.0")
    box.ok("build", "greet/1.0")
    locked(box, "kept/1.0", ["shared"], tests=[{"name": "again", "run": "true"}])
    box.ok("build", "kept/1.0")
    locked(box, "hello/1.0", ["hello-prefix"], tests=[{"name": "runs", "run": "hello-prefix"}])


def lock_a_toy(box: Workshop) -> None:
    """An entry that EasyBuild builds in a second, as the build user; its EasyBuild is here."""
    box.write_site()
    box.toy()
    box.locked("toy/1.0", "toy-1.0.eb")


def entries(box: Sandbox) -> set[str]:
    return set(json.loads((box.prefix / "current/generation.json").read_text())["entries"])


def signed(box: Sandbox) -> int:
    """The highest flip."""
    return max(int(path.name.partition(".")[0]) for path in box.prefix.glob("flips/*.json"))


def unlocked(box: Sandbox) -> None:
    for path in (box.root / "recipes").glob("*/*/conda-lock*"):
        path.unlink()


def has_locks(box: Sandbox) -> bool:
    return all(
        (folder / name).read_text() != ""
        for folder in (box.root / "recipes/hello/1.0", box.root / "recipes/kept/1.0")
        for name in ("conda-lock.yml", "conda-lock.records.json")
        if (folder / name).exists() or not (folder / "conda-lock.yml").exists()
    )


def garbage(box: Sandbox) -> None:
    """Two generations too many, an install that nothing names, half a build, half a download."""
    box.ok("build", "hello/1.0", "--no-publish")
    site = json.loads((box.root / "site.yaml").read_text())
    site["policies"] |= {"keep_days": 0, "keep_generations": 1}
    (box.root / "site.yaml").write_text(json.dumps(site))
    half = box.prefix / "store/half/.staging-1.0-01234567/bin"
    half.mkdir(parents=True)
    (half / "program").write_text("half\n")
    for path in box.prefix.glob("store/*/*.manifest.json"):
        os.utime(path, (time.time() - 60, time.time() - 60))


def collected(box: Sandbox) -> bool:
    """The half build is gone. Generations and their installs may stay: for a process of this machine of which gc cannot know."""
    return box.current() == 3 and not list(box.prefix.glob("store/half/*"))


def damaged(box: Sandbox) -> None:
    (install,) = (path for path in box.prefix.glob("store/kept/*") if path.is_dir())
    path = next(path for path in sorted(install.rglob("*")) if path.is_file() and "conda-meta" not in path.parts)
    path.chmod(0o644)
    path.write_text("damaged\n")
    path.chmod(0o444)


def without_cache(box: Sandbox) -> None:
    if (box.prefix / "cache").exists():
        remove_tree(box.prefix / "cache")


def made_site(box: Sandbox) -> bool:
    return (box.root / "made/site.yaml").is_file() and (box.root / "made/recipes").is_dir()


def copied(box: Sandbox) -> bool:
    return (box.root / "recipes/python/3.12/recipe.yaml").is_file()


def written(name: str) -> Callable[[Sandbox], bool]:
    return lambda box: (box.root / name).is_file() and (box.root / name).stat().st_size > 0


def node_files(box: Sandbox) -> bool:
    return any(Path(box.root / "files").rglob("pin"))


# A node's own files: what envmgr's and the system's programs look at, and what node-setup writes.
ETC = [
    "alternatives",
    "bash.bashrc",
    "csh.cshrc",
    "debian_version",
    "group",
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "lmod",
    "localtime",
    "nsswitch.conf",
    "os-release",
    "passwd",
    "profile",
    "profile.d",
    "zsh",
]
IN_OWN_ETC = """\
mount --bind ROOT/etc /etc && mount --bind ROOT/run /run && mount --bind ROOT/lib /var/lib &&
mount --bind ROOT/share /usr/local/share && exec "$@"
"""


def own_etc(box: Sandbox) -> None:
    for name in ("etc", "run", "lib", "share", "etc/systemd/system"):
        (box.root / name).mkdir(parents=True)
    here = [Path("/etc") / name for name in ETC if (Path("/etc") / name).exists()]
    subprocess.run(["cp", "-a", *here, box.root / "etc"], check=True)


def set_up(box: Sandbox) -> bool:
    files = ("envmgr/node/pin", "envmgr/allowed_signers", "profile.d/zz-envmgr.sh")
    return all((box.root / "etc" / name).is_file() for name in files)


def with_python(box: Sandbox) -> None:
    """An entry with a Python, and an index with two packages."""
    house = Wheelhouse(box.root / "house")
    house.wheel("ipykernel")
    house.wheel("two")
    file = box.root / "site.yaml"
    site = json.loads(file.read_text())
    site["backends"] = {**site.get("backends", {}), "wheels": {"indexes": {"pypi": {"url": house.simple.as_uri()}}}}
    file.write_text(json.dumps(site))
    locked(box, "py/1.0", [f"python {PYTHON}.*"])
    box.ok("build", "py/1.0")


def with_own(box: Sandbox) -> None:
    """A user's environment `mine` on it, with one package."""
    with_python(box)
    box.ok("user", "create", "mine", "--on", "py/1.0", "ipykernel", HOME=str(box.root / "home"))


def own(box: Sandbox, name: str, *packages: str) -> bool:
    """Whether an environment has just these packages, whole, and a module."""
    places = UserPlaces(box.root / "home/.local/share/envmgr/envs")
    install = places.install(name)
    if install is None or not places.module(name).is_file():
        return False
    tree = tree_digest(unmasked_tree(install.path))
    return {*lock_of(install).versions} == {*packages} and tree == read_manifest(install.manifest).tree


def gone(box: Sandbox) -> bool:
    home = box.root / "home/.local/share/envmgr/envs"
    return not os.path.lexists(home / "mine") and not [*home.glob(".envmgr/*/user/mine*")]


def named_file(box: Sandbox) -> None:
    (box.root / "named.txt").write_text("six\n")


def has_six(box: Sandbox) -> bool:
    return "- six" in (box.root / "recipes/named/1.0/recipe.yaml").read_text()


PLOTS: dict[str, Plot] = {
    "build": Plot(("build", "hello/1.0"), done=lambda box: "hello/1.0" in entries(box)),
    "build --again": Plot(("build", "--again", "kept/1.0"), damaged, harmed=True),
    "build (EasyBuild)": Plot(("build", "toy/1.0"), done=lambda box: entries(box) == {"toy/1.0"}, easybuild=True),
    "copy": Plot(("copy", "python/3.12"), done=copied, over=("entry-exists",)),
    "export": Plot(("export", "--to", "reframe", "-o", "exported.py"), done=written("exported.py")),
    "fetch": Plot(
        ("fetch", "hello/1.0"), without_cache, lambda box: any(box.prefix.glob("cache/*/*/hello-prefix*.conda"))
    ),
    "gc": Plot(("gc",), garbage, collected, forgets=True),
    "import": Plot(("import", "named.txt", "--as", "named/1.0"), named_file, has_six, over=("entry-exists",)),
    "init": Plot(("init", "made"), done=made_site, over=("site-exists",)),
    "job": Plot(("job", "kept/1.0", "-o", "job.sh"), done=written("job.sh")),
    "lock": Plot(("lock", "hello/1.0", "kept/1.0"), unlocked, has_locks),
    "new": Plot(("new", "named/1.0", "six"), done=has_six, over=("entry-exists",)),
    "node-setup": Plot(("node-setup", "--output", "files"), done=node_files),
    "node-setup --apply": Plot(("node-setup", "--here", "--apply"), own_etc, set_up, within=IN_OWN_ETC),
    "page": Plot(("page", "--output", "www"), done=written("www/index.html")),
    "publish": Plot(
        ("publish", "hello/1.0"),
        lambda box: box.ok("build", "hello/1.0", "--no-publish") and None,
        lambda box: "hello/1.0" in entries(box),
    ),
    "publish --remove": Plot(
        ("publish", "--remove", "greet/1.0"), done=lambda box: entries(box) == {"kept/1.0"}, over=("not-published",)
    ),
    "rollback": Plot(("rollback", "1"), done=lambda box: box.current() == 1),
    "sign": Plot(("sign",), done=lambda box: signed(box) > 3),
    "user add": Plot(("user", "add", "mine", "two"), with_own, lambda box: own(box, "mine", "ipykernel", "two")),
    "user create": Plot(
        ("user", "create", "new", "--on", "py/1.0", "two"),
        with_python,
        lambda box: own(box, "new", "two"),
        ("name-taken",),
    ),
    "user delete": Plot(("user", "delete", "mine"), with_own, gone, ("no-environment",)),
    "user export": Plot(("user", "export", "mine", "-o", "mine.toml"), with_own, written("mine.toml")),
    "user kernel": Plot(
        ("user", "kernel", "mine"),
        with_own,
        lambda box: (box.root / "home/.local/share/jupyter/kernels/user-mine/kernel.json").is_file(),
    ),
    "user remove": Plot(
        ("user", "remove", "mine", "ipykernel"), with_own, lambda box: own(box, "mine"), ("not-asked-for",)
    ),
    "user update": Plot(("user", "update", "mine"), with_own, lambda box: own(box, "mine", "ipykernel")),
}
