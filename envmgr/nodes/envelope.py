"""A script's way to a node and its answer's way back: the text for `/bin/sh -s`, its output, and the reply. Pure."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Literal, NamedTuple

from envmgr.system.shelltext import assign, script_text
from envmgr.wording import size_text

Status = Literal["answered", "silent", "unreachable"]


@dataclass(frozen=True, slots=True)
class Reply:
    """The answer of one node to a script; every node that was asked has exactly one.

    `answered`: `text` is the script's whole output, and `reason` is empty, or says that the script ended with another
    status than 0. `silent`: the node was reached, and no whole answer came (out of time, half of it, too long,
    something else). `unreachable`: no connection, no step. `reason` is one line that says why. `began` and `ended` are
    the controller's clock, seconds since the epoch; between them the node answered.
    """

    node: str
    status: Status
    text: str
    reason: str
    began: float
    ended: float


_QUOTED = 30  # characters of a node's own words in a reason


class ScriptAnswer(NamedTuple):
    """The answer that `unwrap` found. `reason` is empty for a whole answer of a script that ended with status 0."""

    status: Literal["answered", "silent"]
    text: str
    reason: str


def wrap(script: str, nonce: str, *, limit: int, timeout: float, hard: bool = True) -> str:
    """Return the POSIX sh text for `/bin/sh -s` on stdin, which must stay open until the answer arrives.

    The rules of `marked` apply to the script. When stdin ends, or after `timeout` seconds, the whole process group gets
    SIGTERM, again and again, and SIGKILL when the script has ended, ten seconds later at most: what tidies up ignores
    SIGTERM from then on. At the end the group is also killed; with `hard=False` it gets SIGTERM first, and the status
    is 0.
    """
    seconds = assign(envmgr_seconds=max(1, math.ceil(timeout)))
    end = "kill -KILL 0\n" if hard else f"{end_rest()}exit 0\n"
    text = seconds + script_text(__file__, "watch.sh") + marked(script, nonce, limit=limit) + end
    return f"{{\n{text}}}\n"  # one compound, so that the shell has parsed all of it before anything runs


def marked(script: str, nonce: str, *, limit: int) -> str:
    """Return lines of sh or bash that run `script` and print its stdout between two marker lines with `nonce`.

    `script` is run by `eval` in a subshell with stdin from /dev/null: an `exit`, a syntax error or any character
    affects only itself. At most `limit` bytes of its output are printed; one more shows `unwrap` that the output was
    cut. The answer is complete when all processes that hold this stdout have closed it.
    """
    given = assign(envmgr_nonce=nonce, envmgr_limit=limit, envmgr_script=script)
    return given + script_text(__file__, "answer.sh")


def end_rest() -> str:
    """Return lines of sh or bash that end the whole process group except the shell that runs them."""
    return script_text(__file__, "end.sh")


def end_mark(nonce: str) -> bytes:
    """Return the beginning of an answer's last line, with the line break before it."""
    return f"\n--envmgr:{nonce}:end:".encode()


def begun(output: bytes | bytearray, nonce: str) -> bool:
    return _begin(nonce) in output


def unwrap(output: bytes | bytearray, nonce: str) -> ScriptAnswer:
    r"""Find the answer in all that a node printed: banners before and behind it do not matter.

    Bytes that are not UTF-8 come as `\xNN`. Where the connection made CRLF of each line break, that is undone.
    """
    start = output.find(_begin(nonce))
    if start < 0:
        return ScriptAnswer("silent", "", _nothing(output, nonce))
    start = output.find(b"\n", start + 1) + 1
    crlf = output[start - 2 : start] == b"\r\n"
    # The search begins at the line break before: in an empty answer, the end mark begins with that one.
    end = re.compile(re.escape(end_mark(nonce)) + rb"(\d+|\d* head\d*):(\d+)--").search(output, start - 1)
    if end is None:
        return ScriptAnswer("silent", "", f"half an answer: {size_text(len(output) - start)} and no end")
    if not end[1].isdigit():
        return ScriptAnswer("silent", "", "/usr/bin/head does not run there")
    body = bytes(output[start : max(start, end.start())])
    if crlf:
        body = body.removesuffix(b"\r").replace(b"\r\n", b"\n")
    status, limit = int(end[1]), int(end[2])
    if len(body) > limit:
        return ScriptAnswer("silent", "", f"the answer is longer than {size_text(limit)}")
    text = body.decode("utf-8", "backslashreplace")
    return ScriptAnswer("answered", text, f"the script ended with status {status}" if status else "")


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
