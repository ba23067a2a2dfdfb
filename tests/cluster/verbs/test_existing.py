"""An entry that leads to a Spack tree, on real nodes: users load it as any other, and each change of the tree is found."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.helpers.audit_scene import Audited
from tests.helpers.spack_tree import FOLDER, make_spack_tree

pytestmark = pytest.mark.xdist_group("audited")

TREE = Path("/home/alice/spack")  # on all nodes
ENTRY = "bzip2/1.0.8"
LOOK = ("--check", "outside", "--check", "software", "--via", "ssh", "--context", "bash-ssh")
JOB = f"module load {ENTRY} && hello && echo $ENVMGR_GENERATION $BZIP2_ROOT"


@pytest.fixture
def lab(audited: Audited) -> Iterator[Audited]:
    """Spack's tree, imported and published."""
    cluster = audited.cluster
    there = cluster.folder / "home/alice/spack"
    make_spack_tree(there, str(TREE))
    try:
        audited.envmgr("import", "--from", "spack", str(TREE))
        audited.envmgr("lock", ENTRY)
        audited.envmgr("build", ENTRY)
        yield audited
    finally:
        cluster.envmgr(["publish", "--remove", ENTRY])
        cluster.sh("login", f"rm -rf {TREE} /etc/envmgr/recipes/bzip2", check=True)


def found(lab: Audited) -> list[tuple[str, str, str, str]]:
    return [(s, check, nodes, text) for s, check, nodes, where, text in lab.findings(*LOOK) if where == ENTRY]


def in_a_job(lab: Audited) -> list[str]:
    """What alice's job says on two nodes."""
    lab.cluster.wait_idle()
    done = lab.cluster.exec("login", ["srun", "-N2", "bash", "-lc", JOB], user="alice")
    assert done.returncode == 0, done.stderr
    return sorted(done.stdout.splitlines())


def test_users_load_it_and_the_audit_finds_the_tree_that_changed(lab: Audited) -> None:
    cluster, folder = lab.cluster, TREE / FOLDER
    first = lab.generation
    assert in_a_job(lab) == [f"{first} {folder}"] * 2 + ["hello"] * 2
    assert found(lab) == []

    # Spack installs over it: a file more, and a program of another size.
    cluster.sh("login", f"echo 'echo more' >>{folder}/bin/hello && touch {folder}/lib/more", check=True)
    assert found(lab) == [("error", "outside", "c[1-3]", f"{folder} is not what was published")]
    (hint,) = {f["hint"] for f in lab.audit(*LOOK)["findings"] if f["where"] == ENTRY}
    assert f"`envmgr verify {ENTRY}` lists what changed" in hint
    verified = cluster.envmgr(["verify", ENTRY])
    assert (verified.code, f"error[not-ours]: {ENTRY}: lib/more: new" in verified.stdout) == (1, True)

    # Published as it is now; and back, which brings the module, and not the files.
    lab.envmgr("lock", ENTRY)
    lab.envmgr("build", ENTRY)
    assert found(lab) == []
    assert in_a_job(lab) == [f"{lab.generation} {folder}"] * 2 + ["hello"] * 2 + ["more"] * 2
    lab.envmgr("rollback", str(first))
    assert in_a_job(lab) == [f"{first} {folder}"] * 2 + ["hello"] * 2 + ["more"] * 2
    assert [row[:3] for row in found(lab)] == [("error", "outside", "c[1-3]")]


def test_root_s_lock_has_the_build_user_run_a_command_of_a_recipe(lab: Audited) -> None:
    folder = TREE / FOLDER
    command = f'test "$(id -un)" = rsw && echo "export PATH={folder}/bin:$PATH"'
    lab.cluster.recipe("byuser/1.0", [], backend="existing", input={"path": str(folder), "command": command})
    try:
        lab.envmgr("lock", "byuser/1.0")
        lock = lab.cluster.sh("login", "cat /etc/envmgr/recipes/byuser/1.0/existing-lock.yml", check=True).stdout
        assert f"- kind: prepend\n  name: PATH\n  value: {folder}/bin\n" in lock
        assert lab.cluster.sh("login", "stat -c %U /etc/envmgr/recipes/byuser/1.0/existing-lock.yml").stdout == "root\n"
    finally:
        lab.cluster.sh("login", "rm -r /etc/envmgr/recipes/byuser", check=True)


def test_tree_that_a_node_or_its_users_do_not_have_is_told(lab: Audited) -> None:
    cluster, folder = lab.cluster, TREE / FOLDER
    cluster.sh("c2", f"mount -t tmpfs none {TREE}", check=True)
    try:
        assert found(lab) == [("error", "software", "c2", f"{folder}: No such file or directory")]
        refused = cluster.exec("c2", ["bash", "-lc", f"module load {ENTRY}"], user="alice")
        assert f"{ENTRY} is in {folder}, which is not on this machine" in " ".join(refused.stderr.split())
    finally:
        cluster.sh("c2", f"umount {TREE}", check=True)
    cluster.sh("login", f"chmod 700 {TREE}/bzip2 && chown root {TREE}/bzip2", check=True)
    rows = found(lab)
    assert [row[:3] for row in rows] == [("error", "software", "c[1-3]")]
    assert "alice cannot enter or read" in rows[0][3]
