"""`envmgr check` on catalogs that mean harm: it ends soon, tells nothing of other files, and still looks at the sound entry."""

from __future__ import annotations

import importlib
import os
import re
import resource
import signal
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from envmgr.backends import backend_names, get_backend
from tests.helpers.forked import forked
from tests.helpers.hostile_catalogs import KINDS, SECRET, entry, fill
from tests.helpers.sandbox import Sandbox

CPU = 600  # seconds, on a slow machine, too; the worst take some, a pipe or a device takes all
MEMORY = 3 << 30  # bytes of address space
NOBODY = 65534
USERS = (os.geteuid(), NOBODY) if os.geteuid() == 0 else (os.geteuid(),)


@pytest.fixture
def scene() -> Iterator[Path]:
    """A folder that every user reaches."""
    with tempfile.TemporaryDirectory(prefix="hostile-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        (folder / "outside").mkdir()
        secret = folder / "outside/secret"
        secret.write_text(f"{SECRET}\n")
        secret.chmod(0o600)
        box = Sandbox(folder, "")
        box.write_site()
        (folder / "shipped").mkdir()
        entry(folder / "recipes", "sound")
        yield folder


def check(folder: Path, user: int, *words: str, most: int = 10_000) -> tuple[int, str]:
    """The exit status (negative: by which signal), and all that was said. In a child that has limits, and no shipped catalog."""
    said = folder / "said"
    said.unlink(missing_ok=True)
    child = os.fork()
    if child == 0:  # pragma: no cover
        status = 99
        try:
            status = _child(folder, user, said, most, *words)
        finally:
            os._exit(status)
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status), said.read_bytes().decode(errors="surrogateescape")


def _child(folder: Path, user: int, said: Path, most: int, *words: str) -> int:  # pragma: no cover
    signal.alarm(1200)  # what waits takes no time of the CPU
    resource.setrlimit(resource.RLIMIT_CPU, (CPU, CPU + 5))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    os.chdir(folder)
    os.environ["ENVMGR_SITE"] = str(folder / "site.yaml")
    import envmgr.catalog.site as site_module

    listing = importlib.import_module("envmgr.catalog.entries")
    listing.MOST_RECIPES = most  # type: ignore[attr-defined]
    site_module.shipped = lambda name: folder / "shipped"  # type: ignore[assignment] # noqa: ARG005
    with Path(os.devnull).open("w") as sys.stdout:
        for name in backend_names():
            get_backend(name)
        _check("sound/1.0")  # loads what the user may not be able to read: this Python's own files
    out = os.open(said, os.O_WRONLY | os.O_CREAT, 0o600)
    for number in (1, 2):
        os.dup2(out, number)
    sys.stdout, sys.stderr = os.fdopen(1, "w"), os.fdopen(2, "w")
    if user != os.geteuid():
        os.setgroups([])
        os.setgid(user)
        os.setuid(user)
    code = _check(*words)
    sys.stdout.flush()
    sys.stderr.flush()
    return code


def _check(*words: str) -> int:  # pragma: no cover
    from envmgr.cli.app import main

    sys.argv = ["envmgr", "check", *words]
    try:
        main()
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 98
    return 97


def harmless(code: int, said: str) -> None:
    assert code in (1, 2), f"{code}\n{said[-3000:]}"
    assert "Traceback" not in said
    assert "error[bug]" not in said
    assert "a-hash-that-nobody-should-see" not in said
    assert all(c.isprintable() or c == "\n" for c in said), ascii(said)[:2000]
    assert max(map(len, said.splitlines())) < 2000


def test_hostile_entries_are_told_each_and_do_no_harm(scene: Path) -> None:
    called = {kind: f"e{number}" for number, kind in enumerate(KINDS)}
    for kind, make in KINDS.items():
        make(scene / "recipes", scene / "outside", called[kind])
    for user in USERS:
        code, said = check(scene, user)
        harmless(code, said)
        assert "sound/1.0: sound/1.0 has no lock" in said
        errors = [line for line in said.splitlines() if line.startswith("error[")]
        of = {kind: [e for e in errors if re.search(rf"\b{name}(/|: is)", e)] for kind, name in called.items()}
        assert [kind for kind, lines in of.items() if not lines] == [], said
        assert [kind for kind, lines in of.items() if len(lines) > 25] == []
        assert len(errors) < 3000
        assert check(scene, user, "sound/1.0")[0] == 0


def test_of_a_catalog_without_end_entries_can_be_looked_at_by_name(scene: Path) -> None:
    fill(scene / "recipes")
    for user in USERS:
        code, said = check(scene, user, most=50)
        harmless(code, said)
        assert re.search(r"error\[catalog\]: catalogs: .* has more than 50", said), said
        assert check(scene, user, "sound/1.0", most=50)[0] == 0


def test_the_sound_entry_alone_has_no_fault(scene: Path) -> None:
    for user in USERS:
        _, said = check(scene, user)  # this user cannot make the prefix of the site
        assert said.splitlines()[-1] == "1 recipe checked: 0 errors, 2 warnings"


def test_a_link_to_a_sibling_in_the_catalog_is_read(scene: Path) -> None:
    folder = entry(scene / "recipes", "other")
    (folder / "recipe.yaml").unlink()
    (folder / "recipe.yaml").symlink_to("../../sound/1.0/recipe.yaml")
    (scene / "recipes/other/latest").symlink_to("1.0")
    assert check(scene, USERS[-1])[1].splitlines()[-1] == "3 recipes checked: 0 errors, 6 warnings"


def test_a_limit_ends_what_waits_or_spins() -> None:
    """The test itself can fail."""

    def spin() -> None:
        resource.setrlimit(resource.RLIMIT_CPU, (1, 2))
        while True:
            pass

    assert forked(spin) == -signal.SIGXCPU


def test_every_kind_is_of_its_own() -> None:
    assert len(KINDS) >= 25
