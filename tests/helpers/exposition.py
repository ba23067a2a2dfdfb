"""A good answer of the audit, and a reader of the text that Prometheus reads."""

from __future__ import annotations

import re
from collections import defaultdict
from typing import Any

from envmgr.audit.result import AuditResult, WayAnswers
from envmgr.cli.render import answer_text

WELL = AuditResult(
    generation=12,
    entries=("hello/1.0", "hello/2.0"),
    nodes="c[1-3]",
    count=3,
    asked=(WayAnswers("ssh", "c[1-3]", "", ""),),
    contexts=("ssh-bash",),
    accounts=("root", "alice"),
    checks=("mount", "nodes"),
    findings=(),
    matrix=(),
    finished=1_700_000_000.1239,
    seconds=2.5,
)


def text(answer: Any, fmt: str, now: float = 0) -> str:
    found = answer_text(answer, fmt, now=now)
    assert found is not None
    return found


Series = dict[str, dict[frozenset[tuple[str, str]], float]]


def parse(exposed: str) -> Series:
    """A reader of the text format, by its specification and not by our writer."""
    found: Series = defaultdict(dict)
    told: dict[str, list[str]] = defaultdict(list)
    assert exposed.endswith("\n")
    for line in exposed[:-1].split("\n"):
        if comment := re.fullmatch(r"# (HELP|TYPE) (\S+) (.+)", line):
            told[comment[2]].append(comment[1])
            assert comment[2] not in found, "comments come before the series"
            continue
        sample = re.fullmatch(r'([a-z_]+)(\{(?:[a-z]+="(?:[^"\\\n]|\\["\\n])*",?)*\})? (\S+)', line)
        assert sample, line
        labels = [
            (name, re.sub(r"\\(.)", lambda m: "\n" if m[1] == "n" else m[1], value))
            for name, value in re.findall(r'([a-z]+)="((?:[^"\\]|\\.)*)"', sample[2] or "")
        ]
        assert len(dict(labels)) == len(labels)
        assert frozenset(labels) not in found[sample[1]], line
        found[sample[1]][frozenset(labels)] = float(sample[3])
    assert {name: sorted(lines) for name, lines in told.items()} == {name: ["HELP", "TYPE"] for name in found}
    return found


def of(series: Series, name: str, **labels: str) -> float | None:
    return series.get(name, {}).get(frozenset(labels.items()))
