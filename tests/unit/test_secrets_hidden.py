"""What a person may see: no secrets of URLs, no control characters."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import ClassVar

import pytest

from envmgr.cli.render import print_answer, print_error, print_json
from envmgr.errors import EnvmgrError
from envmgr.report import Lines, Result, Table
from envmgr.wording import for_terminal, masked


@dataclass(frozen=True, slots=True)
class Said(Result):
    schema: ClassVar[str] = "envmgr.said/1"
    text: str

    def lines(self) -> Lines:
        yield self.text
        yield Table([[self.text.replace("\n", ""), "x"]])


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("https://user:secret@host/a", "https://***@host/a"),
        ("cannot fetch http://me:p%40ss@h:81/x.conda: 401", "cannot fetch http://***@h:81/x.conda: 401"),
        ("https://token@host/simple, https://b:c@d/e", "https://***@host/simple, https://***@d/e"),
        ("https://conda.host/t/ab-12-secret/chan/linux-64/x.conda", "https://conda.host/t/***/chan/linux-64/x.conda"),
        ("https://host/conda/t/tk-1/chan", "https://host/conda/t/***/chan"),
        ("https://host/t/tk-1, and more", "https://host/t/***, and more"),
        ("'https://h/x?token=abc&b=1'", "'https://h/x?token=***&b=1'"),
        ("https://h/x?X-Amz-Signature=abc&X-Amz-Credential=q", "https://h/x?X-Amz-Signature=***&X-Amz-Credential=***"),
        ("file:///srv/a@b/t/x/y", "file:///srv/a@b/t/x/y"),
        ("/srv/t/x/y and me@host", "/srv/t/x/y and me@host"),
        ("https://host/a@b", "https://host/a@b"),
        ('{"url": "https://u:p@h/t/k/c", "n": 1}', '{"url": "https://***@h/t/***/c", "n": 1}'),
    ],
)
def test_secrets_of_urls_are_masked(text: str, told: str) -> None:
    assert masked(text) == told
    assert masked(told) == told


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("\x1b[31mred\x07", r"\x1b[31mred\x07"),
        ("a\tb\nc", "a\tb\nc"),
        ("one\rtwo", r"one\rtwo"),
        ("\x9b31m\x7f", r"\x9b31m\x7f"),
        ("user\u202etxt.exe\u2066", r"user\u202etxt.exe\u2066"),
        ("Größe, 30 €", "Größe, 30 €"),
    ],
)
def test_control_characters_do_not_reach_a_terminal(text: str, told: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert for_terminal(text) == told
    print_answer(Said(text), "table")
    print_error(EnvmgrError("some-fault", text, context=[text], hint=text), "table")
    print_error(EnvmgrError("some-fault", text, context=[text]), "json")
    print_json("envmgr.some/1", {"text": text})
    seen = capsys.readouterr()
    for each in seen.out + seen.err:
        assert each in "\n\t" or each.isprintable(), repr(each)
    assert json.loads(seen.out[seen.out.rindex('{\n "schema": "envmgr.some/1"') :])["text"] == text
