"""Traces of shells: the file and line of the start-up file that set a variable.

One shell is traced for each group of nodes that differ. Source: bash(1), PS4, BASH_XTRACEFD, INVOCATION; tried on bash
5.2, which takes no PS4 from the environment for root.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from envmgr.audit.causes import TraceQuestion, Traces, traced_context
from envmgr.modules.nodesetup import HOME, PROFILE
from envmgr.probe.model import Fleet, ProbePart, ShellAccount
from envmgr.system.shelltext import UNTRACED_END, assign, quote, script_text, untraced

MOST = 12  # nodes that are asked; each represents all with the same answers

# A context of ssh -> how its shell is traced.
_HOW = {
    "bash-login": "login",
    "bash-ssh": "ssh",
    "csh": "csh",
    "zsh": "zsh",
    "bash-interactive": "interactive",
    "bash-job": "job",
}


def nodes_to_trace(questions: Sequence[TraceQuestion]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(question.node for question in questions))[:MOST]


def trace_part(questions: Sequence[TraceQuestion], users: Mapping[ShellAccount, str]) -> ProbePart:
    """Return all questions in one script, which is the same for every node."""
    names = sorted({name for question in questions for name in question.names})
    shells = dict.fromkeys((traced_context(question.context), question.account) for question in questions)
    shells |= dict.fromkeys(
        ("bash-login", question.account) for question in questions if question.context.way == "slurm"
    )
    calls = "".join(
        f"trace {quote(f'{context}.{account}')} {quote(users[account])} {_HOW[context]}\n"
        for context, account in shells
    )
    return ProbePart(
        "trace",
        {
            "prefix": "".join(
                [
                    assign(trace_names=" ".join(names), trace_pin=f"{HOME}/", trace_profile=PROFILE, trace_home=""),
                    assign(trace_end=f"set +x\n{untraced()}{UNTRACED_END}"),
                    script_text(__file__, "csh.sh"),
                    script_text(__file__, "sh"),
                    calls,
                ]
            )
        },
    )


def read_traces(fleet: Fleet) -> Traces:
    places: dict[tuple[str, str, str, str], str] = {}
    for group in fleet.groups:
        for key, place in group.facts.items():
            words = key.split(".", 3)
            if words[0] == "trace" and len(words) == 4 and words[1] != "looked":
                places |= {(node, words[1], words[2], words[3]): place for node in group.nodes}
    return Traces(places)
