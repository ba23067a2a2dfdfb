"""What every backend promises, tried by the command line. Each is one function of a scene; PROMISES has them all."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from envmgr.backends import backend_names
from tests.helpers.backends import ENTRY, LICENSED, Scene, scene_module
from tests.helpers.sandbox import Sandbox
from tests.helpers.sboms import valid_cyclonedx


def lock_is_stable(scene: Scene) -> None:
    """The same answers give the same text, to the byte, and the same digest."""
    box = scene.box
    box.ok("lock", ENTRY)
    texts, digest = _texts(box), _digest(box)
    for path in texts:
        path.unlink()
    box.ok("lock", ENTRY)
    assert _texts(box) == texts
    assert box.ok("lock", ENTRY).stdout.startswith(f"{ENTRY}: unchanged  ")
    assert (_digest(box), _digest(box)) == (digest, digest)


def stale_lock_is_refused(scene: Scene) -> None:
    box = scene.box
    box.ok("lock", ENTRY)
    digest = _digest(box)
    scene.change()
    for verb in ("build", "fetch"):
        done = box.run(verb, ENTRY)
        assert (done.code, done.stdout) == (3, "")
        assert done.stderr.startswith("error[lock-stale]: ")
        assert done.stderr.endswith(f"hint: run `envmgr lock {ENTRY}` and commit the result\n")
    assert box.run("lock", "--check", ENTRY).code == 1
    box.ok("lock", ENTRY)
    assert _digest(box) != digest
    assert not (box.prefix / "store").exists()


def missing_and_damaged_locks_are_told(scene: Scene) -> None:
    box = scene.box
    missing = box.run("build", ENTRY)
    assert missing.code == 3
    assert missing.stderr.startswith(f"error[lock-missing]: {ENTRY} has no lock\n")
    box.ok("lock", ENTRY)
    for path in _texts(box):
        path.write_text("[]")
    damaged = box.run("build", ENTRY)
    assert (damaged.code, damaged.stderr[:21]) == (2, "error[lock-invalid]: ")


def input_is_checked(scene: Scene) -> None:
    box = scene.box
    path = box.root / "recipes" / ENTRY / "recipe.yaml"
    recipe = json.loads(path.read_text())
    recipe["input"]["nonsense"] = 1
    path.write_text(json.dumps(recipe))
    done = box.run("check", ENTRY, "--format", "json")
    errors = [f["found"] for f in done.data["findings"] if f["severity"] == "error"]
    assert (done.code, errors) == (1, [f"{path}: input.nonsense: unknown field"])
    told = box.run("lock", ENTRY)
    assert told.code == 2
    assert told.stderr.startswith(
        f"error[recipe-invalid]: the {recipe['backend']} input of {ENTRY} has faults\n"
        f"  entry {ENTRY}\n  input.nonsense: unknown field\n"
    )


def licence_words_are_asked_for(scene: Scene) -> None:
    box = scene.box
    box.ok("lock", LICENSED)
    for verb in ("build", "fetch"):
        done = box.run(verb, LICENSED)
        assert done.code == 3
        assert done.stderr.startswith(f"error[licence-not-acknowledged]: {LICENSED} comes under a licence ")
        assert f"hint: read it; then add `{scene.licence}` to policies.licences in site.yaml\n" in done.stderr
    assert not (box.prefix / "store").exists()
    box.policies["licences"] = [scene.licence]
    box.write_site()
    box.ok("build", "--dry-run", LICENSED)


def fetched_is_built_without_a_network(scene: Scene) -> None:
    """And what was built loads, is what its manifest says, is made again where it is damaged, and goes with its last
    generation.
    """
    box = scene.box
    box.ok("lock", ENTRY)
    box.ok("fetch", ENTRY)
    scene.cut()
    box.ok("build", ENTRY)
    assert box.leftovers() == []
    loaded = box.shell(f"module load {ENTRY} && {scene.program} >/dev/null && command -v {scene.program}")
    (install,) = (p for p in box.prefix.glob("store/*/*") if p.is_dir())
    assert (loaded.stdout.endswith(f"/bin/{scene.program}\n"), loaded.returncode) == (True, 0)
    assert loaded.stdout.startswith(f"{scene.tree or install}/")
    box.ok("verify")
    file = next(path for path in sorted(install.rglob("*")) if path.is_file() and not path.is_symlink())
    file.chmod(0o644)
    file.write_bytes(b"damaged")
    assert f"`envmgr build --again {ENTRY}` makes it again, in its place" in box.run("verify").stdout
    (made,) = box.ok("build", "--again", ENTRY, "--format", "json").data["installs"]
    assert made["outcome"] in ("replaced", "renewed")
    box.ok("verify")
    assert box.leftovers() == []
    box.policies |= {"keep_days": 0, "keep_generations": 1}
    box.write_site()
    box.ok("publish", "--remove", ENTRY)
    (gone,) = box.ok("gc", "--format", "json").data["installs"]
    assert gone.startswith("store/")
    assert list(box.prefix.glob("store/*/*")) == []
    assert _own_files(box) == []
    assert scene.tree is None or (scene.tree / "bin" / scene.program).is_file()


def failed_build_leaves_nothing(scene: Scene) -> None:
    """Here a source is damaged, and cannot be had again; with a good one it is built."""
    box = scene.box
    box.ok("lock", ENTRY)
    box.ok("fetch", ENTRY)
    read = box.prefix.glob("cache/*/*/*") if scene.tree is None else scene.tree.glob("bin/*")
    files = {path: path.read_bytes() for path in read if path.is_file()}
    assert files
    scene.cut()
    for path in files:
        path.write_bytes(b"damaged")
    failed = box.run("build", ENTRY)
    assert failed.code == 3, failed.stderr
    _nothing_left(box)
    for path, data in files.items():
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(data)
    box.ok("build", ENTRY)


def parts_of_an_install_are_known_without_its_lock(scene: Scene) -> None:
    """By its manifest only: the lock beside the recipe may be another one by now. Names, versions and sums are the lock's."""
    box = scene.box
    box.ok("lock", ENTRY)
    packages = box.ok("list", ENTRY, "--format", "json").data["packages"]
    box.ok("build", ENTRY)
    texts = _texts(box)
    for path in texts:
        path.unlink()
    data = box.ok("sbom", ENTRY, "--format", "json").data
    assert data["parts"]
    named = {(name.rpartition("/")[2].partition(" ")[0].lower(), text.split()[0]) for name, text in packages.items()}
    for part in data["parts"]:
        assert any(part["name"].lower() == name and text.startswith(part["version"]) for name, text in named), part
    valid_cyclonedx(box.ok("sbom", ENTRY, "--format", "cyclonedx").stdout)
    part = data["parts"][0]
    found = box.run("find", f"{part['name']}", "--format", "json")
    assert (found.code, {row["entry"] for row in found.data["found"]}) == (1, {ENTRY})


PROMISES: tuple[Callable[[Scene], None], ...] = (
    lock_is_stable,
    stale_lock_is_refused,
    missing_and_damaged_locks_are_told,
    input_is_checked,
    licence_words_are_asked_for,
    fetched_is_built_without_a_network,
    failed_build_leaves_nothing,
    parts_of_an_install_are_known_without_its_lock,
)


def backends_of(tier: str) -> list[str]:
    return [name for name in backend_names() if scene_module(name).tier == tier]


def _texts(box: Sandbox) -> dict[Path, bytes]:
    folder = box.root / "recipes" / ENTRY
    return {path: path.read_bytes() for path in sorted(folder.iterdir()) if path.name != "recipe.yaml"}


def _digest(box: Sandbox) -> str:
    digest = box.ok("list", ENTRY, "--format", "json").data["digest"]
    assert isinstance(digest, str)
    return digest


def _nothing_left(box: Sandbox) -> None:
    assert box.leftovers() == []
    assert list(box.prefix.glob("store/*/*")) == []
    assert _own_files(box) == []
    assert [p for p in box.prefix.glob("var/jobs/*") if p.is_file()] == []


def _own_files(box: Sandbox) -> list[Path]:
    """Files of backends below the prefix, but for their tools."""
    generic = {"store", "generations", "flips", "cache", "var", "current"}
    own = (p for p in box.prefix.iterdir() if p.name not in generic)
    return [p for folder in own for p in folder.rglob("*") if p.is_file() and "tools" not in p.parts]
