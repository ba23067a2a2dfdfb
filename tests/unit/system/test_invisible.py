"""What nobody sees is refused with its place, in the text and behind the escapes of YAML and JSON."""

from __future__ import annotations

import json
import sys
import unicodedata
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envmgr.catalog.locks import lock_json, lock_text, require_lock_visible
from envmgr.catalog.recipe import load_recipe, load_software
from envmgr.catalog.site import load_site
from envmgr.errors import InputError
from envmgr.system.invisible import TABS, hidden_in, hidden_values, require_visible
from envmgr.system.untrusted_files import require_visible_patch
from envmgr.system.yamlfile import parse_yaml
from tests.helpers.places import ROOT

HIDDEN = [c for c in map(chr, range(sys.maxunicode + 1)) if unicodedata.category(c) in ("Cc", "Cf", "Zl", "Zp")]
LINE_ENDS = ["\r", "\x0b", "\x0c", "\x1c", "\x1d", "\x1e", "\x85", "\u2028", "\u2029"]


def test_every_control_format_and_bidi_character_is_found() -> None:
    assert [c for c in HIDDEN if hidden_in(c) is None] == []
    assert [c for c in HIDDEN if c != "\t" and hidden_in(c, TABS) is None and c != "\n"] == []


@given(st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cf", "Zl", "Zp"])))
def test_what_can_be_seen_is_let_through(text: str) -> None:
    require_visible(text, "f", also="\n")
    assert [*hidden_values({text: [text, {"a": (text,)}]})] == []


@given(st.text(max_size=40))
def test_a_text_that_is_let_through_has_the_lines_that_people_see(text: str) -> None:
    with suppress(InputError):
        require_visible(text, "f", also="\n")
        assert text.splitlines() == text.removesuffix("\n").split("\n") or text in ("", "\n")


RECIPE = "backend: conda\n# reviewed{}\ninput: {{}}\n"
TEXTS = {
    "recipe": ("recipe.yaml", RECIPE, load_recipe),
    "software": ("software.yaml", "# reviewed{}\ndescription: x\n", load_software),
    "site": ("site.yaml", "# reviewed{}\nprefix: /opt/x\n", lambda path: load_site(path, {})),
    "lock": ("wheels.lock", "a==1\n# reviewed{}evil==6.6\n", lock_text),
    "sidecar": ("conda-lock.records.json", '{{"a": "b{}"}}', lock_json),
}


@pytest.mark.parametrize("character", [*LINE_ENDS, "\u202e", "\u200b", "\x1b", "\x7f"])
@pytest.mark.parametrize("case", TEXTS)
def test_every_file_of_a_catalog_is_looked_at(tmp_path: Path, case: str, character: str) -> None:
    name, text, read = TEXTS[case]
    path = tmp_path / "x/1.0" / name
    path.parent.mkdir(parents=True)
    path.write_text(text.format(character), newline="")
    with pytest.raises(InputError) as caught:
        read(path)
    line = text[: text.index("{}")].count("\n") + 1
    assert caught.value.reference == "text-invisible"
    assert caught.value.message.startswith(f"{path}:{line}:")
    assert f"U+{ord(character):04X}" in caught.value.message


@pytest.mark.parametrize("escape", ["\\u2028", "\\x85", "\\e[31m", "\\u202e", "\\0", "\\L", "\\P", "\\N"])
def test_escapes_of_yaml_bring_nothing_past(tmp_path: Path, escape: str) -> None:
    path = tmp_path / "recipe.yaml"
    path.write_text(f'backend: conda\ninput:\n  specs:\n    - ok\n    - "a{escape}"\n')
    with pytest.raises(InputError) as caught:
        load_recipe(path)
    assert caught.value.reference == "text-invisible"
    assert caught.value.context[0].startswith(f"{path}:5: input.specs.1: U+")


def test_escapes_in_keys_are_found() -> None:
    with pytest.raises(InputError, match="cannot be seen"):
        parse_yaml('"a\\u200b": 1\n', "f.yaml")


@pytest.mark.parametrize("character", [*LINE_ENDS, "\u202e", "\t"])
def test_escapes_of_json_bring_nothing_past(tmp_path: Path, character: str) -> None:
    path = tmp_path / "conda-lock.records.json"
    path.write_text(json.dumps({"packages": [{"name": f"a{character}"}]}))
    with pytest.raises(InputError) as caught:
        lock_json(path)
    assert caught.value.message.startswith(f"{path}: packages.0.name: U+{ord(character):04X}")


def test_json_of_another_encoding_is_no_lock(tmp_path: Path) -> None:
    path = tmp_path / "conda-lock.records.json"
    path.write_bytes('{"a": "\u2028"}'.encode("utf-16"))
    with pytest.raises(InputError) as caught:
        lock_json(path)
    assert caught.value.reference == "lock-invalid"


def test_tabs_of_shell_texts_are_let_through(tmp_path: Path) -> None:
    path = tmp_path / "recipe.yaml"
    path.write_text("backend: conda\ninput: {}\ntests:\n  - name: t\n    run: |\n      cat <<-E\n      \tx\n      E\n")
    assert "\t" in load_recipe(path).tests[0].run


def test_what_reads_others_texts_knows_one_end_of_a_line() -> None:
    """`str.splitlines` ends a line at eight characters more, which no reviewer sees."""
    rooms = (
        "catalog",
        "system/untrusted_files.py",
        "system/yamlfile.py",
        "wheels/resolve.py",
        "wheels/lockfile.py",
        "backends/wheels/*.py",
        "backends/conda/lockfile.py",
        "backends/conda/pip.py",
        "publish/flips.py",
    )
    found = [
        path
        for room in rooms
        for path in [*(ROOT / "envmgr").glob(room), *(ROOT / "envmgr" / room).rglob("*.py")]
        if path.is_file()
    ]
    assert len(found) > 25
    of_programs = ("build_call.py",)  # logs of builds
    assert [str(path) for path in found if ".splitlines(" in path.read_text() and path.name not in of_programs] == []


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("wheels.lock", "a==1\x0b"),
        ("x.json", '{"licence": "a\\u2028b"}'),
        ("x.yml", 'a: "b\\u202e"\n'),
        ("x.yml", "a: b\x85\n"),
    ],
)
def test_lock_that_nobody_could_read_again_is_not_written(name: str, text: str) -> None:
    with pytest.raises(InputError) as caught:
        require_lock_visible(text, name)
    assert caught.value.reference == "text-invisible"


@pytest.mark.parametrize("hidden", ["\r", "\x0b", "\x1c", "\x85", "\u2028", "\u202e", "\u200b", "\0"])
def test_patch_that_shows_other_lines_than_it_has_is_refused(tmp_path: Path, hidden: str) -> None:
    path = tmp_path / "a.patch"
    path.write_bytes(f"+ok = 1  # fine{hidden}import os\n".encode())
    with pytest.raises(InputError, match=r"a\.patch:1:16: U\+.* cannot be seen in a review"):
        require_visible_patch(path.read_bytes(), path)


def test_patch_of_odd_sources_is_taken(tmp_path: Path) -> None:
    path = tmp_path / "a.patch"
    path.write_bytes("+ends of lines of Windows\r\n-\tTabs\n+\f\n+caf\u00e9 ".encode() + b"\xe9 of latin-1\n")
    require_visible_patch(path.read_bytes(), path)
