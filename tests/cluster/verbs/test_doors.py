"""From a push to what people read and ask: a bare repository, a candidate, tests on nodes, the page, `diff` of a job's output, `find`, and back."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from tests.helpers.audit_scene import Audited
from tests.helpers.places import ROOT

pytestmark = [pytest.mark.xdist_group("audited"), pytest.mark.always]

ENTRY = "door/1.0"
SITE = "/etc/envmgr/doors.yaml"
PLACE = "/etc/envmgr/doors"
GIT = "git -c user.name=anna -c user.email=anna@example.org"
HOOK = {"checkout": f"{PLACE}/checkout", "site": SITE, "to": "current", "command": f"{sys.executable} -m envmgr"}


@pytest.fixture
def lab(audited: Audited) -> Iterator[Audited]:
    """A bare repository on the login node, and alice's clone of it. The hook applies what is pushed to its main."""
    cluster = audited.cluster
    site = json.loads(cluster.sh("login", "cat /etc/envmgr/site.yaml", check=True).stdout)
    site["catalogs"] = {"folders": ["doors/checkout/recipes", "recipes"]}
    cluster.write("login", SITE, json.dumps(site))
    cluster.recipe(ENTRY, ["hello-prefix"], tests=[{"name": "runs", "run": "hello-prefix"}])
    steps = [
        f"mkdir -p {PLACE}/repo/recipes && mv /etc/envmgr/recipes/door {PLACE}/repo/recipes/",
        f"cd {PLACE}/repo && {GIT} init -q -b main && {GIT} add -A && {GIT} commit -q -m first",
        f"git clone -q --bare {PLACE}/repo {PLACE}/bare && git clone -q {PLACE}/bare {PLACE}/checkout",
        *(f"git -C {PLACE}/bare config envmgr.{name} '{value}'" for name, value in HOOK.items()),
    ]
    try:
        cluster.sh("login", "\n".join(["set -e", *steps]), check=True)
        cluster.write(
            "login", f"{PLACE}/bare/hooks/post-receive", (ROOT / "contrib/ci/post-receive").read_text(), 0o755
        )
        yield audited
    finally:
        cluster.envmgr(["publish", "--remove", ENTRY])
        cluster.sh("login", f"rm -rf {PLACE} {SITE} /etc/envmgr/recipes/door", check=True)


def push(lab: Audited, change: str) -> str:
    """What a push says after a change in the repository."""
    lock = f"{sys.executable} -m envmgr lock {ENTRY} --site {SITE}.push"
    site = f"sed s:doors/checkout/recipes:doors/repo/recipes: {SITE} >{SITE}.push"
    steps = [change, site, lock, f"cd {PLACE}/repo && {GIT} add -A && {GIT} commit -q --allow-empty -m push"]
    done = lab.cluster.sh("login", "set -e\n" + "\n".join(steps), timeout=300)
    assert done.returncode == 0, done.stderr
    pushed = lab.cluster.sh("login", f"cd {PLACE}/repo && git push {PLACE}/bare HEAD:main", timeout=600)
    assert pushed.returncode == 0, pushed.stderr
    return "\n".join(line.removeprefix("remote: ").rstrip() for line in pushed.stderr.splitlines())


def published(lab: Audited, path: str) -> Any:
    return json.loads((lab.cluster.host_prefix / "current" / path).read_text())


def test_a_push_reaches_users_and_tells_them_what_changed(lab: Audited) -> None:
    cluster = lab.cluster
    said = push(lab, "true")
    for step in ("publish", "test", "promote", "audit"):
        assert f"\n{step}: ok in " in said, said
    first = lab.generation
    portal = f"portal/{published(lab, 'www/catalog.json')['site']}.json"
    before = {name: published(lab, name) for name in ("www/catalog.json", portal)}
    assert "door" in before[portal]
    cluster.wait_idle()
    made = cluster.envmgr(["job", ENTRY, "--output", "/home/alice/door.sh", "--", "hello-prefix"], user="alice")
    assert made.code == 0, made.stderr
    script = "cd; sbatch --parsable --wait door.sh"
    job = cluster.exec("login", ["bash", "-lc", script], user="alice", check=True)
    number = job.stdout.split()[0]

    recipe = f"{PLACE}/repo/recipes/{ENTRY}/recipe.yaml"
    said = push(lab, f"""sed -i '/specs/,/]/s/"hello-prefix"$/"hello-prefix", "shared"/' {recipe}""")
    assert "\npromote: ok in " in said, said
    assert lab.generation > first
    after = published(lab, "www/catalog.json")
    assert after["generation"] == lab.generation

    differs = cluster.envmgr(["diff", f"/home/alice/door-{number}.out"], user="alice")
    assert f"\n{ENTRY}: changed\n  + shared " in differs.stdout, differs.stdout + differs.stderr
    found = cluster.envmgr(["find", "shared", "--format", "json"]).data
    assert ENTRY in json.dumps(found)

    lab.envmgr("rollback", str(first))
    assert {name: published(lab, name) for name in before} == before
