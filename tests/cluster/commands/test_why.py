"""`envmgr why` for alice, whose job ran yesterday: Slurm with slurmdbd, real audits, and six changes since."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from envmgr.system.yamlfile import dump_yaml
from tests.helpers.audit_scene import Audited
from tests.helpers.cluster import Cluster
from tests.helpers.cluster.faults import fake_driver
from tests.helpers.cluster.site import SITE
from tests.helpers.pages import NUMPY, agrees, blocks, spoken
from tests.helpers.waiting import wait_for
from tests.helpers.wheelhouse import Wheelhouse

DAY = 86400
JOB = """\
#!/bin/bash -l
#SBATCH --output=%x-%j.out --time=5
#SBATCH --job-name=solve -w c1
module load pydata/1.0 kit tool/1.0 || exit
{line}
python -c 'import numpy'
module load user/mine || exit
{own}
"""


@pytest.fixture(scope="module")
def lab(cluster_possible: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Audited]:
    """A cluster with accounting, four entries, and alice's environment `mine`; all of it published two days ago."""
    cluster = Cluster(tmp_path_factory.mktemp("why") / "lab", nodes=2, accounting=True)
    cluster.up()
    made = Audited(cluster)
    cluster.put_envmgr_on_path()
    cluster.write_site(
        backends={"wheels": {"indexes": {"pypi": {"url": "file:///srv/index/simple"}}}},
        slurm={"heal_export": False},
        policies={"min_free": 0, "keep_generations": 1},
    )
    cluster.write("login", SITE, dump_yaml(json.loads(cluster.sh("login", f"cat {SITE}").stdout), width=120))
    house = Wheelhouse(Path(f"/proc/{cluster.pid('login')}/root/srv/index"))
    for version in ("0.7.0", "0.8.0"):
        house.wheel("einops", version)
    cluster.recipe("pydata/1.0", ["python", f"numpy {NUMPY.version}"])
    for entry in ("kit/1.0", "tool/1.0"):
        cluster.recipe(entry, ["hello-prefix"])
    _publish(made, "pydata/1.0", "kit/1.0", "tool/1.0")
    made.set_up("login,c[1-2]")
    made.task_prolog()
    _alice(cluster, "envmgr user create mine --on pydata/1.0 'einops<0.8'")
    yield made
    cluster.down()


def _publish(lab: Audited, *entries: str) -> None:
    lab.envmgr("lock", *entries)
    lab.envmgr("build", *entries)


def _alice(cluster: Cluster, line: str) -> str:
    done = cluster.exec("login", ["bash", "-lc", line], user="alice")
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def _job(cluster: Cluster, text: str, *options: str) -> str:
    """Run a job to its end, and let slurmctld forget it; return its number."""
    cluster.write("login", "/home/alice/solve.sh", text)
    cluster.wait_idle()
    number = _alice(cluster, f"sbatch --wait --parsable {' '.join(options)} solve.sh").strip()
    asked = f"sacct -X -P -n -j {number} -o State; scontrol show job {number}"
    wait_for(lambda: cluster.sh("login", asked).stdout == "COMPLETED\n", what="slurmdbd to have it, and slurmctld not")
    return number


def _a_day_ago(cluster: Cluster, number: str) -> None:
    """Slurm's accounting, the log, the history and the audits say that all of it was a day earlier."""
    times = ", ".join(f"{name} = {name} - {DAY}" for name in ("time_submit", "time_eligible", "time_start", "time_end"))
    sql = f"update testbed_job_table set {times} where id_job = {number}"
    cluster.sh(
        "login", f"setpriv --reuid slurm --regid slurm --clear-groups mariadb -e '{sql}' slurm_acct_db", check=True
    )
    cluster.sh("login", "touch -d yesterday /home/alice/*.out", check=True)
    history = cluster.host_prefix / "var/history.jsonl"
    rows = [json.loads(line) for line in history.read_text().splitlines()]
    shifted = [row | {"time": re.sub(r"^.{10}", "2026-01-01", row["time"])} for row in rows]
    history.write_text("".join(f"{json.dumps(row)}\n" for row in shifted))
    facts = cluster.host_prefix / "var/audit/nodes.json"
    if facts.exists():
        data = json.loads(facts.read_text())
        for row in data["seen"]:
            row["time"], row["since"] = row["time"] - DAY, row["since"] - DAY
        facts.write_text(json.dumps(data))


def _line(entry: str) -> str:
    stem = entry.partition("/")[0].upper()
    return (
        "envmgr_driver=$(cat /sys/module/nvidia/version 2>/dev/null || :)\n"
        f'echo "envmgr: {entry}, generation $ENVMGR_GENERATION, digest ${{ENVMGR_{stem}_DIGEST:0:8}}, '
        'on $SLURM_JOB_NODELIST${envmgr_driver:+, driver $envmgr_driver on $SLURMD_NODENAME}"'
    )


def test_six_changes_since_yesterday_are_named_and_no_other(lab: Audited) -> None:
    cluster = lab.cluster
    script = JOB.format(line=_line("pydata/1.0"), own=_line("user/mine"))
    with fake_driver(cluster, "c1", "535.54.03"):
        lab.audit("--check", "fitness")
        number = _job(cluster, script)
        lab.audit("--check", "fitness")
        _a_day_ago(cluster, number)
        lab.audit("--check", "fitness")
        said = _alice(cluster, f"envmgr why {number}")
        assert "\nnothing changed that envmgr knows of; not looked at: " in said
        assert json.loads(_alice(cluster, f"envmgr why {number} --format json"))["changes"] == []
    cluster.recipe("pydata/1.0", ["python", "numpy 2.0.2"])
    cluster.recipe("kit/2.0", ["hello-prefix"])
    _publish(lab, "pydata/1.0", "kit/2.0")
    lab.envmgr("remove", "tool/1.0")
    _alice(cluster, "envmgr user update mine --rebase; envmgr user add mine 'einops>=0.8'")
    cluster.write("login", "/home/alice/solve.sh", script.replace("--time=5", "--time=10"))
    with fake_driver(cluster, "c1", "550.90.07"):
        lab.audit("--check", "fitness")
    said = _alice(cluster, f"envmgr why {number}")
    (shown,) = (block for block in blocks("docs/why.md") if block.mark == "tests/cluster/commands/test_why.py")
    (step,) = shown.steps
    assert agrees([spoken(line) for line in step.output or ()], said), said
    found = json.loads(_alice(cluster, f"envmgr why {number} --format json"))
    assert [(each["kind"], each["what"]) for each in found["changes"]] == [
        ("gone", "tool/1.0"),
        ("install", "pydata/1.0"),
        ("user", "user/mine"),
        ("default", "kit"),
        ("driver", "c1"),
        ("options", "--time"),
    ]
    _, packages, own, default, driver, option = found["changes"]
    assert {"name": "numpy", "old": f"{NUMPY.version} py311_0", "new": "2.0.2 py311_0"} in packages["packages"]
    assert {"name": "einops", "old": "0.7.0", "new": "0.8.0"} in own["packages"]
    assert (default["old"], default["new"]) == ("kit/1.0", "kit/2.0")
    assert (driver["old"], driver["new"]) == ("535.54.03", "550.90.07")
    assert (option["old"], option["new"]) == ("5", "10")
    assert _alice(cluster, f"cd /; envmgr why ~/solve-{number}.out") == said
    only = json.loads(_alice(cluster, f"envmgr why {number} kit/1.0 --format json"))
    assert [each["kind"] for each in only["changes"]] == ["default", "driver", "options"]

    since = json.loads(_alice(cluster, "envmgr why --since 1 --format json"))
    assert [(each["kind"], each["what"]) for each in since["changes"]] == [
        ("gone", "tool/1.0"),
        ("install", "pydata/1.0"),
        ("default", "kit"),
        ("driver", "c1"),
        ("added", "kit/2.0"),
    ]
    by_day = json.loads(_alice(cluster, "envmgr why --since 2026-01-02 pydata/1.0 --format json"))
    assert [(each["kind"], each["what"]) for each in by_day["changes"]] == [("install", "pydata/1.0")]

    # Its generation is removed, and its install: a shell without modules holds neither.
    # what the log says is left.
    lab.envmgr("gc", "--now")
    cluster.sh("login", "rm -rf /cluster/sw/generations/0001", check=True)
    said = _alice(cluster, f"envmgr why {number}")
    assert "note: generation 1 was removed; it was current from 2026-01-01 " in said
    assert "\npydata/1.0 is another install: " in said
    assert "what `module load kit` gave" in said


def test_a_job_without_a_line_is_judged_by_its_times(lab: Audited) -> None:
    cluster = lab.cluster
    number = _job(cluster, "#!/bin/bash -l\nmodule load kit\necho done\n", "--export=NONE")
    _a_day_ago(cluster, number)
    found = json.loads(_alice(cluster, f"envmgr why {number} --format json"))
    current = int((cluster.host_prefix / "current").readlink().name)
    assert found["loaded"] == [{"name": "kit", "generation": current, "digest": "", "how": "time"}]
    said = _alice(cluster, f"envmgr why {number}")
    assert f"loaded kit, generation {current}: by time, not seen\n" in said
    assert f"note: /home/alice/slurm-{number}.out has no line of `envmgr job` that says what was loaded\n" in said


def test_without_slurm_a_log_still_tells_and_a_job_is_an_error(lab: Audited) -> None:
    cluster = lab.cluster
    cluster.write("login", "/home/alice/lone.out", "envmgr: pydata/1.0, generation 1, digest 01234567, on c1\n")
    hide = "for each in scontrol sacct; do mount --bind /dev/null $(command -v $each); done"
    run = "setpriv --reuid alice --regid alice --init-groups env HOME=/home/alice ENVMGR_SITE=/etc/envmgr/site.yaml envmgr why"
    done = cluster.sh("login", f"unshare -m sh -c '{hide}; {run} /home/alice/lone.out; {run} 1'")
    assert "pydata/1.0 is another install: 01234567 -> " in done.stdout
    assert "error[slurm-unavailable]: this host does not have Slurm's commands" in done.stderr
    assert "hint: name the job's log instead: `envmgr why LOG`" in done.stderr


def test_unknown_job_and_a_log_that_is_none(lab: Audited) -> None:
    for what, said in (("9999", "error[no-job]: Slurm does not know job 9999"), ("/dev/null", "error[no-log]: ")):
        done = lab.cluster.envmgr(["why", what], user="alice")
        assert (done.code, done.stderr.startswith(said)) == (3 if what == "9999" else 2, True), done.stderr


def test_an_entry_or_a_generation_that_never_was(lab: Audited) -> None:
    words = (("lone.out", "none/1", "error[not-published]"), ("--since", "41", "error[no-generation]"))
    lab.cluster.write("login", "/home/alice/lone.out", "envmgr: pydata/1.0, generation 1, digest 01234567, on c1\n")
    for first, second, said in words:
        done = lab.cluster.envmgr(["why", first, second], user="alice")
        assert done.stderr.startswith(said), done.stderr
    done = lab.cluster.envmgr(["why", "0"], user="alice")  # of job 0, scontrol shows all jobs
    assert done.stderr.startswith("error[no-log]: cannot read the log 0\n"), done.stderr
