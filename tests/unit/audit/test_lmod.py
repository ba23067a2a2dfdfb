"""Lmod, its rc files, its cache and the users' own files: judged by hand-made answers, and found on a real cluster."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from envmgr.audit.checks import get_check
from envmgr.audit.model import Evidence
from envmgr.audit.shell.shared_shell import shared
from envmgr.modules.lmod import find_lmod
from envmgr.probe.model import Fleet, Group, ShellAccount, ShellContext
from tests.helpers.evidence import audit_plan, found, judgement, line
from tests.helpers.lmod_evidence import LOGIN, NAMES, RECORD, published, site

# -- judged by hand-made answers ----------------------------------------------------------------------------------------

RC, SPIDER = "/sw/generations/0007/lmodrc.lua", "/sw/generations/0007/spider"
FILES = {"lmodrc.lua": "a" * 64, "spider/spiderT.lua": "b" * 64, "spider/timestamp": "e" * 64}
HEALTHY = {
    "gate": "ok",
    "current": "generations/0007",
    "lmod.version": "8.6.19",
    "lmod.lua": "Lua 5.3",
    "lmod.settings": "pin_v=no\nsitePkg=standard\nsysName=<empty>",
    "lmod.variables": "LMOD_SYSTEM_DEFAULT_MODULES=StdEnv",
    "rc_files.lmod": "8.6.19",
    "rc_files.read": f"{'1' * 64} init/lmodrc.lua\n{'a' * 64} {RC}",
    "rc_files.variable": RC,
    "rc_files.ours": "yes",
    "cache.files": f"{'b' * 64} spiderT.lua\n{'e' * 64} timestamp",
    "cache.ignored": "no",
    "cache.loads": "yes",
    "cache.folders": SPIDER,
    "cache.ours": "yes",
    "cache.named": "yes",
}


def told(
    check: str, answers: Mapping[str, Mapping[str, str | None]], *, lmod: str = "8.6.19", **more: Any
) -> list[str]:
    """The findings of a check, a line each; an answer is what differs from a healthy one, None where a fact is not told."""
    groups = []
    for node, other in answers.items():
        facts = {k: v for k, v in {**HEALTHY, **other}.items() if v is not None}
        same = next((g for g in groups if g.facts == facts), None)
        if same is None:
            groups.append(Group(facts, (node,)))
        else:
            groups[groups.index(same)] = Group(facts, (*same.nodes, node))
    where = site("/sw")
    plan = audit_plan(where, 7)
    pairs: tuple[tuple[ShellContext, ShellAccount, str], ...] = ((LOGIN, "root", "ssh"), (LOGIN, "user", "ssh"))
    given = Evidence(
        where, plan, tuple(answers), published(7, FILES, lmod), {"ssh": Fleet(tuple(groups), {}, {}, ())}, pairs
    )
    return [line(f) for f in found(get_check(check), replace(given, **more))]


@pytest.mark.parametrize("check", NAMES)
def test_healthy_nodes_have_no_findings(check: str) -> None:
    assert told(check, {"c1": {}, "c2": {}, "c3": {}}) == []


@pytest.mark.parametrize("check", NAMES)
def test_nodes_explained_are_not_judged_here(check: str) -> None:
    silent = {key: None for key in HEALTHY if key.startswith(("lmod.", "rc_files.", "cache.ignored", "cache.loads"))}
    silent |= dict.fromkeys(("cache.ours", "cache.named", "cache.folders"))
    assert told(check, {"c1": {}, "c2": {}, "c3": silent}) == []


@pytest.mark.parametrize("check", NAMES)
def test_without_a_published_generation_healthy_nodes_have_no_findings(check: str) -> None:
    assert told(check, {"c1": {}, "c2": {}}, published=None) == []


def test_lmod_of_another_version_and_its_settings_are_not_compared() -> None:
    assert told("lmod", {"c1": {}, "c2": {}, "c3": {"lmod.version": "8.7.19", "lmod.settings": "pin_v=yes"}}) == [
        "warning c3: version: Lmod 8.7.19 (Lua 5.3) | 8.6.19, as on c[1-2] | install the same Lmod on every node"
    ]


def test_lmod_that_made_the_cache_is_on_no_node() -> None:
    assert told("lmod", {"c1": {}, "c2": {}}, lmod="8.7.60") == [
        (
            "warning c[1-2]: version: Lmod 8.6.19 (Lua 5.3) | 8.7.60, which made the published generation's cache "
            "| install the same Lmod on every node; if this is the new one, publish once more on a host that has it"
        )
    ]


def test_lmod_with_another_lua() -> None:
    assert told("lmod", {"c1": {}, "c2": {}, "c3": {"lmod.lua": "Lua 5.1"}}) == [
        "warning c3: Lua: Lua 5.1 | Lua 5.3, as on c[1-2] | install the same Lua and Lmod on every node"
    ]


def test_lmod_settings_are_named_by_their_variables() -> None:
    c2 = {"lmod.settings": "pin_v=yes\nsitePkg=standard\nsysName=big\nnew_one=1", "lmod.variables": ""}
    hint = "which start-up file sets it? compare /etc/profile.d, /etc/environment and /etc/lmod"
    assert told("lmod", {"c1": {}, "c2": c2, "c3": {}}) == [
        f"warning c2: settings: LMOD_PIN_VERSIONS is yes | no, as on c[1,3] | {hint}",
        f"warning c2: settings: LMOD_SYSTEM_DEFAULT_MODULES is not set | StdEnv, as on c[1,3] | {hint}",
        f"warning c2: settings: LMOD_SYSTEM_NAME is big | not set, as on c[1,3] | {hint}",
        f"warning c2: settings: new_one is 1 | not set, as on c[1,3] | {hint}",
    ]


def test_lmod_site_package_is_compared_by_its_content() -> None:
    path = "/opt/site/SitePackage.lua"
    one, two = {"lmod.files": f"sitePkg {'5' * 64} {path}"}, {"lmod.files": f"sitePkg {'6' * 64} {path}"}
    hint = "as on the others: copy theirs, or remove it there; LMOD_PACKAGE_PATH may name its folder"
    assert told("lmod", {"c1": {}, "c2": one, "c3": {}}) == [
        f"error c2: SitePackage.lua: another one (555555555555): {path} | the standard one, as on c[1,3] | {hint}"
    ]
    assert told("lmod", {"c1": one, "c2": one, "c3": two, "c4": {}, "c5": one}) == [
        f"error c4: SitePackage.lua: the standard one | sha256 555555555555, as on c[1-2,5] | {hint}",
        f"error c3: SitePackage.lua: another one (666666666666): {path} | sha256 555555555555, as on c[1-2,5] | {hint}",
    ]
    elsewhere = {"lmod.files": f"sitePkg {'5' * 64} /opt/other/SitePackage.lua"}
    assert told("lmod", {"c1": one, "c2": elsewhere}) == []


def test_lmod_that_cannot_start() -> None:
    broken = {key: None for key in HEALTHY if key.startswith("lmod.")}
    assert told("lmod", {"c1": {}, "c2": {**broken, "lmod.broken": "/etc/lmodrc.lua:1: unexpected symbol"}}) == [
        (
            "error c2: Lmod: does not tell its configuration: /etc/lmodrc.lua:1: unexpected symbol | an Lmod that works "
            "| on the node: `module --config`"
        )
    ]


def test_rc_files_that_one_node_reads_lacks_or_has_with_another_content() -> None:
    read, extra = HEALTHY["rc_files.read"], "/etc/lmod/lmodrc.lua"
    hint = "as on the others: copy theirs, or remove it there"
    plus = {"rc_files.read": f"{read}\n{'2' * 64} {extra}"}
    other = {"rc_files.read": f"{read}\n{'3' * 64} {extra}"}
    assert told("rc-files", {"c1": {}, "c2": plus, "c3": {}}) == [
        f"warning c2: {extra}: Lmod reads it on this node only | not there, as on c[1,3] | {hint}"
    ]
    assert told("rc-files", {"c1": plus, "c2": plus, "c3": plus, "c4": {}, "c5": other}) == [
        f"warning c4: {extra}: not read | read, as on c[1-3] | {hint}",
        f"warning c5: {extra}: other content (333333333333) | content 222222222222, as on c[1-3] | {hint}",
    ]


def test_rc_files_of_lmod_itself_are_compared_within_a_version() -> None:
    other = {"rc_files.read": HEALTHY["rc_files.read"].replace("1" * 64, "9" * 64)}
    assert told("rc-files", {"c1": {}, "c2": {}, "c3": {**other, "rc_files.lmod": "8.7.19"}}) == []
    assert told("rc-files", {"c1": {}, "c2": {}, "c3": other}) == [
        (
            "warning c3: init/lmodrc.lua: other content (999999999999) | content 111111111111, as on c[1-2] "
            "| install Lmod 8.6.19 once more: the file is Lmod's own"
        )
    ]


def test_rc_files_without_the_generations_own() -> None:
    unread = {"rc_files.read": f"{'1' * 64} init/lmodrc.lua", "rc_files.variable": ""}
    assert told("rc-files", {"c1": {}, "c2": unread}) == [
        f"warning c2: {RC}: Lmod does not read it: LMOD_RC is not set | LMOD_RC names it | `envmgr node-setup --apply --nodes c2`"
    ]
    assert told("rc-files", {"c1": {}, "c2": {**unread, "rc_files.ours": None}}) == []  # no generation in MODULEPATH
    copy = {"rc_files.read": HEALTHY["rc_files.read"].replace("a" * 64, "9" * 64)}
    assert told("rc-files", {"c1": {}, "c2": copy}) == [
        (
            f"error c2: {RC}: other content (999999999999) | sha256 aaaaaaaaaaaa, as published "
            "| the node has a copy of the prefix, not the prefix: mount it"
        )
    ]


def test_rc_files_modulerc_on_one_node() -> None:
    assert told("rc-files", {"c1": {}, "c2": {"rc_files.modulerc": f"{'4' * 64} /opt/rc.lua"}, "c3": {}}) == [
        (
            "warning c2: /opt/rc.lua: it sets defaults, or hides modules, for alice's login shell on this node only | not there, as on c[1,3] "
            "| as on the others: copy theirs, or remove it there; LMOD_MODULERCFILE may name it"
        )
    ]


def test_cache_that_is_not_the_published_one() -> None:
    hint = "is it a copy of the prefix? else `envmgr publish` makes a new generation, with a cache of its own"
    c2 = {"cache.files": f"{'d' * 64} spiderT.lua\n{'f' * 64} spiderT.luac_5.3"}
    found = [
        f"error c2: spider/spiderT.lua of generation 7: other content (dddddddddddd) | sha256 bbbbbbbbbbbb, as published | {hint}",
        f"error c2: spider/spiderT.luac_5.3 of generation 7: was not published | only what was published | {hint}",
        f"error c2: spider/timestamp of generation 7: is not there | sha256 eeeeeeeeeeee, as published | {hint}",
    ]
    assert told("cache", {"c1": {}, "c2": c2}) == found
    assert told("cache", {"c1": {}, "c2": {**c2, "generation.record": RECORD}}) == found
    # Told by the check of generations alone:
    assert told("cache", {"c1": {}, "c2": {**c2, "generation.record": "0" * 64}}) == []
    assert told("cache", {"c1": {}, "c2": {**c2, "current": "generations/0006"}}) == []


def test_cache_older_than_its_time_stamp() -> None:
    assert told("cache", {"c1": {}, "c2": {"cache.outdated": "spiderT.lua\nspiderT.luac_5.3"}}) == [
        (
            "warning c2: spider of generation 7: older than its time stamp, so Lmod ignores it: spiderT.lua, spiderT.luac_5.3 "
            "| times as published | a copy that did not keep times? `rsync -a` and `cp -p` keep them"
        )
    ]


def test_cache_that_lmod_does_not_use() -> None:
    who, hint = "alice's login shell", "which start-up file sets it? compare /etc/profile.d and /etc/environment"
    answers = {
        "c1": {"cache.ignored": "yes"},
        "c2": {"cache.loads": "no"},
        "c3": {"cache.folders": ""},
        "c4": {"cache.ignored": "false"},
    }
    assert told("cache", answers) == [
        f"warning c1: {who}: LMOD_IGNORE_CACHE is yes | no | {hint}",
        f"warning c2: {who}: LMOD_CACHED_LOADS is no | yes | {hint}",
        (
            f"warning c3: {who}: Lmod does not use {SPIDER} | the published generation's cache "
            "| on the node: `module --config` lists the rc files and the caches"
        ),
    ]
    # Where the generation's rc file is not read, that is told by the check rc-files:
    assert told("cache", {"c1": {}, "c2": {"cache.folders": "", "cache.named": None}}) == []


def test_cache_besides_ours_on_one_node() -> None:
    hint = "`module --config` lists the rc files: one of them names it in scDescriptT"
    also = {"cache.folders": f"{SPIDER}\n/opt/old"}
    assert told("cache", {"c1": {}, "c2": also, "c3": {}}) == [
        f"warning c2: alice's login shell: Lmod also uses the cache /opt/old | not that one, as on c[1,3] | {hint}"
    ]
    assert told("cache", {"c1": also, "c2": also, "c3": {}}) == [
        f"warning c3: alice's login shell: Lmod does not use the cache /opt/old | that one too, as on c[1-2] | {hint}"
    ]
    assert told("cache", {"c1": also, "c2": also}) == []


def test_user_files_of_every_kind_are_told_once_a_file() -> None:
    lines = "conda ~/.bashrc\nconda /etc/profile.d/conda.sh\nmamba ~/.zshrc\nown ~/.modulerc\ncache ~/.lmod.d/.cache/spiderT.lua|/opt/mods"
    both = {"ctx.bash-login.user.user_files": lines, "ctx.bash-login.root.user_files": "conda /etc/profile.d/conda.sh"}
    block = "block: in new shells conda's python comes before that of modules | no such block"
    assert told(
        "user-files", {"c1": {}, "c2": both, "c3": {"ctx.bash-login.root.user_files": "conda-off ~/.bashrc"}}
    ) == [
        f"warning c2: /etc/profile.d/conda.sh: a `conda init` {block} | `conda init --reverse --system` as root",
        (
            "note c3: ~root/.bashrc: a `conda init` block; .condarc says not to activate base | no such block "
            "| `conda init --reverse` as root"
        ),
        f"warning c2: ~alice/.bashrc: a `conda init` {block} | `conda init --reverse` as alice",
        f"warning c2: ~alice/.zshrc: a `mamba init` {block} | `mamba shell deinit` as alice",
        "note c2: ~alice/.modulerc: changes what Lmod does for alice | no such file | is it intended? if not, move it away",
        (
            "warning c2: ~alice/.lmod.d/.cache/spiderT.lua: Lmod uses this cache of alice's own, and it is older than the modules "
            "in /opt/mods | no cache, or a newer one | `runuser -u alice -- rm -r ~alice/.lmod.d/.cache`; a system cache of these modules would keep "
            "Lmod from writing it"
        ),
    ]


def test_lmods_own_account_is_flat_and_sorted_whatever_order_its_json_has(tmp_path: Path) -> None:
    """A program that stands for Lmod: run by the same Lua, with what Lmod may say around its JSON."""
    lmod = find_lmod(None, {}).commands / "lmod"
    said = (
        r"""Lmod Warning: {odd}\n{"rcfileA":["\/a","\/b \"c\\nd\""],"propT":{"x":{"y":1}},"cache":[["\/s","\/t"]],"none":{},"no":[],"""
        r""""configT":{"uname":"Linux\n","tm_short":2,"pin_v":"no","full":false,"list":"{\"^%.\", \"a\"}","e":"\u00e9"}}"""
    )
    (tmp_path / "lmod").write_text(f"{lmod.read_text().splitlines()[0]}\nio.stderr:write([==[{said}]==])\n")
    (tmp_path / "lmod").chmod(0o755)
    script = f"LMOD_CMD={tmp_path}/lmod\n{shared('lmod_config')}\nlmod_config && printf '%s\\n' \"$lmod_config\"; lmod_value configT.pin_v"
    done = subprocess.run(["/bin/sh"], input=script, capture_output=True, text=True, check=False)
    assert done.stderr == ""
    assert done.stdout.splitlines() == [
        "cache.1.1=/s",
        "cache.1.2=/t",
        r"configT.e=\u00e9",
        "configT.full=false",
        'configT.list={"^%.", "a"}',
        "configT.pin_v=no",
        "configT.tm_short=2",
        "configT.uname=Linux",
        "rcfileA.1=/a",
        r'rcfileA.2=/b "c\nd"',
        "no",
    ]


def test_lmod_that_tells_nothing_of_itself_is_left_alone(tmp_path: Path) -> None:
    script = f'LMOD_CMD={tmp_path}/gone\n{shared("lmod_config")}\nlmod_config || echo "$lmod_said"'
    done = subprocess.run(["/bin/sh"], input=script, capture_output=True, text=True, check=False)
    assert done.stdout.endswith("gone: not found\n")


def without(**facts: str) -> dict[str, str | None]:
    return {"lmod.version": None, "lmod.settings": None, **facts}


def test_node_explained_is_told_once() -> None:
    answers = {"c1": {}, "c2": without(**{"lmod.gone": "/usr/share/lmod/lmod"}), "c3": {}}
    (line_,) = told("lmod", answers)
    assert line_.startswith("error c2: Lmod: is not installed: there is no /usr/share/lmod/lmod")
    answers["c2"] = without(**{"lmod.fails": "lua5.3: module 'posix' not found"}) | {"lmod.broken": "the same"}
    (line_,) = told("lmod", answers)
    assert line_.startswith("error c2: Lmod: does not run: lua5.3: module 'posix' not found")


def test_lmod_that_lies_elsewhere_is_well() -> None:
    assert told("lmod", {"c1": {}, "c2": {"lmod.gone": "/usr/share/lmod/lmod"}, "c3": {}}) == []


def test_what_follows_from_a_missing_lmod_is_not_told_besides() -> None:
    facts = {**HEALTHY, "ctx.bash-login.user.modulepath": "", "ctx.bash-login.user.module": "no"}
    gone = {k: v for k, v in facts.items() if not k.startswith("lmod.")} | {"lmod.gone": "/usr/share/lmod/lmod"}
    where = site("/sw")
    given = Evidence(
        site=where,
        plan=audit_plan(where, 7),
        nodes=("c1", "c2"),
        published=published(7, FILES),
        asked=((LOGIN, "user", "ssh"),),
        ways={"ssh": Fleet((Group(facts, ("c1",)), Group(gone, ("c2",))), {}, {}, ())},
    )
    found = judgement(given, {name: get_check(name) for name in ("lmod", "contexts")}).findings
    assert {f.nodes for f in found if f.check == "contexts"} == {"c1"}  # of c2 that alone is told
    alone = judgement(given, {"contexts": get_check("contexts")}).findings
    assert "c[1-2]" in {f.nodes for f in alone}
