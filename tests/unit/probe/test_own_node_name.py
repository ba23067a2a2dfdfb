"""A node's own name in what it tells: the same words on every node, and only where it is the name."""

from __future__ import annotations

import subprocess

import pytest

from envmgr.probe import shell as probe
from envmgr.system.shelltext import script_text


def nameless(text: str, host: str) -> str:
    library = script_text(probe.__file__ or "", "library.sh")
    script = f'{library}\nawk -v host="$0" "$named_words"\'{{ printf "%s", nameless($0, host) }}\''
    done = subprocess.run(["/bin/sh", "-c", script, host], input=text, capture_output=True, text=True, check=True)
    return done.stdout


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("LM_LICENSE_FILE=27000@lic1:27000@lic2", "LM_LICENSE_FILE=27000@lic1:27000@lic2"),
        ("A=c1:c1.cluster.example c1", "A=NODE:NODE NODE"),
        ("TMP=/scratch/c1/x", "TMP=/scratch/NODE/x"),
        ("B=c12 abc1 c1x", "B=c12 abc1 c1x"),
        ("C=c1xcluster.example", "C=c1xcluster.example"),
    ],
)
def test_name_is_a_word_of_its_own(text: str, found: str) -> None:
    assert nameless(text, "c1.cluster.example") == found
