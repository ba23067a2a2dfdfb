"""The audit's own parts: what is sent, what is read, what is folded, what is chosen."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envmgr.audit.ask.expected_generation import choose_samples
from envmgr.audit.checks import all_checks, check_names, contexts, get_check
from envmgr.audit.findings import AuditFinding, joined
from envmgr.audit.model import Evidence
from envmgr.audit.plan import PublishedGeneration
from envmgr.audit.shell.shared_shell import elements
from envmgr.catalog.recipe_parts import Requires
from envmgr.errors import InputError
from envmgr.nodes.envelope import Reply
from envmgr.probe.model import CONTEXTS, ShellContext, choose_contexts
from envmgr.probe.prefix import attribute_cache, is_stale
from envmgr.probe.shell import Folding, read_answer
from envmgr.publish.records import PublishedEntry
from envmgr.wording import escaped
from tests.helpers.evidence import SHA, audit_plan, probe_script, published, site, told
from tests.helpers.evidence import evidence as hand_made
from tests.helpers.places import ROOT


def named(name: str) -> ShellContext:
    return next(context for context in CONTEXTS if context.name == name)


TEXT = st.text(st.characters(exclude_characters="\n\r", exclude_categories=["Cs"]), max_size=40)
KEY = st.text("abcdefghijklmnopqrstuvwxyz0123456789./_-", min_size=1, max_size=20)


@given(st.dictionaries(KEY, TEXT, max_size=8), st.dictionaries(KEY, st.lists(TEXT, min_size=1, max_size=4), max_size=4))
def test_read_answer_gives_back_what_was_told(values: dict[str, str], blocks: dict[str, list[str]]) -> None:
    said = [f"@{key}={value}" for key, value in values.items()]
    said += [f"@b/{key}|{line}" for key, lines in blocks.items() for line in lines]
    facts, own, _ = read_answer("\n".join(["some noise", *said, "@broken"]))
    told = values | {f"b/{key}": "\n".join(lines) for key, lines in blocks.items()}
    assert facts == {key: escaped(value, "\n") for key, value in told.items()}
    assert own == {}


def test_read_answer_keeps_what_is_the_nodes_own_out_of_the_comparison() -> None:
    facts, own, text = read_answer("@~host=c1\n@gate=ok\n@~began=1.5\nnoise\n")
    assert (facts, own, text) == ({"gate": "ok"}, {"host": "c1", "began": "1.5"}, "@gate=ok")


@given(st.text(max_size=200))
def test_read_answer_takes_anything(text: str) -> None:
    read_answer(text)


def reply(node: str, text: str) -> Reply:
    return Reply(node, "answered", text, "", 0, 1)


def test_equal_answers_are_kept_once() -> None:
    folding = Folding([f"c{n}" for n in range(1, 1001)])
    for n in range(1000, 0, -1):
        folding(reply(f"c{n}", f"@~host=c{n}\n@gate={'hung' if n == 500 else 'ok'}\n"))
    ok, hung = folding.fleet().groups
    assert (len(ok.nodes), ok.nodes[:2], hung.nodes) == (999, ("c1", "c2"), ("c500",))
    assert folding.fleet().own["c7"] == {"host": "c7"}


def test_node_that_is_asked_again_counts_once() -> None:
    folding = Folding(["c1", "c2"])
    for node in ("c1", "c2"):
        folding(reply(node, "@current=old"))
    folding(reply("c2", "@current=new"))
    assert folding.fleet().by_value("current") == {"new": ("c2",), "old": ("c1",)}


def test_findings_that_differ_in_place_alone_are_one() -> None:
    one = AuditFinding("contexts", "error", "bash-ssh (root)", "no `module` command", nodes="c2")
    places = ["bash-ssh (root)", "bash-ssh (alice)", "csh (root)", "csh (alice)", "sbatch-sh (alice)"]
    (finding,) = joined(replace(one, where=where) for where in places)
    assert finding.where == "bash-ssh, csh (root, alice); sbatch-sh (alice)"


@pytest.mark.parametrize(
    ("path", "parts"),
    [("", []), ("/a:/b/", ["/a", "/b"]), ("/a::/a/:/b", ["/a", "/b"]), (":/", ["/"]), ("/a//b", ["/a/b"])],
)
def test_modulepath_is_compared_as_lmod_takes_it(path: str, parts: list[str]) -> None:
    assert elements(path) == parts


@pytest.mark.parametrize(
    ("facts", "override", "seconds"),
    [
        ({"mount.type": "nfs4", "mount.source": "fs1:/x", "mount.super": "rw,vers=4.2,acdirmax=30"}, None, 30),
        ({"mount.type": "nfs", "mount.source": "fs1:/x", "mount.super": "actimeo=3,acdirmax=9"}, None, 3),
        ({"mount.type": "nfs", "mount.source": "fs1:/x", "mount.super": "rw"}, None, 60),
        ({"mount.type": "nfs", "mount.source": "fs1:/x", "mount.super": "noac,rw"}, None, 0),
        ({"mount.type": "fuse.sshfs", "mount.source": "fs1:/x"}, None, 20),
        ({"mount.type": "ext4", "mount.source": "/dev/sda1"}, None, 0),
        ({"mount.type": "nfs", "mount.source": "fs1:/x"}, 7.5, 7.5),
    ],
)
def test_attribute_cache_follows_the_mount(facts: dict[str, str], override: float | None, seconds: float) -> None:
    assert attribute_cache(facts, override) == seconds


def test_only_a_node_that_answers_can_be_stale() -> None:
    assert is_stale({"gate": "ok", "current": "generations/0003"}, 4)
    assert not is_stale({"gate": "ok", "current": "generations/0004"}, 4)
    assert not is_stale({"gate": "hung"}, 4)


def test_contexts_are_chosen_by_name_or_by_way() -> None:
    assert choose_contexts((), ("ssh", "slurm")) == CONTEXTS
    assert [c.name for c in choose_contexts((), ("ssh",))] == [
        "bash-login",
        "bash-interactive",
        "bash-ssh",
        "csh",
        "zsh",
    ]
    assert [c.name for c in choose_contexts(["csh"], ("ssh",))] == ["csh"]


def test_unknown_context_names_the_nearest() -> None:
    with pytest.raises(InputError) as error:
        choose_contexts(["bash-logon"], ("ssh",))
    assert error.value.render() == (
        "error[unknown-context]: there is no context `bash-logon`\n\nhint: did you mean bash-login, sbatch-bash-login, sbatch-bash-login-none?"
    )


def test_context_of_a_way_that_is_not_asked() -> None:
    with pytest.raises(InputError) as error:
        choose_contexts(["sbatch-sh"], ("ssh",))
    assert error.value.render() == (
        "error[unknown-context]: `sbatch-sh` is reached by slurm, which is not asked\n\nhint: --via slurm, or --via both"
    )


def test_unknown_check_names_the_nearest() -> None:
    with pytest.raises(InputError) as error:
        get_check("mounts")
    assert (
        error.value.render()
        == "error[unknown-check]: there is no check `mounts`\n\nhint: did you mean mount, outside, account?"
    )


@pytest.mark.parametrize("name", check_names())
def test_every_check_explains_itself(name: str) -> None:
    first, blank, *more = get_check(name).text.strip().split("\n")
    assert first.endswith(".")
    assert (blank, bool(more)) == ("", True)


def test_every_check_is_in_the_page() -> None:

    page = ((ROOT / "docs") / "audit.md").read_text("utf-8")
    assert [name for name in all_checks() if f"`{name}`" not in page] == []
    assert [c.name for c in CONTEXTS if c.way == "ssh" and f"`{c.name}`" not in page] == []


@pytest.mark.parametrize("shell", ["dash", "bash"])
def test_joined_probe_is_sh(shell: str) -> None:
    plan = audit_plan(
        site(build_user="rsw"),
        4,
        samples=("hello/1.0",),
        loads={"hello/1.0": "A=1\n"},
        init="/usr/share/lmod/lmod/init",
        contexts=CONTEXTS,
        accounts=("root", "user"),
        roots={"hello/1.0": "/sw/store/hello/1.0-01234567"},
    )
    script = probe_script(all_checks().values(), plan)
    done = subprocess.run([shell, "-n"], input=script, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def some_published(number: int, defaults: Mapping[str, bool], kept: tuple[int, ...] = (1,)) -> PublishedGeneration:
    made = published({entry: Requires() for entry in defaults})
    specs = {entry: spec.model_copy(update={"default": defaults[entry]}) for entry, spec in made.specs.items()}
    one = PublishedEntry(digest=SHA, path="", lock="", fingerprint="")
    record = made.record.model_copy(update={"number": number, "entries": dict.fromkeys(defaults, one)})
    return replace(made, record=record, specs=specs, kept=kept)


def test_samples_are_all_of_a_few_and_defaults_of_many() -> None:
    assert choose_samples((), some_published(1, {"a/1": False, "b/1": True})) == ("a/1", "b/1")
    many = some_published(1, {f"n{i:02}/1": i in (3, 37) for i in range(40)})
    chosen = choose_samples((), many)
    assert len(chosen) == 8
    assert {"n03/1", "n37/1"} <= set(chosen)
    assert choose_samples(["all"], many) == tuple(sorted(many.record.entries))
    assert choose_samples(["n05/1"], many) == ("n05/1",)


def test_sample_that_is_not_published() -> None:
    with pytest.raises(InputError) as error:
        choose_samples(["b/2"], some_published(4, {"a/1": False, "b/1": True}))
    assert (
        error.value.render() == "error[not-published]: b/2 is not published\n  generation 4\n\nhint: did you mean b/1?"
    )


def job_with_generation(number: int, kept: tuple[int, ...]) -> Evidence:
    """A batch job whose MODULEPATH has this generation, where 4 is published."""
    folder = f"/sw/generations/{number:04d}"
    facts = {"current": "generations/0004"}
    for name, value in {"modulepath": f"{folder}/modules", "module": "yes"}.items():
        facts[f"ctx.sbatch-bash.user.{name}"] = value
    made = hand_made({"c1": facts}, way="slurm", asked=((named("sbatch-bash"), "user", "slurm"),))
    return replace(made, published=some_published(4, {}, kept))


def test_shell_that_follows_the_link_current_is_an_error() -> None:
    facts = {"modulepath": "/sw/current/modules", "module": "yes"}
    asked = ((named("bash-login"), "user", "ssh"),)
    made = hand_made({"c1": {f"ctx.bash-login.user.{name}": value for name, value in facts.items()}}, asked=asked)
    assert [
        line for line in told(contexts, replace(made, published=some_published(4, {}, (4,)))) if "error" in line
    ] == [
        (
            "error c1: bash-login (alice): MODULEPATH has /sw/current | generation 4 | "
            "`envmgr node-setup --apply --nodes c1`"
        )
    ]


def test_job_that_inherited_a_generation_that_is_kept_is_a_note() -> None:
    assert told(contexts, job_with_generation(3, kept=(3, 4))) == [
        (
            "note c1: sbatch-bash (alice): generation 3, inherited from the submitting shell | generation 4 | "
            "new login shells get the new one"
        )
    ]


def test_job_that_inherited_a_generation_that_is_gone_is_an_error() -> None:
    assert told(contexts, job_with_generation(2, kept=(3, 4))) == [
        (
            "error c1: sbatch-bash (alice): generation 2, which is not kept | generation 4 | "
            "start a new login shell; what it inherited is gone"
        )
    ]


def test_job_with_the_published_generation_is_well() -> None:
    assert told(contexts, job_with_generation(4, kept=(3, 4))) == []
