"""The real PyTorch from the public index, from recipe to training on two nodes. Gigabytes: `make test-torch`.

The prefix is always the same folder, and stays, with Python, wheels and installs: another run builds what has changed.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.helpers.cluster import Cluster
from tests.helpers.done import Done
from tests.helpers.easybuild.workshop import make_workshop, real_sources
from tests.helpers.slow_site import Lasting, two_nodes
from tests.helpers.waiting import DEADLINE

pytestmark = pytest.mark.slow

PREFIX = Path(f"/var/tmp/envmgr-test-torch-{os.geteuid()}")
ENTRY = "pytorch/2.1-cuda12.1"


class Torch(Lasting):
    def build(self, *words: str) -> Done:
        return self.run("build", ENTRY, *words, timeout=3000)


@pytest.fixture(scope="module")
def box() -> Iterator[Torch]:
    """The shipped entry, built (or found), tested and published, on a Python built from Debian's source."""
    if PREFIX.is_symlink():
        pytest.fail(f"{PREFIX} is a link")
    real_sources("Python")
    made = make_workshop()
    box = Torch(made.root, "", settings={"build_dir": "/tmp"}, lasting=PREFIX)
    box.write_site()
    box.drop_unknown()
    done = box.build()
    assert done.code == 0, done.stdout + done.stderr
    yield box
    shutil.rmtree(box.root)


def test_a_second_run_does_nothing_and_the_install_is_what_its_manifest_says(box: Torch) -> None:
    assert "nothing to do" in box.build().stdout
    assert box.run("verify", ENTRY, "--format", "json", timeout=3000).data["findings"] == []


def test_a_new_login_shell_computes(box: Torch) -> None:
    done = box.shell(
        f"""
        module load {ENTRY}
        python -c 'import torch, sys; print(torch.__version__, torch.arange(4).sum().item(), sys.prefix == sys.base_prefix)'
        python -m venv --system-site-packages child && child/bin/python -c 'import torch; print(torch.version.cuda)'
        """,
        timeout=20 * DEADLINE,
    )
    assert done.stdout.splitlines() == ["2.1.2+cu121 6 True", "12.1"], done.stderr


def test_its_tests_pass_and_those_for_gpus_and_nodes_are_told_as_not_run(box: Torch) -> None:
    done = box.run("test", ENTRY, "--format", "json", timeout=3000)
    ends = {test["test"]: test["status"] for test in done.data["tests"]}
    assert ends.pop("gpu") in ("skipped", "passed")
    assert ends.pop("two-nodes") == "not-run"
    assert set(ends.values()) == {"passed"}, done.stdout


@pytest.fixture(scope="module")
def nodes(box: Torch, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Two compute nodes that see the prefix at its own path."""
    with two_nodes(tmp_path_factory.mktemp("torch")) as cluster:
        yield cluster


def test_trains_over_two_nodes(nodes: Cluster) -> None:
    """By the recipe's own test: the world has two processes on two hosts, and all have equal gradients."""
    nodes.write_site(prefix=str(PREFIX), catalogs=[])
    done = nodes.envmgr(["test", ENTRY, "--via", "slurm", "-N", "2", "--format", "json"], timeout=60 * DEADLINE)
    ends = {test["test"]: (test["status"], test["nodes"], test["detail"]) for test in done.data["tests"]}
    assert ends["two-nodes"] == ("passed", "c[1-2]", ""), json.dumps(ends, indent=1) + done.stderr
