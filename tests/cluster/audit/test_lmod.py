"""What real nodes tell of Lmod, its settings and its caches."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from envmgr.audit.checks import get_check
from envmgr.audit.model import Evidence
from envmgr.audit.plan import AuditPlan, PublishedGeneration
from envmgr.modules.lmod import Lmod
from envmgr.nodes.envelope import Reply
from envmgr.probe.model import Fleet, Group, ShellAccount, ShellContext
from envmgr.probe.shell import read_answer
from tests.helpers.cluster import Cluster
from tests.helpers.cluster.faults import other_lmod, shadowed_file
from tests.helpers.evidence import audit_plan, found, line, probe_script
from tests.helpers.lmod_evidence import LOGIN, NAMES, published, site

NUMBER = 4242
PROFILE = "/etc/profile.d/zzz-audit-lmod.sh"


@dataclass(frozen=True)
class Scene:
    """A generation made by hand with a real cache, and shells that are pinned to it."""

    cluster: Cluster
    script: str
    expected: PublishedGeneration
    plan: AuditPlan

    @property
    def folder(self) -> str:
        return self.plan.generation

    def ask(self) -> Evidence:
        """What the nodes say, all at once, folded as an audit does."""
        nodes = self.cluster.compute
        with ThreadPoolExecutor(len(nodes)) as pool:
            answers = list(
                pool.map(lambda node: self.cluster.exec(node, ["/bin/sh", "-s"], stdin=self.script, check=True), nodes)
            )
        groups: dict[str, Group] = {}
        for node, answer in zip(nodes, answers, strict=True):
            assert answer.stderr == ""
            facts, _, text = read_answer(answer.stdout)
            groups[text] = Group(facts, (*(groups[text].nodes if text in groups else ()), node))
        replies = {node: Reply(node, "answered", "", "", 0.0, 0.0) for node in nodes}
        pairs: tuple[tuple[ShellContext, ShellAccount, str], ...] = ((LOGIN, "root", "ssh"), (LOGIN, "user", "ssh"))
        fleet = Fleet(tuple(groups.values()), {}, replies, ())
        return Evidence(self.plan.site, self.plan, nodes, self.expected, {"ssh": fleet}, pairs)

    def told(self, given: Evidence | None = None) -> list[str]:
        given = given or self.ask()
        return [f"{name} {line(f).rsplit(' | ', 1)[0]}" for name in NAMES for f in found(get_check(name), given)]


@pytest.fixture(scope="module")
def scene(cluster: Cluster) -> Iterator[Scene]:
    plan = audit_plan(site(str(cluster.prefix)), NUMBER, contexts=(LOGIN,), accounts=("root", "user"))
    folder, link = plan.generation, cluster.host_prefix / "current"
    before = link.readlink() if link.is_symlink() else None
    for path in ("modules/hello/1.0.lua", "modules/hello/2.0.lua"):
        cluster.write("login", f"{folder}/{path}", 'setenv("HELLO", "1")\n')
    cluster.write("login", f"{folder}/lmodrc.lua", Lmod.lmodrc_text(Path(folder, "spider")))
    cluster.write("login", f"{folder}/generation.json", "{}")
    update = (
        f"$LMOD_DIR/update_lmod_system_cache_files -d {folder}/spider -t {folder}/spider/timestamp {folder}/modules"
    )
    cluster.exec(
        "login", ["bash", "-lc", f"{update}; ln -sfnT generations/{NUMBER} {cluster.prefix}/current"], check=True
    )
    profile = f"export MODULEPATH={folder}/modules:$MODULEPATH LMOD_RC={folder}/lmodrc.lua LMOD_CACHED_LOADS=yes\n"
    for node in cluster.compute:
        cluster.write(node, PROFILE, profile)
    there = cluster.host_prefix / f"generations/{NUMBER}"
    files = {
        str(path.relative_to(there)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in [there / "lmodrc.lua", *there.glob("spider/*")]
    }
    script = probe_script([get_check(name) for name in NAMES], plan)
    yield Scene(cluster, script, published(NUMBER, files), plan)
    for node in cluster.compute:
        cluster.exec(node, ["rm", PROFILE], check=True)
    link.unlink()
    if before is not None:
        link.symlink_to(before)
    cluster.exec("login", ["rm", "-rf", folder], check=True)


@contextmanager
def file_on(scene: Scene, node: str, path: str, text: str, *, user: str = "root") -> Iterator[None]:
    """A file that was not there, and its folder if that was not there."""
    folder = str(Path(path).parent)
    made = scene.cluster.sh(node, f"[ -d {folder} ] || {{ mkdir {folder}; echo {folder}; }}", check=True).stdout.strip()
    scene.cluster.sh(node, f"cat >{path}", user=user, stdin=text, check=True)
    try:
        yield
    finally:
        scene.cluster.sh(node, f"rm {path}; [ -z '{made}' ] || rmdir {folder}", check=True)


@contextmanager
def profile_on(scene: Scene, node: str, text: str) -> Iterator[None]:
    with file_on(scene, node, "/etc/profile.d/zzzz-fault.sh", text):
        yield


def test_healthy_cluster_answers_the_same_every_time_and_has_no_findings(scene: Scene) -> None:
    answers = [scene.ask() for _ in range(2)]
    (first,) = answers[0].fleet.groups
    assert {"lmod.version", "lmod.settings", "rc_files.read", "cache.files", "cache.folders"} <= first.facts.keys()
    assert first.facts["cache.loads"] == "yes"
    assert first.facts["cache.named"] == "yes"
    assert [answer.fleet.groups for answer in answers] == [(first,)] * 2
    assert scene.told(answers[0]) == []


ALIKE = "the same everywhere; `--reference NODE` says which node is right"  # of two nodes nobody knows


def test_other_lmod_and_other_settings_and_another_site_package(scene: Scene) -> None:
    package = "/usr/share/lmod/lmod/libexec/SitePackage.lua"
    text = scene.cluster.sh("c2", f"cat {package}", check=True).stdout + "-- ours\n"
    sha256 = hashlib.sha256(text.encode()).hexdigest()
    with (
        other_lmod(scene.cluster, "c3"),
        profile_on(scene, "c1", "export LMOD_PIN_VERSIONS=yes LMOD_SYSTEM_DEFAULT_MODULES=hello\n"),
    ):
        assert scene.told() == [
            "lmod warning c3: version: Lmod 8.7.19 (Lua 5.3) | 8.6.19, as on c[1-2]",
            f"lmod warning : settings: LMOD_PIN_VERSIONS is no on c2; LMOD_PIN_VERSIONS is yes on c1 | {ALIKE}",
            (
                "lmod warning : settings: LMOD_SYSTEM_DEFAULT_MODULES is hello on c1; "
                f"LMOD_SYSTEM_DEFAULT_MODULES is not set on c2 | {ALIKE}"
            ),
        ]
    with (
        shadowed_file(scene.cluster, "c2", package, text),
        profile_on(scene, "c1", "export LMOD_PIN_VERSIONS=yes LMOD_SYSTEM_DEFAULT_MODULES=hello\n"),
    ):
        assert scene.told() == [
            "lmod warning c1: settings: LMOD_PIN_VERSIONS is yes | no, as on c[2-3]",
            "lmod warning c1: settings: LMOD_SYSTEM_DEFAULT_MODULES is hello | not set, as on c[2-3]",
            f"lmod error c2: SitePackage.lua: another one ({sha256[:12]}): {package} | the standard one, as on c[1,3]",
        ]
    assert scene.told() == []


def test_rc_file_that_names_an_old_cache_and_modulerc_files(scene: Scene) -> None:
    rc = 'scDescriptT = { { ["dir"] = "/opt/old/spider", ["timestamp"] = "/opt/old/stamp" } }\n'
    with (
        file_on(scene, "c2", "/etc/lmod/lmodrc.lua", rc),
        file_on(scene, "c1", "/opt/rc/modulerc.lua", 'hide_version("hello/2.0")\n'),
        profile_on(scene, "c1", "export LMOD_MODULERCFILE=/opt/rc/modulerc.lua\n"),
        file_on(scene, "c3", "/etc/lmod/modules/.modulerc.lua", 'hide_version("old/1.0")\n'),
    ):
        sets = "it sets defaults, or hides modules, for alice's login shell on this node only"
        assert scene.told() == [
            "rc-files warning c2: /etc/lmod/lmodrc.lua: Lmod reads it on this node only | not there, as on c[1,3]",
            f"rc-files warning c3: /etc/lmod/modules/.modulerc.lua: {sets} | not there, as on c[1-2]",
            f"rc-files warning c1: /opt/rc/modulerc.lua: {sets} | not there, as on c[2-3]",
            "cache warning c2: alice's login shell: Lmod also uses the cache /opt/old/spider | not that one, as on c[1,3]",
            "cache warning c2: /opt/old/spider: Lmod should use it, and it is not there | a cache made after each change, which Lmod uses",
        ]
    assert scene.told() == []


def test_rc_file_that_is_not_lua_stops_lmod_and_one_that_is_not_named(scene: Scene) -> None:
    with file_on(scene, "c2", "/etc/lmod/lmodrc.lua", "scDescriptT = {\n"), profile_on(scene, "c1", "unset LMOD_RC\n"):
        broken, unread = scene.told()
    assert broken.startswith("lmod error c2: Lmod: does not tell its configuration: ")
    assert "/etc/lmod/lmodrc.lua:" in broken
    assert unread == (
        f"rc-files warning c1: {scene.folder}/lmodrc.lua: Lmod does not read it: LMOD_RC is not set | LMOD_RC names it"
    )
    assert scene.told() == []


def test_cache_of_other_content_and_caches_not_used(scene: Scene) -> None:
    text = "spiderT = {}\n"
    sha256 = hashlib.sha256(text.encode()).hexdigest()
    with (
        shadowed_file(scene.cluster, "c2", f"{scene.folder}/spider/spiderT.lua", text),
        profile_on(scene, "c1", "export LMOD_IGNORE_CACHE=yes\n"),
        profile_on(scene, "c3", "export LMOD_CACHED_LOADS=no\n"),
    ):
        where = f"spider/spiderT.lua of generation {NUMBER}"
        published = scene.expected.record.files["spider/spiderT.lua"]
        assert scene.told() == [
            f"cache error c2: {where}: other content ({sha256[:12]}) | sha256 {published[:12]}, as published",
            "cache warning c1: alice's login shell: LMOD_IGNORE_CACHE is yes | no",
            "cache warning c3: alice's login shell: LMOD_CACHED_LOADS is no | yes",
        ]
    assert scene.told() == []


CONDA = "# >>> conda initialize >>>\n:\n# <<< conda initialize <<<\n"


def test_conda_init_blocks_of_users_and_of_the_system(scene: Scene) -> None:
    block = "a `conda init` block: in new shells conda's python comes before that of modules | no such block"
    with (
        file_on(scene, "c1", "/home/alice/.zshrc", CONDA, user="alice"),
        file_on(scene, "c2", "/etc/profile.d/conda.sh", CONDA),
        file_on(scene, "c2", "/home/alice/.modulerc", "#%Module\n", user="alice"),
        file_on(scene, "c3", "/root/.tcshrc", CONDA),
        file_on(scene, "c3", "/root/.condarc", "auto_activate_base: false\n"),
    ):
        assert scene.told() == [
            f"user-files warning c2: /etc/profile.d/conda.sh: {block}",
            "user-files note c3: ~root/.tcshrc: a `conda init` block; .condarc says not to activate base | no such block",
            f"user-files warning c[1-3]: ~alice/.zshrc: {block}",  # homes are shared
            "user-files note c[1-3]: ~alice/.modulerc: changes what Lmod does for alice | no such file",
        ]
    assert scene.told() == []


def test_stale_cache_of_a_user_that_hides_a_new_module(scene: Scene) -> None:
    """Lmod's own, written because reading the modules took long. The home is shared, the folder of modules is not."""
    write = "LMOD_SHORT_TIME=0 $LMOD_CMD bash spider >/dev/null 2>&1; ls ~/.lmod.d/.cache/spiderT*.lua"
    avail = "$LMOD_CMD bash --no_redirect -t avail 2>&1 >/dev/null | grep -A9 ^/opt/mods"
    with (
        file_on(scene, "c2", "/opt/mods/old.lua", 'setenv("OLD", "1")\n'),
        profile_on(scene, "c2", "export MODULEPATH=$MODULEPATH:/opt/mods\n"),
    ):
        try:
            cache = scene.cluster.exec("c2", ["bash", "-lc", write], user="alice", check=True).stdout.strip()
            fresh = scene.told()
            with file_on(scene, "c2", "/opt/mods/new.lua", 'setenv("NEW", "1")\n'):
                # Newer than the cache, which stays newer than Lmod's own modules: they may have been installed just now.
                scene.cluster.exec("c2", ["touch", "-d", "1 hour", "/opt/mods", "/opt/mods/new.lua"], check=True)
                seen = scene.cluster.exec("c2", ["bash", "-lc", avail], user="alice", check=True).stdout.split()
                found = scene.told()
                scene.cluster.exec("c2", ["touch", "-d", "2 days ago", cache], check=True)  # Lmod does not believe it
                too_old = scene.told()
        finally:
            scene.cluster.exec("c2", ["rm", "-rf", "/home/alice/.lmod.d"], check=True)
    assert fresh == []
    assert seen == ["/opt/mods:", "old"]
    assert found == [
        (
            f"user-files warning c2: {cache.replace('/home/alice', '~alice')}: Lmod uses this cache of alice's own, and it is "
            f"older than the modules in /opt/mods | no cache, or a newer one"
        )
    ]
    assert too_old == []
