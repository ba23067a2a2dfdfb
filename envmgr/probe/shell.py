"""The probe: one POSIX shell script that joins the parts of all checks, and what reads its answers.

The script leaves behind what hangs: whatever may touch the prefix runs apart, with its output in a file, and is looked
at and never waited for. A process on a hung mount cannot be killed, and neither `timeout` nor `$(…)` gets away from it.
Equal answers are kept once, so that memory follows diversity and not node count.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import count
from sys import intern

from envmgr.nodes.envelope import Reply
from envmgr.probe.model import (
    Facts,
    Fleet,
    Group,
    ProbePart,
    ProbePlan,
    ProbeStage,
    ShellAccount,
    ShellContext,
    grouped,
)
from envmgr.report import Stage
from envmgr.system.shelltext import UNTRACED_END, assign, quote, script_text, untraced
from envmgr.wording import escaped

GATE_SECONDS = 5  # how long a healthy prefix may take to answer once
NO_USER = "there is no user"  # how the end of a shell begins that could not be started for that
NO_USER_HINT = "give all nodes the same accounts; `--user NAME` looks at another user"

STAGES: tuple[ProbeStage, ...] = ("node", "prefix", "context", "login")


def part_seconds(node_timeout: float) -> int:
    """Return the seconds for the parts, of those for a whole answer; the gate and the way back have the rest."""
    return max(2, int(node_timeout * 0.8) - GATE_SECONDS)


def join_probes(parts: Iterable[ProbePart], plan: ProbePlan, *, stages: Sequence[ProbeStage] = STAGES) -> str:
    """Return the script for the contexts and accounts of `plan`: the texts of all parts, each stage in its own file."""
    texts: dict[ProbeStage, list[str]] = {stage: [] for stage in STAGES}
    of_login = set()
    for part in parts:
        for stage, text in part.texts.items():
            if stage in stages:
                texts[stage].append(f"{text}\nput {looked_key(part.name, stage)} yes\n")
                of_login |= {part.name} if stage == "login" else set()
    jobs = ["prefix"] if texts["prefix"] else []
    starting = ['start prefix /bin/sh "$tmp/prefix.sh"\n' for _ in jobs]
    telling = ["tell '' prefix\n" for _ in jobs]
    if texts["login"]:
        jobs.append("login")
        shell = f"{'' if _in_job(plan) else f'as {quote(plan.user)} '}/bin/bash -l"
        starting.append(_if_known("user", "login", "login.", f'start login {shell} "$tmp/login.sh"\n', plan))
        telling.append(f"tell '' login \"$secret\" '({'|'.join(sorted(of_login))})[.]'\n")
    pairs = [(c, a) for c in plan.contexts for a in plan.accounts if a in c.accounts]
    for number, (context, account) in enumerate(pairs if texts["context"] else ()):
        jobs.append(f"c{number}")
        starting.append(_start(jobs[-1], context, account, plan))
        key = context_key(context, account)
        telling.append(f'tell {key} {jobs[-1]} "$secret"\n')
    return "".join(
        [
            assign(mark="", limit=plan.seconds, gate_seconds=GATE_SECONDS),
            _settings(plan),
            script_text(__file__, "library.sh"),
            script_text(__file__, "jobs.sh"),
            script_text(__file__, "begin.sh"),
            f"stages <<'ENVMGR_END'\nENVMGR_STAGE library\n{script_text(__file__, 'library.sh')}",
            _file("gate", [script_text(__file__, "gate.sh")], plan),
            *(_file(stage, of_stage, plan) for stage, of_stage in texts.items()),
            f"ENVMGR_END\n{_function('start_rest', starting)}",
            _function("tell_all", telling),
            assign(jobs=" ".join(jobs)),
            script_text(__file__, "ask.sh"),
        ]
    )


def looked_key(part: str, stage: ProbeStage) -> str:
    """Return the fact that a part's text ran to its end; in a context it follows the context's key."""
    return f"{part}.looked.{stage}"


def _file(stage: str, texts: Iterable[str], plan: ProbePlan) -> str:
    """Return the lines of a stage, for `stages`; users' start-up files run before those of `context` and `login`."""
    mark, end = "", ""
    if stage in ("context", "login"):
        # Start-up files may print anything: lines without the secret of this run are no facts.
        mark, end = " secret", UNTRACED_END
        texts = [script_text(__file__, "found.sh"), untraced(), "whole_path path_brought\n", *texts]
    text = "".join([_settings(plan), *texts])
    return f"ENVMGR_STAGE {stage}{mark}\n{text}\nput done yes\n{end}"


def _function(name: str, lines: Iterable[str]) -> str:
    return f"{name}() {{\n:\n{''.join(lines)}}}\n"


def context_key(context: ShellContext, account: ShellAccount) -> str:
    """Return the beginning of a context's facts."""
    return f"ctx.{context.name}.{account}."


def _settings(plan: ProbePlan) -> str:
    same = {name: getattr(plan, name) for name in ("prefix", "user", "build_user", "link")}
    return assign(**same, alone="yes" if plan.alone else "")


def _in_job(plan: ProbePlan) -> bool:
    """Return whether it runs in a job, which is its user's already."""
    return any(context.way == "slurm" for context in plan.contexts)


# $0 is at_terminal.sh, $1 the context's file. Its stdin is a terminal, where the node has script(1); what it prints
# goes past that, which would change its line ends. On stderr script(1) itself says why it has no terminal.
_AT_A_TERMINAL = (
    'exec 9>&1; command -v script >/dev/null || exec /bin/sh "$0" "$1"; '
    'SHELL=/bin/sh exec script -qefc "SHELL=$SHELL exec /bin/sh $0 $1 >&9 9>&-" /dev/null >/dev/null'
)


def _start(job: str, context: ShellContext, account: ShellAccount, plan: ProbePlan) -> str:
    """Return the lines that start a context's shell, if the node has it."""
    file, key = '"$tmp/context.sh"', context_key(context, account)
    command = {
        "bash": f"/bin/bash -c '. \"$0\"' {file}",
        "bash-login": f"/bin/bash -l {file}",
        "wrap": f"/bin/sh -c '. \"$0\"' {file}",
        "sh": (f'/bin/sh -c \'[ ! -r "$1" ] || . "$1"; . "$0"\' {file} {quote(f"{plan.init}/sh")}'),
        "csh": f'csh "$tmp/context.csh" {file}',
        "zsh": f"zsh -l -c 'emulate sh; . \"$0\"' {file}",
        "bash-interactive": f'/bin/sh -c {quote(_AT_A_TERMINAL)} "$tmp/interactive" {file}',
    }[context.shell]
    if context.step:
        way = f'at_pty "$tmp/{job}.out" {file}' if context.shell == "bash-interactive" else f"step {command}"
        skips = f"skip {job} {key} 'srun is not in PATH'"
        return f"if command -v srun >/dev/null; then start {job} {way}; else {skips}; fi\n"
    if context.way == "slurm":
        return f"start {job} {command}\n"
    line = "" if context.shell == "bash-interactive" else 'start_input="$tmp/line" '
    start = f"{line}start {job} as {quote(plan.user if account == 'user' else 'root')} {command}\n"
    if context.shell == "csh":
        start = f"if command -v csh >/dev/null; then\nwrite_csh\n{start}else skip {job} {key} absent; fi\n"
    start = _if_known(account, job, key, start, plan)
    if context.shell == "zsh":
        used = "" if "zsh" in plan.shells else " && grep -q '/zsh$' \"$who\""
        start = f"if command -v zsh >/dev/null{used}; then\n{start}else skip {job} {key} absent; fi\n"
    return start


def _if_known(account: ShellAccount, job: str, key: str, start: str, plan: ProbePlan) -> str:
    """Return `start`, for a node that knows the account; a Slurm job already runs as its user."""
    if account == "root" or _in_job(plan):
        return start
    return f"if known {job} {key} {quote(f'{NO_USER} {plan.user}')}; then\n{start}fi\n"


_LINE = re.compile(r"@~?([^=|]+)([=|])(.*)")


def split_answer(text: str) -> tuple[list[str], str]:
    """Return the lines that are the node's own, and the text of the rest, by which answers are folded."""
    lines = [line for line in text.split("\n") if line.startswith("@")]
    return [line for line in lines if line.startswith("@~")], "\n".join(x for x in lines if not x.startswith("@~"))


def read_lines(lines: Iterable[str]) -> Facts:
    """Return key -> value; lines that are no fact are skipped."""
    found: dict[str, list[str]] = {}
    for match in filter(None, (_LINE.fullmatch(escaped(line)) for line in lines)):
        key, kind, value = match.groups()
        if kind == "=":
            found[key] = []
        found.setdefault(key, []).append(value)
    return {key: "\n".join(values) for key, values in found.items()}


def read_answer(text: str) -> tuple[Facts, Facts, str]:
    """Return what is compared, what is the node's own, and the text of the first."""
    own, shared = split_answer(text)
    return read_lines(shared.split("\n")), read_lines(own), shared


class Folding:
    """Takes replies as they come, the last one of a node counts. It keeps one copy of what several nodes said: memory
    follows diversity.
    """

    def __init__(self, nodes: Sequence[str]) -> None:
        self._asked = nodes
        self._facts: dict[str, Facts] = {}
        self._of: dict[str, str] = {}  # node -> text
        self._own: dict[str, Facts] = {}
        self._replies: dict[str, Reply] = {}

    def __call__(self, reply: Reply) -> None:
        self._replies[reply.node] = replace(reply, text="", reason=escaped(reply.reason, "\n")[:300])
        self._of.pop(reply.node, None)
        if reply.status == "answered":
            own, text = split_answer(reply.text)
            self._own[reply.node] = read_lines(own)
            self._of[reply.node] = text = intern(text)  # the one copy
            if text not in self._facts:
                self._facts[text] = read_lines(text.split("\n"))

    def counting(self, stage: Stage) -> Callable[[Reply], None]:
        """Return a function that takes replies, and tells how many it took."""
        number = count(1)

        def take(reply: Reply) -> None:
            self(reply)
            stage.update(next(number), detail=reply.node)

        return take

    def fleet(self) -> Fleet:
        nodes = grouped((self._of[node], node) for node in self._asked if node in self._of)
        groups = (Group(self._facts[text], tuple(alike)) for text, alike in nodes.items())
        replies = (self._replies[node] for node in self._asked if node in self._replies)
        missing = (reply for reply in replies if reply.status != "answered")
        return Fleet(tuple(groups), self._own, self._replies, tuple(missing))
