"""Images of a real registry: locked, fetched, made one squashfs, and run by charliecloud."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from envmgr.store.tree import scan_tree, tree_digest
from tests.helpers.backends import ENTRY
from tests.helpers.backends.container import HELLO, ContainerScene, open_scene
from tests.helpers.done import Done
from tests.helpers.registry import busybox, busybox_without, files, write_layout
from tests.helpers.standin.channel import Channel


@pytest.fixture
def scene(tmp_path: Path, channel: Channel) -> Iterator[ContainerScene]:
    with contextmanager(open_scene)(tmp_path, channel) as scene:
        yield scene


def recipe(scene: ContainerScene, **given: object) -> Path:
    own = {"tests": given.pop("tests", [])}
    wanted = {"image": f"{scene.registry.host}/lab/hello:1.0", "commands": ["hello"], **given}
    return scene.box.recipe(ENTRY, [], backend="container", input=wanted, **own)


def lock_of(scene: ContainerScene) -> dict[str, object]:
    found: dict[str, object] = json.loads((scene.box.root / "recipes" / ENTRY / "image.lock.json").read_text())
    return found


def reference_of(done: Done) -> str:
    """Of a command that failed as expected."""
    assert done.code == 3, done
    (found,) = re.findall(r"^error\[([a-z0-9-]+)\]", done.stderr, re.MULTILINE)
    return str(found)


def install_of(scene: ContainerScene) -> Path:
    (install,) = (path for path in scene.box.prefix.glob("store/promise/*") if path.is_dir())
    return install


def test_image_runs_as_any_other_entry(scene: ContainerScene) -> None:
    scene.box.ok("lock", ENTRY)
    scene.box.ok("build", ENTRY)
    script = f"""
        export PYTHONPATH=/host LD_LIBRARY_PATH=/host SLURM_JOB_ID=42 FOO='a b'
        module load {ENTRY}
        hello
        echo in | run sh -c 'cat; exit 7'; echo $?
        run sh -c 'echo "${{PYTHONPATH-none}} ${{LD_LIBRARY_PATH-none}} ${{LMOD_CMD-none}} $SLURM_JOB_ID $FOO $GREETING $HOME"'
        cd /tmp; run pwd
        shell -c 'id -u; echo $0 "$@"' x 'two words'
        run sh -c 'kill -USR1 $$'; echo $?
        run nothing 2>/dev/null; echo $?
    """
    said = scene.box.shell(script).stdout.splitlines()
    assert said == [
        "hello world",
        "in",
        "7",
        f"none none none 42 a b world {scene.box.root}",
        "/tmp",
        str(os.geteuid()),
        "x two words",
        "138",
        "127" if "127" in said else "1",
    ]


def test_signal_reaches_the_program_and_nothing_stays(scene: ContainerScene) -> None:
    scene.box.ok("lock", ENTRY)
    scene.box.ok("build", ENTRY)
    program = "trap 'echo got; exit 3' TERM; echo ready; while :; do sleep 0.1; done"
    script = f"""
        module load {ENTRY}
        run sh -c "{program}" >out & until grep -q ready out 2>/dev/null; do sleep 0.1; done
        kill -TERM $!; wait $!; echo $?; cat out; grep -c "$(dirname $(command -v run))" /proc/self/mountinfo
    """
    assert scene.box.shell(script).stdout.splitlines() == ["3", "ready", "got", "0"]


def inside(scene: ContainerScene, runtime: str, script: str) -> list[str]:
    """What a script says in a shell with the module, with cgroups as nodes of today have them."""
    text = f"""
        export ENVMGR_RUNTIME={runtime}
        unshare --mount bash <<'END' 2>&1
        {scene.box.ok("shell-init", "bash").stdout}
        mount -t cgroup2 none /sys/fs/cgroup; module load {ENTRY}
        {script}
END
    """
    return scene.box.shell(text.replace("\n        ", "\n")).stdout.splitlines()


@pytest.mark.parametrize("runtime", ["charliecloud", "podman"])
def test_signals_end_a_program_that_does_not_expect_them(scene: ContainerScene, runtime: str) -> None:
    scene.box.ok("lock", ENTRY)
    scene.box.ok("build", ENTRY)
    script = """
        run sh -c 'kill -TERM $$' </dev/null; echo $?
        timeout 3 run sleep 1111 </dev/null; echo $?
        run sh -c 'echo ready; exec sleep 1111' >ready </dev/null & until [ -s ready ]; do sleep 0.1; done; kill -TERM $!; wait $!; echo $?
    """
    said = [line for line in inside(scene, runtime, script) if line.isdigit()]
    assert said == ["143", "124", "143"]


@pytest.mark.parametrize("runtime", ["charliecloud", "podman"])
def test_folder_for_temporary_files(scene: ContainerScene, runtime: str) -> None:
    """The user's is the program's where it is seen inside, and is never another one's place."""
    scene.box.ok("lock", ENTRY)
    scene.box.ok("build", ENTRY)
    script = """
        mkdir -p /tmp/envmgr-test-$$/mine; cd /tmp/envmgr-test-$$; echo 'echo here' >script
        TMPDIR=$PWD/mine run sh -c 'echo $TMPDIR; pwd; sh ./script' </dev/null
        TMPDIR=/nonexistent run sh -c 'echo ${TMPDIR-none}' </dev/null
        TMPDIR=/var/tmp run sh -c 'echo ${TMPDIR-none}' </dev/null
        cd /; rm -r /tmp/envmgr-test-$$
    """
    mine, folder, *rest = inside(scene, runtime, script)
    assert (mine, rest) == (f"{folder}/mine", ["here", "none", "none"])
    assert folder.startswith("/tmp/envmgr-test-")


def test_smoke_test_of_a_recipe_runs_in_the_image(scene: ContainerScene) -> None:
    tests = [
        {"name": "says", "run": "hello | grep -q 'hello world' && run pwd && test -d \"$(run sh -c 'echo $TMPDIR')\""}
    ]
    recipe(scene, tests=tests)
    scene.box.ok("lock", ENTRY)
    scene.box.ok("build", ENTRY)


@pytest.mark.parametrize(
    "links",
    [{"home": "var/home"}, {"home": "/var/home"}, {"tmp": "/scratch"}, {"etc/resolv.conf": "/run/systemd/resolv.conf"}],
    ids=str,
)
def test_links_in_the_places_of_runtimes(scene: ContainerScene, links: dict[str, str]) -> None:
    layers = [files({"bin": None, "etc": None, **links}), busybox_without(set(links))]
    scene.registry.push("lab/links:1.0", layers, Env=["PATH=/bin"])
    recipe(scene, image=f"{scene.registry.host}/lab/links:1.0", commands={"look": "/bin/cat"})
    scene.box.ok("lock", ENTRY)
    scene.box.ok("build", ENTRY)
    script = f"module load {ENTRY}; echo seen >/tmp/envmgr-links-$$; look /tmp/envmgr-links-$$; rm /tmp/envmgr-links-$$"
    assert scene.box.shell(script).stdout == "seen\n"


def test_image_whose_programs_cannot_start_is_not_published(scene: ContainerScene) -> None:
    broken = files({"usr/bin/broken": b"#!/nowhere/interpreter\n"}, mode=0o755)
    scene.registry.push("lab/broken:1.0", [busybox(), broken], Env=["PATH=/usr/bin:/bin"])
    recipe(scene, image=f"{scene.registry.host}/lab/broken:1.0", commands=["broken"])
    scene.box.ok("lock", ENTRY)
    done = scene.box.run("build", ENTRY)
    assert (done.code, "error[smoke-test-failed]" in done.stderr) == (3, True), done.stderr
    assert scene.box.current() is None


def test_nodes_check_starts_the_runtime(scene: ContainerScene) -> None:
    scene.box.ok("lock", ENTRY)
    scene.box.ok("build", ENTRY)
    check = f"{install_of(scene)}/libexec/node-check"
    assert inside(scene, "charliecloud", f"{check}; echo $?") == ["0"]
    assert inside(scene, "podman", f"{check}; echo $?") == ["0"]
    last = inside(scene, "podman", f"mount --bind /bin/false $(command -v crun); {check}; echo $?")
    assert last[-1] == "127"


@pytest.mark.parametrize("runtime", ["charliecloud", "podman"])
def test_read_only_home_is_enough(scene: ContainerScene, runtime: str) -> None:
    scene.box.ok("lock", ENTRY)
    scene.box.ok("build", ENTRY)
    script = f"""
        mkdir home; module load {ENTRY}; export ENVMGR_RUNTIME={runtime} HOME=$PWD/home
        unshare --mount bash -c 'mount --bind home home && mount -o remount,bind,ro home && cd &&
            mount -t cgroup2 none /sys/fs/cgroup && hello && run sh -c "pwd; echo x >new" 2>&1'
    """
    done = scene.box.shell(script)
    said = done.stdout.splitlines()
    assert said[:2] == ["hello world", f"{scene.box.root}/home"], done.stderr
    assert "Read-only file system" in said[2]


def test_image_that_is_closed_to_others_is_not_copied_to_where_all_read_it(scene: ContainerScene) -> None:
    scene.box.policies |= {"umask": "027"}
    scene.box.write_site()
    scene.box.ok("lock", ENTRY)
    scene.box.ok("build", ENTRY)
    path = install_of(scene).relative_to(scene.box.prefix)
    said = scene.box.ok("stage", "--private", ENTRY, "true").stderr
    assert said == f"{path} is read from the share: it is closed to other users, and a copy is open to all\n"


def test_lock_names_digests_and_a_tag_that_moves_changes_nothing(scene: ContainerScene) -> None:
    scene.box.ok("lock", ENTRY)
    before = lock_of(scene)
    assert before["environment"] == ["PATH=/usr/bin:/bin", "GREETING=world"]
    assert len(before["layers"]) == 2  # type: ignore[arg-type]
    scene.registry.push("lab/hello:1.0", [busybox(), files({"usr/bin/hello": b"#!/bin/sh\necho moved\n"}, mode=0o755)])
    scene.box.ok("build", ENTRY)
    assert lock_of(scene) == before
    assert scene.box.shell(f"module load {ENTRY}; hello").stdout == "hello world\n"
    scene.box.ok("lock", ENTRY)
    assert lock_of(scene)["manifest"] != before["manifest"]


def test_same_bytes_from_the_same_layers(scene: ContainerScene) -> None:
    scene.box.ok("lock", ENTRY)
    scene.box.ok("build", ENTRY)
    install = install_of(scene)
    before = tree_digest(scan_tree(install, workers=1))
    scene.box.ok("verify", ENTRY)
    image = install / "image.sqfs"
    install.chmod(0o755)
    image.chmod(0o644)
    image.write_bytes(b"damaged")
    assert scene.box.run("verify", ENTRY).code == 1
    scene.box.ok("build", "--again", ENTRY)
    assert tree_digest(scan_tree(install, workers=1)) == before


def test_image_is_brought_as_a_folder(scene: ContainerScene, tmp_path: Path) -> None:
    scene.box.ok("lock", ENTRY)
    layout = scene.registry.folder / "layout"
    write_layout(tmp_path / "other", [busybox()])
    hello = files({"usr/bin/hello": HELLO}, mode=0o755)
    shutil.rmtree(layout)
    write_layout(layout, [busybox(), hello], Env=["PATH=/usr/bin:/bin", "GREETING=world"])
    scene.cut()
    none = scene.box.run("build", ENTRY)
    assert reference_of(none) == "no-network"
    other = scene.box.run("fetch", ENTRY, "--file", str(tmp_path / "other"))
    assert reference_of(other) == "no-network"
    scene.box.ok("fetch", ENTRY, "--file", str(layout))
    scene.box.ok("build", ENTRY)
    assert scene.box.shell(f"module load {ENTRY}; hello").stdout == "hello world\n"


@pytest.mark.parametrize(
    ("given", "reference", "said"),
    [
        ({"commands": ["nothing"]}, "command-not-in-image", "nothing"),
        ({"commands": {"x": "/usr/bin/absent"}}, "command-not-in-image", "x"),
    ],
)
def test_command_that_the_image_lacks(
    scene: ContainerScene, given: dict[str, object], reference: str, said: str
) -> None:
    recipe(scene, **given)
    scene.box.ok("lock", ENTRY)
    done = scene.box.run("build", ENTRY)
    assert reference_of(done) == reference
    assert said in done.stderr
    assert scene.box.leftovers() == []


@pytest.mark.parametrize(
    ("image", "reference"),
    [("lab/hello:9.9", "image-not-found"), ("lab/none:1.0", "image-not-found"), ("lab/arm:1.0", "image-invalid")],
)
def test_image_that_is_not_there_or_for_another_machine(scene: ContainerScene, image: str, reference: str) -> None:
    scene.registry.push("lab/arm:1.0", [busybox()], architecture="arm64")
    recipe(scene, image=f"{scene.registry.host}/{image}")
    done = scene.box.run("lock", ENTRY)
    assert reference_of(done) == reference
    assert not (scene.box.root / "recipes" / ENTRY / "image.lock.json").exists()


def test_registry_that_is_gone_or_that_refuses(scene: ContainerScene) -> None:
    scene.cut()
    done = scene.box.run("lock", ENTRY)
    assert reference_of(done) == "no-network"


def test_damaged_layer_is_no_install(scene: ContainerScene) -> None:
    """In the registry, and in the cache: fetched again."""
    scene.box.ok("lock", ENTRY)
    scene.box.ok("fetch", ENTRY)
    (blob, *_) = sorted(scene.box.prefix.glob("cache/oci/*/*.blob"))
    good = blob.read_bytes()
    blob.chmod(0o644)
    blob.write_bytes(good[:-1] + b"x")
    scene.box.ok("build", ENTRY)
    assert blob.read_bytes() == good


def test_layer_that_is_damaged_in_the_registry_is_no_install(scene: ContainerScene) -> None:
    scene.box.ok("lock", ENTRY)
    layer = lock_of(scene)["layers"][1]["sha256"]  # type: ignore[index]
    (data,) = scene.registry.folder.glob(f"data/docker/registry/v2/blobs/sha256/*/{layer}/data")
    data.write_bytes(b"x" * data.stat().st_size)
    done = scene.box.run("build", ENTRY)
    assert reference_of(done) in ("wrong-sha256", "image-not-read")
    assert scene.box.leftovers() == []
    assert not [*scene.box.prefix.glob("store/promise/*")]


def test_another_command_or_folder_needs_no_new_lock(scene: ContainerScene) -> None:
    scene.box.ok("lock", ENTRY)
    recipe(scene, commands={"greet": "/usr/bin/hello"}, bind=["/scratch"])
    scene.box.ok("build", ENTRY)
    assert scene.box.shell(f"module load {ENTRY}; greet").stdout == "hello world\n"
    scene.box.ok("lock", ENTRY, "--check")
