"""docs/users.md is typed on a real cluster by its users, with jobs on two nodes; the audit calls none of it a drift."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from envmgr.system.yamlfile import dump_yaml
from tests.helpers.audit_scene import Audited
from tests.helpers.cluster import Cluster
from tests.helpers.cluster.site import SITE
from tests.helpers.pages import NUMPY, Typist, spoken, to_type
from tests.helpers.wheelhouse import Wheelhouse

OWN = "/home/alice/.local/share/envmgr/envs"
LAUNCHER = """\
import sys, einops, numpy

if __name__ == "__main__":
    print(sys.argv[1:], einops.VERSION, numpy.__version__)
"""
AS_JUPYTER_CLIENT = """\
import json, os, pathlib, string, subprocess

spec = json.loads(pathlib.Path("/home/alice/.local/share/jupyter/kernels/user-mine/kernel.json").read_text())
env = {name: string.Template(value).safe_substitute(os.environ) for name, value in spec["env"].items()}
subprocess.run([word.format(connection_file="opened") for word in spec["argv"]], env={**os.environ, **env}, check=True)
"""
DISTRIBUTIONS = """\
from importlib import metadata

print(*sorted({f"{each.name} {each.version}" for each in metadata.distributions()}))
"""


@pytest.fixture(scope="module")
def lab(own_cluster: Cluster) -> Audited:
    """A cluster with two entries that have numpy, a package index on the login node, and two users."""
    cluster = own_cluster
    made = Audited(cluster)
    cluster.put_envmgr_on_path()
    cluster.empty_prefix("rsw")
    cluster.write_site(
        backends={"wheels": {"indexes": {"pypi": {"url": "file:///srv/index/simple"}}}}, slurm={"heal_export": False}
    )
    cluster.write("login", SITE, dump_yaml(json.loads(cluster.sh("login", f"cat {SITE}").stdout), width=120))
    house = Wheelhouse(Path(f"/proc/{cluster.pid('login')}/root/srv/index"))
    house.wheel("einops", "0.7.0")
    house.wheel("seaborn", "0.13.2", requires=["numpy>=1.20"])
    house.wheel("newplots", requires=["numpy>=2"])
    house.wheel("ipykernel", "6.29.5", files={"ipykernel_launcher.py": LAUNCHER})
    cluster.recipe("pydata/1.0", ["python", f"numpy {NUMPY.version}"])
    cluster.recipe("pydata/2.0", ["python", "numpy 2.0.2"])
    recipe = "/etc/envmgr/recipes/pydata/1.0/recipe.yaml"
    cluster.write("login", recipe, dump_yaml(json.loads(cluster.sh("login", f"cat {recipe}").stdout), width=120))
    made.envmgr("lock", "pydata/1.0", "pydata/2.0")
    made.envmgr("build", "pydata/1.0", "pydata/2.0")
    made.set_up("login,c[1-3]")
    made.task_prolog()
    for node in ("login", *cluster.compute):
        cluster.sh(node, "useradd -u 2002 -m bob 2>/dev/null || useradd -u 2002 bob", check=True)
    return made


def test_page_is_typed_by_two_users_and_the_audit_finds_no_drift(lab: Audited) -> None:
    cluster = lab.cluster
    typist = Typist(cluster, spoken)
    for block in to_type("docs/users.md"):
        typist.type(block)
    own = f"{OWN}/.envmgr/modules"
    for node in ("login", *cluster.compute):
        said = cluster.sh(node, "su - alice -c 'echo $MODULEPATH'").stdout
        assert said.strip().endswith(f":{own}"), (node, said)
    assert lab.findings("--via", "both") == []
    assert cluster.sh("login", f"stat -c %a {OWN}/mine/bin").stdout.strip() == "555"


def test_kernel_colleague_and_merged_entry_have_the_packages_that_she_tried(lab: Audited) -> None:
    """After the page: a kernel as jupyter-client starts it, bob's files, and the module that the administrator built."""
    cluster = lab.cluster
    cluster.write("login", "/run/kernel.py", AS_JUPYTER_CLIENT)
    cluster.write("login", "/run/distributions.py", DISTRIBUTIONS)

    def alice(command: str) -> str:
        return cluster.sh("login", f"su - alice -c '{command}'", check=True).stdout

    assert alice("python3 /run/kernel.py") == f"['-f', 'opened'] 0.7.0 {NUMPY.version}\n"
    packages = "lib/python3*/site-packages"
    find = f"find {packages}/einops* {packages}/seaborn* -type f | sort | xargs sha256sum"
    sums = [
        cluster.sh("login", f"cd {envs} && {find}", check=True).stdout
        for envs in (f"{OWN}/mine", "/home/bob/.local/share/envmgr/envs/theirs")
    ]
    assert "seaborn.py" in sums[0]
    assert sums[0] == sums[1]
    tried, merged = (
        alice(f"module load {module} && python /run/distributions.py") for module in ("user/mine", "pydata-mine/1.0")
    )
    assert tried == merged
    assert {"einops 0.7.0", "ipykernel 6.29.5", "seaborn 0.13.2", f"numpy {NUMPY.version}"} <= {
        *re.findall(r"\S+ \S+", tried)
    }
    lock = cluster.sh("login", "cat /etc/envmgr/recipes/pydata-mine/1.0/*.{yml,lock}", check=True).stdout
    below = cluster.sh("login", "cat /etc/envmgr/recipes/pydata/1.0/conda-lock.yml", check=True).stdout
    own = cluster.sh("login", f"cat {OWN}/mine/wheels.lock", check=True).stdout
    assert {*re.findall(r"[0-9a-f]{64}", lock)} >= {*re.findall(r"sha256: ([0-9a-f]{64})", below)} | {
        *re.findall(r"sha256:([0-9a-f]{64})", own)
    }
    assert "/home/alice" not in lock + cluster.sh("login", "cat /etc/envmgr/recipes/pydata-mine/1.0/recipe.yaml").stdout


def test_job_without_the_shells_environment_finds_the_users_modules(lab: Audited) -> None:
    cluster = lab.cluster
    cluster.exec(
        "login", ["envmgr", "user", "create", "none", "--on", "pydata/1.0", "einops"], user="alice", check=True
    )
    script = "#!/bin/bash -l\nmodule load user/none\npython -c 'import einops; print(einops.__file__)'\n"
    cluster.write("login", "/home/alice/none.sh", script)
    done = cluster.sh(
        "login", "su - alice -c 'sbatch --wait --export=NONE -o none.out none.sh && cat none.out'", check=True
    )
    assert f"{OWN}/.envmgr/store/user/none-" in done.stdout


def test_doctor_names_the_line_and_the_command_for_what_is_a_users_own(lab: Audited) -> None:
    cluster = lab.cluster
    wrong = """
        cp -a /home/alice/.bashrc /run/kept
        printf '%s\\n' 'export PYTHONPATH=/opt/x' '# >>> conda initialize >>>' >>/home/alice/.bashrc
        mkdir -p /home/alice/venvs/old/bin; touch /home/alice/venvs/old/pyvenv.cfg
        ln -s /gone/python /home/alice/venvs/old/bin/python
        mkdir -p /home/alice/.local/share/jupyter/kernels/old
        echo '{"argv": ["/gone/python"]}' >/home/alice/.local/share/jupyter/kernels/old/kernel.json
        chown -R alice /home/alice/venvs /home/alice/.local/share/jupyter
    """
    cluster.sh("login", wrong, check=True)
    try:
        done = cluster.sh("login", "su - alice -c 'envmgr doctor --format json'")
        told = json.loads(done.stdout)["findings"]
        found = {(each["check"], each["severity"]): each for each in told}
        assert done.returncode == 1
        of_line = found["inventory", "warning"]
        assert of_line["found"].startswith("PYTHONPATH is /opt/x: ")
        assert of_line["hint"].startswith("/home/alice/.bashrc:")
        (block,) = (
            each["hint"] for each in told if each["found"].startswith("/home/alice/.bashrc has a `conda init` block")
        )
        assert block == "`conda init --reverse`, or `mamba shell deinit`, takes it away"
        assert found["environment", "error"]["where"] == "/home/alice/venvs/old"
        assert found["kernel", "warning"]["hint"].startswith("`rm -r /home/alice/.local/share/jupyter/kernels/old`")
    finally:
        cluster.sh(
            "login", "cp -a /run/kept /home/alice/.bashrc; rm -r /home/alice/venvs /home/alice/.local/share/jupyter"
        )
    well = cluster.sh("login", "su - alice -c 'envmgr doctor'")
    assert (well.returncode, well.stdout.partition(" in ")[0]) == (0, "nothing wrong")


def test_a_home_that_hangs_costs_a_login_its_own_modules_and_no_others(lab: Audited) -> None:
    """The pin asks the home in a process of its own, and does not wait for it longer than for the prefix."""
    cluster = lab.cluster
    pin = "env -u MODULEPATH HOME=/run/home ENVMGR_PINNING=1 timeout 20 /bin/sh /etc/envmgr/node/pin sh bash"
    own = ".local/share/envmgr/envs/.envmgr/modules"
    cluster.sh("fs1", f"mkdir -p /srv/home/{own}", check=True)
    cluster.sh(
        "c1",
        "mkdir -p /run/home; sshfs -o cache=no,entry_timeout=0,attr_timeout=0 root@fs1:/srv/home /run/home",
        check=True,
    )
    try:
        assert f":/run/home/{own}'" in cluster.sh("c1", pin, check=True).stdout
        cluster.sh("c1", "pkill -STOP -x sshfs", check=True)
        told = cluster.sh("c1", pin, check=True).stdout
        assert "/generations/" in told
        assert "/run/home" not in told
    finally:
        cluster.sh("c1", "pkill -CONT -x sshfs; umount -l /run/home")
