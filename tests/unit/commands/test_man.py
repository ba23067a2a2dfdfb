"""Manual pages: their form, and that troff finds no fault."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import typer

from envmgr import __version__
from envmgr.cli.app import app
from envmgr.cli.man import verb_helps
from envmgr.commands.man import ManPage, manual, page_text
from envmgr.errors import EnvmgrError, InputError
from tests.helpers.verbs import VERBS

HELPS = {each.verb.replace(" ", "-"): each for each in verb_helps(typer.main.get_command(app))}
PAGES = {name: page_text(name, *each[1:]) for name, each in HELPS.items()}


def test_there_is_a_page_for_the_program_each_group_and_each_verb_with_all_its_options() -> None:
    groups = {"envmgr", *(f"envmgr-{verb.partition(' ')[0]}" for verb in VERBS if " " in verb)}
    assert set(PAGES) == groups | {f"envmgr-{verb.replace(' ', '-')}" for verb in VERBS}
    for verb, command in VERBS.items():
        text = PAGES[f"envmgr-{verb.replace(' ', '-')}"].replace("\\-", "-")
        for parameter in command.params:
            for option in parameter.opts if parameter.param_type_name == "option" else ():
                assert re.search(rf"^\.B .*{option}\b", text, re.MULTILINE), (verb, option)


@pytest.mark.parametrize("name", PAGES)
def test_page_has_macros_of_man_alone_and_no_sign_that_troff_changes(name: str) -> None:
    lines = PAGES[name].splitlines()
    assert lines[0] == f'.TH {name.upper()} 1 "" "envmgr {__version__}" "envmgr"'.replace(name.upper(), name.upper().replace("-", "\\-"))  # fmt: skip
    macros = {line.split()[0] for line in lines if line.startswith((".", "'"))}
    assert macros <= {".TH", ".SH", ".PP", ".TP", ".B", ".BR", ".nf", ".fi"}
    assert re.findall(r"\\(?!-|e|&|\((?:aq|ga|ha|ti))|(?<!\\)-|['`^~\t\b]", PAGES[name]) == []


def test_signs_of_troff_are_printed_as_they_are() -> None:
    text = page_text("x", ".x", "Does `it's` \\n.\n\n.PP at a\nline", {"OPTIONS": [("-x", "'a~^")]}, "")
    assert "\n\\&.x\n" in text
    assert "\nDoes \\(gait\\(aqs\\(ga \\en.\n.PP\n\\&.PP at a line\n" in text
    assert "\n.B \\-x\n\\(aqa\\(ti\\(ha\n" in text


@pytest.mark.skipif(shutil.which("groff") is None, reason="no groff here")
def test_groff_warns_of_nothing(tmp_path: Path) -> None:
    text = "".join(PAGES.values())
    done = subprocess.run(["groff", "-ww", "-man", "-Tutf8"], input=text, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    plain = " ".join(re.sub(r"\x1b\[[0-9;]*m|.\x08", "", done.stdout).split())
    assert "--allow-network" in plain
    assert "`module load user/NAME`" in plain


def test_pages_are_written_where_man_looks(tmp_path: Path) -> None:
    pages = [ManPage("envmgr", "one\n"), ManPage("envmgr-user-add", "two\n")]
    assert manual(pages, ["user", "add"], None, dry_run=False).pages == (pages[1],)
    assert manual(pages, (), tmp_path / "man", dry_run=True).pages == tuple(pages)
    assert [*tmp_path.iterdir()] == []
    for _ in range(2):
        manual(pages, (), tmp_path / "man", dry_run=False)
    found = {path.name: path.read_text() for path in (tmp_path / "man/man1").iterdir()}
    assert found == {"envmgr.1": "one\n", "envmgr-user-add.1": "two\n"}
    (tmp_path / "file").touch()
    with pytest.raises(EnvmgrError, match="file/man1 cannot be used"):
        manual(pages, (), tmp_path / "file", dry_run=False)
    with pytest.raises(InputError, match="there is no verb `user ad`") as raised:
        manual([*pages, ManPage("envmgr-user", "")], ["user", "ad"], None, dry_run=False)
    assert "did you mean user add" in (raised.value.hint or "")
    assert manual(pages, ["envmgr"], None, dry_run=False).pages == (pages[0],)


def test_folders_that_are_made_are_for_all_users(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        manual([ManPage("envmgr", "one\n")], (), tmp_path / "a/b", dry_run=False)
    finally:
        os.umask(before)
    assert {(tmp_path / each).stat().st_mode & 0o777 for each in ("a", "a/b", "a/b/man1")} == {0o755}


def test_site_before_the_verb_is_nothing_to_man_and_refused_by_init(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    site = tmp_path / "site.yaml"
    site.write_text("prefix: /sw\n")
    (tmp_path / "link").symlink_to("site.yaml")

    def code(*argv: str) -> object:
        with pytest.raises(SystemExit) as left:
            app(list(argv))
        return left.value.code

    assert code("--site", str(site), "man", "build") in (None, 0)
    assert code("--site", str(site), "init", str(tmp_path / "new")) == 2
    assert "--site before `init`" in capsys.readouterr().err
    for same in (tmp_path, tmp_path / "link"):
        assert code("--site", str(site), "completion", "bash", "--site", str(same)) in (None, 0)
