"""The verb: what it shows, what it writes for other tools, and how it tells what nodes answered."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

import envmgr.nodes.fanout
from envmgr.catalog.site import load_site
from envmgr.modules.nodesetup import node_files
from envmgr.modules.nodesetup_tree import plain_files
from envmgr.nodes.envelope import Reply
from envmgr.report import SilentReporter
from envmgr.steps import Context
from envmgr.steps.node_setup import FileOutcome, NodeFailure
from envmgr.system.run import Runner
from envmgr.verbs.node_setup import node_setup
from tests.helpers.sandbox import Sandbox

SLURM = (
    "Slurm: when every node has the files, put `TaskProlog=/etc/envmgr/node/task-prolog` into slurm.conf, then "
    "`scontrol reconfigure`\n"
)


def test_shows_every_file_without_a_published_generation(sandbox: Sandbox) -> None:
    done = sandbox.ok("node-setup")
    found = node_files(load_site(sandbox.root / "site.yaml", {}))
    files = (*found.files, *(service.unit for service in found.services))
    assert [
        file.path for file in files if f"# {file.path}  {file.mode}: {file.why}\n{file.text}" not in done.stdout
    ] == []
    assert done.stdout.endswith(SLURM)
    assert done.stderr == ""


def test_settings_name_the_prefix_and_the_lmod_of_the_site(sandbox: Sandbox) -> None:
    sandbox.settings = {"lmod": {"dir": "/opt/it's lmod/libexec"}}
    sandbox.write_site()
    text = node_files(load_site(sandbox.root / "site.yaml", {})).files[0].text
    done = subprocess.run(
        ["sh", "-c", f'{text}\necho "$prefix|$lmod|$lmod_usual"'], capture_output=True, text=True, check=True
    )
    assert done.stdout == f"{sandbox.prefix}|/opt/it's lmod/libexec:/opt/it's lmod|\n"


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["--apply"], "error[node-setup-where]: --apply does not say on which nodes\n"),
        (["--apply", "--here", "--nodes", "c1"], "error[node-setup-where]: both --nodes and --here are given\n"),
        (["--output", "x", "--apply"], "error[node-setup-where]: --output writes to a folder, and changes no node\n"),
    ],
)
def test_says_what_is_missing(sandbox: Sandbox, argv: list[str], message: str) -> None:
    done = sandbox.run("node-setup", *argv)
    assert done.code == 2
    assert done.stderr.startswith(message)


def test_plain_files_are_a_tree_a_script_and_tasks(sandbox: Sandbox) -> None:
    out = sandbox.root / "out"
    assert sandbox.ok("node-setup", "--output", str(out), "--dry-run").stdout.startswith("would write ")
    assert not out.exists()
    sandbox.ok("node-setup", "--output", str(out))
    first = {str(path.relative_to(out)): path.read_bytes() for path in out.rglob("*") if path.is_file()}
    sandbox.ok("node-setup", "--output", str(out))
    assert first == {str(path.relative_to(out)): path.read_bytes() for path in out.rglob("*") if path.is_file()}
    files = node_files(load_site(sandbox.root / "site.yaml", {}))
    for file in files.files:
        assert (out / f"files{file.path}").read_text() == file.text
        assert (out / f"files{file.path}").stat().st_mode & 0o777 == int(file.mode, 8)
    done = subprocess.run([out / "node-setup.sh", "check"], capture_output=True, text=True, check=True)
    assert {line.split("\t")[1] for line in done.stdout.splitlines()[:-1]} <= {*files.paths}
    assert subprocess.run([out / "node-setup.sh", "jump"], capture_output=True, check=False).returncode == 2
    tasks = yaml.safe_load((out / "node-setup.yml").read_text())
    copied = [task["ansible.builtin.copy"] for task in tasks if "ansible.builtin.copy" in task]
    assert [(c["src"], c["dest"], c["mode"]) for c in copied] == [
        (f"files{f.path}", f.path, f"0{f.mode}") for f in (*files.files, *(service.unit for service in files.services))
    ]
    made = [task["ansible.builtin.file"] for task in tasks if "ansible.builtin.file" in task]
    links = {link["path"]: link["src"] for link in made if link["state"] == "link"}
    assert links.pop(files.kernels.path) == files.kernels.target
    assert links == {service.link: f"../{Path(service.unit.path).name}" for service in files.services}
    blocks = [task["ansible.builtin.blockinfile"] for task in tasks if "ansible.builtin.blockinfile" in task]
    assert {b["path"] for b in blocks} == {path for block in files.blocks for path in block.paths}


def test_tree_of_a_site_that_refuses_what_is_not_signed_makes_no_link_for_jupyter(sandbox: Sandbox) -> None:
    site = sandbox.root / "site.yaml"
    refuses = "signing: {key: key, allowed_signers: allowed}\npolicies: {unsigned: refuse}\n"
    site.write_text(f"schema: 1\nprefix: {sandbox.root}/prefix\n{refuses}")
    files = node_files(load_site(site, {}), "")
    tree = plain_files(files, load_site(site, {}))
    (task,) = (
        task
        for task in yaml.safe_load(tree["node-setup.yml"][0])
        if task.get("ansible.builtin.file", {}).get("path") == files.kernels.path
    )
    assert task["ansible.builtin.file"]["state"] == "absent"
    assert task["when"] == f"envmgr_there.stat.lnk_target | default('') == \"{files.kernels.target}\""
    assert files.kernels.path not in tree["README"][0]


def test_here_shows_what_would_change(sandbox: Sandbox) -> None:
    data = sandbox.ok("node-setup", "--here", "--format", "json").data
    assert (data["schema"], data["action"], data["dry_run"], data["nodes"]) == ("envmgr.node-setup/1", "apply", True, 1)
    assert {(o["status"], o["nodes"]) for o in data["outcomes"]} <= {
        ("would-write", "this machine"),
        ("skipped", "this machine"),
        ("same", "this machine"),
    }
    assert not Path("/etc/envmgr/node").exists()


# -- faults of nodes, by answers that are made up ------------------------------------------------------------------------


def ask(monkeypatch: pytest.MonkeyPatch, sandbox: Sandbox, replies: dict[str, tuple[str, str, str]]) -> Any:
    """`node-setup --apply` on nodes that give these replies: node -> (status, text, reason)."""

    def ask_nodes(nodes: Sequence[str], script: str, *, on_reply: Callable[[Reply], None], **rest: Any) -> None:
        for node in nodes:
            status, text, reason = replies[node]
            on_reply(Reply(node, status, text, reason, time.time(), time.time()))  # type: ignore[arg-type]

    monkeypatch.setattr(envmgr.nodes.fanout, "ask_nodes", ask_nodes)
    site = load_site(sandbox.root / "site.yaml", {})
    ctx = Context(site, Runner(), SilentReporter(), dict(os.environ))
    return node_setup(ctx, apply=True, nodes=",".join(replies))


def answer(sandbox: Sandbox, status: str = "written", **special: str) -> str:
    files = node_files(load_site(sandbox.root / "site.yaml", {}))
    paths = [*(f.path for f in files.files), *(b.paths[0] for b in files.blocks)]
    paths += [path for service in files.services for path in (service.unit.path, service.link)]
    paths.append(files.kernels.path)
    lines = [special.get(Path(path).name.replace(".", "_"), f"{status}\t{path}\t") for path in paths]
    return "".join(f"{line}\n" for line in [*lines, "slurm\tabsent\t"])


def test_equal_answers_are_folded_and_others_told_apart(sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    good = ("answered", answer(sandbox), "")
    full = ("answered", answer(sandbox, pin="failed\t/etc/envmgr/node/pin\tNo space left on device"), "")
    result = ask(monkeypatch, sandbox, {"c1": good, "c3": full, "c2": good, "d1": ("unreachable", "", "no route")})
    assert [o for o in result.outcomes if o.path.endswith("/pin")] == [
        FileOutcome("/etc/envmgr/node/pin", "failed", "c3", "No space left on device"),
        FileOutcome("/etc/envmgr/node/pin", "written", "c[1-2]", ""),
    ]
    assert {o.nodes for o in result.outcomes if not o.path.endswith("/pin")} == {"c[1-3]"}
    assert result.failures == (NodeFailure("d1", "unreachable", "no route"),)
    assert (result.nodes, result.exit_code) == (4, 3)


@pytest.mark.parametrize("text", ["", "hello\n", "written\t/etc/passwd\t\n", "slurm\tabsent\t\n"])
def test_answer_that_makes_no_sense_is_a_failure(sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    for said in (text, answer(sandbox) + text, "\n".join(answer(sandbox).splitlines()[1:])):
        if said == answer(sandbox):
            continue
        result = ask(monkeypatch, sandbox, {"c1": ("answered", said, "")})
        assert result.outcomes == ()
        assert result.failures == (NodeFailure("c1", "garbled", f"an answer that makes no sense: {said[:200]!r}"),)
        assert result.exit_code == 3


def test_node_without_root_says_who_it_was_and_what_to_do(sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    result = ask(monkeypatch, sandbox, {"c1": ("answered", "not-root\talice\t\n", "")})
    assert result.failures == (
        NodeFailure("c1", "not-root", "the script ran there as alice, and only root can write to /etc"),
    )
    assert result.to_do == (
        "in site.yaml: `transport: {user: root}`, or a user who may use sudo and `transport: {become: sudo -n}`",
    )


@pytest.mark.parametrize(
    ("state", "value", "advice"),
    [
        ("absent", "", ()),
        ("named", "/etc/slurm/slurm.conf", ()),
        (
            "unset",
            "/etc/slurm/slurm.conf",
            (
                (
                    "Slurm: when every node has the files, put `TaskProlog=/etc/envmgr/node/task-prolog` into "
                    "/etc/slurm/slurm.conf on c1, then `scontrol reconfigure`"
                ),
            ),
        ),
        (
            "other",
            "/site/prolog",
            (
                (
                    "Slurm: TaskProlog on c1 is /site/prolog: let it run /etc/envmgr/node/task-prolog as well, and pass on what "
                    "that prints"
                ),
            ),
        ),
        (
            "unknown",
            "",
            (
                (
                    "Slurm: c1 has no slurm.conf that can be read: see that the site's says "
                    "`TaskProlog=/etc/envmgr/node/task-prolog`"
                ),
            ),
        ),
    ],
)
def test_line_for_slurm_conf_is_told_where_it_is_missing(
    sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch, state: str, value: str, advice: tuple[str, ...]
) -> None:
    text = answer(sandbox).replace("slurm\tabsent\t", f"slurm\t{state}\t{value}")
    assert ask(monkeypatch, sandbox, {"c1": ("answered", text, "")}).to_do == advice
