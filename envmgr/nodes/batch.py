"""A script in a real batch job on each node, for what only batch jobs see. No shared folder is needed."""

from __future__ import annotations

import math
import os
import secrets
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from envmgr.catalog.site import Site
from envmgr.nodes import slurm, tool, tool_env
from envmgr.nodes.envelope import Reply, ScriptAnswer, Status, end_mark, end_rest, marked, unwrap, wrap
from envmgr.nodes.fanout import NODES_OWN, Fan, unreachable
from envmgr.nodes.sets import require_node_names
from envmgr.system.run import Runner
from envmgr.system.shelltext import UNTRACED_END, assign, script_text, untraced
from envmgr.system.users import require_account, session_as, this_account

if TYPE_CHECKING:
    from envmgr.nodes.clients import Call, Client

# --no-requeue: a job that starts again would run its script twice. Output files would need a shared folder.
_SUBMIT = ("--parsable", "-N1", "-n1", "-o", "/dev/null", "-e", "/dev/null", "--no-requeue")  # of every job
_KEPT = 60  # seconds that a job keeps its answer for us
_FIRST, _SLOWEST = 0.3, 2.0  # seconds between two looks at the queue: at first, and after a while
_AROUND = 1 << 20  # bytes in addition to an answer
_ASIDE = 30.0  # seconds that the login shell with its sbatch commands, squeue and scancel may take


def batch_on_nodes(
    nodes: Sequence[str],
    script: str,
    *,
    site: Site,
    runner: Runner,
    on_reply: Callable[[Reply], None],
    export: str | None,
    user: str | None = None,
    shebang: str = "#!/bin/bash",
    timeout: float | None = None,
    deadline: float | None = None,
    limit: int = 4 << 20,
    options: Sequence[str] = (),
    prepare: str = "",
) -> None:
    """Run `script` in one sbatch job per node, submitted from a login shell of `user` (if root; else of the current
    user).

    `options` are sbatch's, after those of the site. Without `export`, sbatch gets no option for it, as from users.
    `prepare` may define a function `envmgr_prepare` of bash, which the login shell then calls before sbatch. The shell of `shebang` (sh or bash, with options) runs it, with the
    environment that Slurm gave the job. Times, replies and errors are those of `ask_nodes`; `timeout` begins when the
    job runs. A job that waits longer than the site's `queue_timeout` is cancelled: its node is unreachable. No job
    stays; if this process is killed, Slurm's time limit ends them.
    """
    todo = list(dict.fromkeys(nodes))
    require_node_names(todo)
    if not todo:
        return
    limits = site.transport
    jobs = _Jobs(
        site,
        runner,
        on_reply,
        todo,
        user=user,
        deadline=limits.deadline if deadline is None else deadline,
        timeout=limits.node_timeout if timeout is None else timeout,
        limit=limit,
        options=(*([f"--export={export}"] if export else []), *options),
        prepare=prepare,
    )
    jobs.script = job_script(script, shebang, jobs.nonce, jobs.inner, limit=limit)
    jobs.run()


def job_script(script: str, shebang: str, nonce: str, inner: str, *, limit: int) -> str:
    """Return a job that keeps the answer of `script`, marked by `inner`, in a folder that is named by `nonce`."""
    alone, begin, keep = (script_text(__file__, f"{part}.sh") for part in ("alone", "begin", "keep"))
    answer = f'(\n{alone}{marked(script, inner, limit=limit)}) >"$envmgr_dir/answer" &\n'
    given = assign(envmgr_nonce=nonce, envmgr_turns=_KEPT * 20)
    return f"{shebang}\n{untraced()}{given}envmgr_end_rest() {{\n{end_rest()}}}\n{begin}{answer}{keep}{UNTRACED_END}"


@dataclass(slots=True)
class _Job:
    node: str
    name: str  # Slurm's
    number: str
    submitted: float  # monotonic
    began: float  # epoch
    why: str = ""  # Slurm's reason for it to wait

    @property
    def why_in_brackets(self) -> str:
        return f" ({self.why})" if self.why not in {"", "None"} else ""


class _Jobs:
    """The jobs of a run. Every node is waiting, submitting, queued (its job does not run yet), running or replied."""

    def __init__(
        self,
        site: Site,
        runner: Runner,
        on_reply: Callable[[Reply], None],
        nodes: Sequence[str],
        *,
        user: str | None,
        deadline: float,
        timeout: float,
        limit: int,
        options: tuple[str, ...],
        prepare: str,
    ) -> None:
        self.nonce, self.inner = secrets.token_hex(8), secrets.token_hex(8)
        self.script = ""
        self._prepare = prepare
        self.env = tool_env()
        self._site, self._runner, self._on_reply = site, runner, on_reply
        self._prefix = session_as(user, self.env, find=tool)
        self._login = _login_shell(user)
        self._timeout, self._deadline, self._limit = timeout, deadline, limit
        self._patience = max(1, math.ceil(site.transport.queue_timeout))
        self._options = (*_SUBMIT, f"--job-name={slurm.job_name(self.nonce)}", *site.transport.slurm_options, *options)
        self._waiting = deque(nodes)
        self._submitting: set[str] = set()
        self._queued: dict[str, _Job] = {}
        self._asked: dict[str, _Job] = {}
        self._looking = False
        self._next_look, self._pause = 0.0, _FIRST
        self._states: dict[str, tuple[str, str]] = {}
        self._names: dict[str, str] = {}
        self._fan = Fan(site, runner, self._collected, self.nonce, deadline=deadline)
        self._fan.hook = self._tick

    def run(self) -> None:
        tool("sbatch")
        self._states, broken = slurm.states_or_reason(self._runner, self._deadline)
        self._names = slurm.slurm_names(self._states, self._waiting)
        for node in list(self._waiting):
            if gone := f"Slurm: {broken}" if broken else slurm.why_no_step(self._states, self._names.get(node, node)):
                self._waiting.remove(node)
                self._on_reply(unreachable(node, gone))
        if self._waiting:
            most = slurm.longest_job(self._runner, self._options, timeout=self._deadline)
            # The job waits with its answer after the script has ended.
            self._options = (f"--time={slurm.time_limit(self._timeout + _KEPT, most)}", *self._options)
        try:
            if self._waiting:
                self._fan.ask((), lambda node: unreachable(node, ""), self)
        finally:
            slurm.cancel_jobs(self.nonce)
        over = f"the deadline of {self._deadline:g} s was over"
        for job in self._queued.values():
            why = f"{self._blame(job)}: the job did not start{job.why_in_brackets}: {over}"
            self._on_reply(_reply(job, "unreachable", why))
        for node in (*self._submitting, *self._waiting):
            self._on_reply(unreachable(node, f"not asked: {over}"))

    # -- submitting ----------------------------------------------------------------------------------------------------

    def _tick(self) -> bool:
        free = self._fan.width - len(self._queued) - len(self._fan.running) - len(self._submitting)
        # It waits for many free places, because each submission costs a login shell.
        if self._waiting and not self._submitting and free >= min(len(self._waiting), max(1, self._fan.width // 4)):
            self._submit([self._waiting.popleft() for _ in range(min(free, len(self._waiting)))])
        if self._queued and not self._looking and time.monotonic() >= self._next_look:
            self._look()
        return bool(self._waiting or self._submitting or self._queued)

    def _submit(self, nodes: list[str]) -> None:
        mark = f"--envmgr-{self.nonce}--"
        program = _program(self._options, self._prepare)
        # Jobs inherit from a login shell, as those of a user do who types sbatch after a login.
        argv = (*self._login, program, mark, *(self._names[node] for node in nodes))
        # One login shell submits for many nodes: it is slow on many sites, and each start-up file runs once.
        self._submitting.update(nodes)
        began = time.time()
        script = f"{self.script}{mark}\n".encode("utf-8", "surrogateescape")
        call = self._call("", argv, script, f"\n{mark} end".encode())
        self._fan.launch(call, lambda client: self._submitted(client, mark, nodes, began))

    def _submitted(self, client: Client, mark: str, nodes: list[str], began: float) -> None:
        self._submitting.clear()
        said = {}
        for line in client.output.decode("utf-8", "backslashreplace").splitlines():
            words = line.split(" ", 3)
            if words[0] == mark and len(words) == 4:
                said[words[1]] = (words[2], words[3])
        for node in nodes:
            name = self._names[node]
            status, words_ = said.get(name, ("", ""))
            # `sbatch --parsable` adds `;CLUSTER` to the number on sites with several clusters. Source: sbatch(1).
            number = words_.rpartition("; ")[2].partition(";")[0]
            if status == "0" and number.isdigit():
                self._queued[node] = _Job(node, name, number, time.monotonic(), began)
            else:
                reason = slurm.slurm_reason(words_.replace("; ", "\n").encode())
                why = f"Slurm: {reason}" if status else self._no_shell(client)
                self._on_reply(Reply(node, "unreachable", "", why, began, time.time()))
        self._next_look, self._pause = 0.0, _FIRST

    def _no_shell(self, client: Client) -> str:
        if client.ending == "timeout":
            return f"no job was submitted: the login shell did not end in {client.call.timeout:g} s"
        said = client.errors.decode("utf-8", "backslashreplace").strip().splitlines()
        return f"no job was submitted: {said[-1] if said else 'the login shell ended first'}"

    # -- waiting -------------------------------------------------------------------------------------------------------

    def _look(self) -> None:
        """Ask once about all jobs; the answer comes later."""
        self._looking = True
        # By default squeue leaves out ended jobs, which would then count as waiting.
        argv = (tool("squeue"), "-h", "--states=all", f"--name={slurm.job_name(self.nonce)}", "-o", "%i|%T|%r")
        # squeue never prints these bytes, so that only its exit ends the answer.
        self._fan.launch(self._call("", argv, b"", b"\n\0"), self._looked)

    def _looked(self, client: Client) -> None:
        self._looking = False
        self._next_look, self._pause = time.monotonic() + self._pause, min(_SLOWEST, self._pause * 1.2)
        found = {}
        for line in client.output.decode("utf-8", "backslashreplace").splitlines():
            number, _, rest = line.strip().partition("|")
            state, _, why = rest.partition("|")
            found[number] = (state, why)
        for job in list(self._queued.values()):
            state, job.why = found.get(job.number, ("", ""))
            if state in {"RUNNING", "COMPLETING"}:
                del self._queued[job.node]
                self._collect(job)
            elif state.startswith(slurm.ENDED):
                del self._queued[job.node]
                ended = f"Slurm: the job ended without an answer: {state.lower()}{job.why_in_brackets}"
                self._on_reply(_reply(job, "silent", ended))
            elif time.monotonic() - job.submitted > self._patience:
                del self._queued[job.node]
                self._give_up(job)

    def _give_up(self, job: _Job) -> None:
        self._fan.launch(self._call("", (tool("scancel"), "--quiet", job.number), b"", b"\n\0"), lambda _client: None)
        now = slurm.in_words(self._states[job.name])
        late = f"the job did not start within {self._patience} s{job.why_in_brackets}"
        self._on_reply(_reply(job, "unreachable", f"{self._blame(job)}: {late}; the node was {now}"))

    def _blame(self, job: _Job) -> str:
        """Return the beginning of a reason: `busy` where it waits for jobs of other users."""
        return "busy" if slurm.is_busy(self._states[job.name][0], job.why) else "Slurm"

    # -- collecting ----------------------------------------------------------------------------------------------------

    def _collect(self, job: _Job) -> None:
        limit = self._limit + _AROUND
        script = assign(nonce=self.nonce) + script_text(__file__, "collect.sh")
        sent = wrap(script, self.nonce, limit=limit, timeout=self._timeout + NODES_OWN, hard=False)
        step = slurm.one_task(f"--jobid={job.number}", "--overlap", "-w", job.name)
        self._asked[job.node] = job
        call = self._call(job.node, (*self._prefix, *step, "/bin/sh", "-s"), sent.encode(), end_mark(self.nonce))
        self._fan.begin(replace(call, most=limit + _AROUND, timeout=self._timeout, gentle=True))

    def _collected(self, reply: Reply) -> None:
        """Take the reply of the collecting step, which contains the job's own answer."""
        job = self._asked.pop(reply.node)
        if reply.status == "answered":
            answer = unwrap(reply.text.encode(), self.inner)
            reply = replace(reply, status=answer.status, text=answer.text, reason=answer.reason)
        self._on_reply(replace(reply, began=job.began))

    # -- what a fan asks its way ---------------------------------------------------------------------------------------

    def prepare(self, nodes: Sequence[str]) -> None:
        """Do nothing: `run` does it."""

    def argv(self, node: str) -> tuple[str, ...] | str:
        return f"no job for {node}"

    def explain(self, client: Client, answer: ScriptAnswer, *, begun: bool) -> tuple[Status, str]:
        said = slurm.slurm_reason(client.errors)
        if begun or answer.reason != "no answer" or not said:
            return "silent", f"the job's answer was not collected: {answer.reason}"
        return "silent", f"the job's answer was not collected: {said}"

    def again(self, client: Client) -> tuple[str, ...] | None:  # noqa: ARG002
        return None

    def finish(self) -> None:
        """Do nothing: `run` does it."""

    def _call(self, node: str, argv: tuple[str, ...], stdin: bytes, whole: bytes) -> Call:
        from envmgr.nodes.clients import Call

        return Call(node, argv, self.env, stdin, whole, 64 << 20, _ASIDE)


def _program(options: Sequence[str], prepare: str = "") -> str:
    """Return the program of the login shell: one sbatch for each node."""
    given = assign(envmgr_options=options, envmgr_conf=slurm.own_conf())
    return f"{untraced()}{given}{conf_fault()}{prepare}{script_text(__file__, 'submit.sh')}{UNTRACED_END}"


def conf_fault() -> str:
    """Return the shell function `slurm_conf_fault`."""
    return script_text(__file__, "conf.sh")


def _reply(job: _Job, status: Status, reason: str) -> Reply:
    return Reply(job.node, status, "", reason, job.began, time.time())


# The input is kept from start-up files: one that reads it would take lines away, and `exec zsh` would run them here.
_BASH = ("/bin/bash", "-c", 'exec 89<&0 </dev/null; exec /bin/bash -lc "$@"', "bash")


def _login_shell(user: str | None) -> tuple[str, ...]:
    """Return the words before `-c`'s program: a login shell with the variables of a login, and none of envmgr's."""
    account = require_account(user) if user is not None and os.geteuid() == 0 else this_account()
    of_root = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    path = of_root if account.uid == 0 else "/usr/local/bin:/usr/bin:/bin"
    env = (*(f"{key}={value}" for key, value in account.variables().items()), "SHELL=/bin/bash", f"PATH={path}")
    return (*session_as(account.name, {}, find=tool), tool("env"), "-i", *env, *_BASH)
