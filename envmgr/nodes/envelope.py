"""A script's way to a node and its answer's way back: what is sent to `/bin/sh -s`, and what came out of it. Pure."""

from __future__ import annotations

import math
import re
from typing import Literal, NamedTuple

from envmgr.report import size_text

_MARK = "--envmgr:{nonce}:{what}--"
_QUOTED = 30  # characters of somebody else's words in a reason

# The shells around the script live on when the group is told to end: until the script has, which may have a trap for that.
# Our own commands are found whatever PATH the account has; `command` passes by functions of their names. Descriptors: 3 is
# the way of the script's status, 4 is our stdout.
_OURS = "PATH=/usr/bin:/bin command"
_MARKED = """\
exec 4>&1
printf '\\n--envmgr:%s:begin--\\n' {nonce}
envmgr_status=$( trap : TERM; {{ {{ trap : TERM; ( set --; unset envmgr_status; eval {script}
) </dev/null 3>&- 4>&-; printf %s "$?" >&3; }} 4>&- | {ours} head -c {cut} 3>&- >&4; }} 3>&1 )
exec 4>&-
printf '\\n--envmgr:%s:end:%s:%s--\\n' {nonce} "$envmgr_status" {limit}
"""
# How watchers end the process group: what has files to tidy up hears of it a second before. This shell stays that long,
# and says no more: Slurm kills all that is left of a step whose first process has ended.
_AWAY = "trap '' TERM; kill -TERM 0; {ours} sleep 1; kill -KILL 0"
# One compound, so that the shell has parsed all of it before anything runs. The watchers hold neither stdout nor stderr:
# whoever waits for the end of our output waits for the script only. `kill … 0` is our process group: sshd and slurmstepd
# start a new one for us. A probe may leave a child behind that hangs in the kernel: it holds nothing of ours.
_SENT = """\
{{
exec 3<&0 </dev/null
( while read -r _; do :; done <&3; {away} ) >/dev/null 2>&1 &
( exec 3<&-; {ours} sleep {seconds}; {away} ) >/dev/null 2>&1 &
exec 3<&-
trap 'exec >/dev/null 4>&1' TERM
{marked}{finish}}}
"""
# The watchers and what the script left behind. A Slurm step must not kill itself, or it counts as failed: there, what
# ignores SIGTERM is looked for one by one. Field 5 of /proc/PID/stat is the process group; field 2, in brackets, may hold
# anything. Source: proc_pid_stat(5).
_KILL = """\
kill -KILL 0
"""
_TERM = """\
trap '' TERM
kill -TERM 0
set -f
group() { set -- ${1##*) }; group=$3; }
read -r line </proc/$$/stat; group "$line"; ours=$group
set +f
for file in /proc/[0-9]*/stat; do
pid=${file#/proc/}; pid=${pid%/stat}
[ "$pid" = $$ ] || { read -r line <"$file"; } 2>/dev/null || continue
[ "$pid" = $$ ] || { set -f; group "$line"; set +f; [ "$group" = "$ours" ] && kill -KILL "$pid"; }
done 2>/dev/null
exit 0
"""


class Answer(NamedTuple):
    """What `unwrap` found. `reason` is empty for a whole answer of a script that ended with status 0."""

    status: Literal["answered", "silent"]
    text: str
    reason: str


def quote(text: str) -> str:
    """`text` as one word of a POSIX shell; a NUL byte, which no shell can hold, is dropped."""
    return "'" + text.replace("\0", "").replace("'", "'\\''") + "'"


def wrap(script: str, nonce: str, *, limit: int, timeout: float, hard: bool = True) -> str:
    """The POSIX sh text to send to `/bin/sh -s` on stdin, which must stay open until the answer is there.

    What `marked` says holds for the script. When stdin ends, or after `timeout` seconds, the whole process group is told to
    end, and a second later killed. At the end it is killed, too; with `hard=False` it is told to end first, and the status is 0.
    """
    return _SENT.format(
        ours=_OURS,
        away=_AWAY.format(ours=_OURS),
        seconds=max(1, math.ceil(timeout)),
        marked=marked(script, nonce, limit=limit),
        finish=_KILL if hard else _TERM,
    )


def marked(script: str, nonce: str, *, limit: int) -> str:
    """Lines of sh or bash that run `script` and print its stdout between two marker lines with `nonce`.

    `script` is run by `eval` in a subshell with stdin from /dev/null: an `exit`, a syntax error and any character are its
    own affair. At most `limit` bytes of its output are printed; one more tells `unwrap` that it was cut. The answer is
    whole when everybody who holds that stdout has let go of it.
    """
    return _MARKED.format(ours=_OURS, nonce=nonce, script=quote(script), limit=limit, cut=limit + 1)


def end_mark(nonce: str) -> bytes:
    """What an answer's last line begins with, with the line break before it."""
    return f"\n--envmgr:{nonce}:end:".encode()


def begun(output: bytes | bytearray, nonce: str) -> bool:
    return _begin(nonce) in output


def unwrap(output: bytes | bytearray, nonce: str) -> Answer:
    r"""Find the answer in all that a node printed: banners before and behind it do not matter.

    Bytes that are not UTF-8 come as `\xNN`. Where the connection made CRLF of each line break, that is undone.
    """
    start = output.find(_begin(nonce))
    if start < 0:
        return Answer("silent", "", _nothing(output, nonce))
    start = output.find(b"\n", start + 1) + 1
    crlf = output[start - 2 : start] == b"\r\n"
    end = re.compile(re.escape(end_mark(nonce)) + rb"(\d+):(\d+)--").search(output, start - 1)
    if end is None:
        return Answer("silent", "", f"half an answer: {size_text(len(output) - start)} and no end")
    body = bytes(output[start : max(start, end.start())])
    if crlf:
        body = body.removesuffix(b"\r").replace(b"\r\n", b"\n")
    status, limit = int(end[1]), int(end[2])
    if len(body) > limit:
        return Answer("silent", "", f"the answer is longer than {size_text(limit)}")
    text = body.decode("utf-8", "backslashreplace")
    return Answer("answered", text, f"the script ended with status {status}" if status else "")


def _begin(nonce: str) -> bytes:
    return f"\n--envmgr:{nonce}:begin--".encode()


def _nothing(output: bytes | bytearray, nonce: str) -> str:
    other = re.search(rb"\n--envmgr:([0-9A-Za-z]+):(?:begin|end)", output)
    if other is not None and other[1].decode() != nonce:
        return f"the answer of another run ({other[1].decode()}, asked by {nonce})"
    if not output.strip():
        return "no answer"
    first = next(line for line in bytes(output[:4096]).splitlines() or [b""] if line.strip() or len(output) > 4096)
    words = "".join(c if c.isprintable() else " " for c in first.decode("utf-8", "backslashreplace")).strip()
    shown = words[:_QUOTED].rstrip() + ("…" if len(words) > _QUOTED else "")
    return f'no answer among {size_text(len(output))} of output, which begin "{shown}"'
