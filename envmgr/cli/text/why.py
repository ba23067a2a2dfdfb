"""The text of `envmgr why`."""

from __future__ import annotations

from envmgr.cli.render import out
from envmgr.commands.why import WhyResult
from envmgr.commands.why_changes import WhyChange
from envmgr.wording import counted, one_line

_MOST = 12  # packages of one entry that are printed
_HOW = {
    "log": "as its log says",
    "environment": "as the environment that Slurm kept says",
    "script": "as the script that Slurm kept says",
    "time": "by time, not seen",
}
_WORDS = {
    "gone": "{what} is gone",
    "install": "{what} is another install",
    "user": "your environment {what} is another one",
    "default": "`module load {what}` gives another version",
    "module": "the module {what} sets other things",
    "driver": "the driver of {what} is another one",
    "gpus": "the GPUs of {what} are others",
    "options": "the job script asks Slurm for something else: {what}",
    "script": "the job script {what} is another one",
    "added": "{what} is new",
}


def show_why(result: WhyResult) -> None:
    """Print the changes, the likeliest cause first."""
    if result.job:
        said = f", started {result.started}" if result.started else ", which did not start"
        out(f"job {result.job} of {result.user}{said}{f', on {result.nodes}' if result.nodes else ''}")
    if result.log:
        out(f"log {one_line(result.log)}")
    for load in result.loaded:
        number = load.generation or result.generation
        where = "" if number is None else f", generation {number}"
        digest = f", digest {load.digest[:8]}" if load.digest else ""
        out(f"loaded {one_line(load.name)}{where}{digest}: {_HOW[load.how]}")
    if not result.loaded and result.generation is not None:
        out(f"generation {result.generation}{': by time, not seen' if result.job or result.log else ''}")
    out(f"now generation {result.now} is current")
    for note in result.notes:
        out(f"note: {one_line(note)}")
    out("")
    for change in result.changes:
        _show(change)
    said = "not looked at: " + "; ".join(map(one_line, result.not_looked_at))
    out(f"nothing changed that envmgr knows of; {said}" if not result.changes else said)


def _show(change: WhyChange) -> None:
    old, new = one_line(change.old), one_line(change.new)
    between = (
        f": {old or 'not set'} -> {new or 'not set'}" if (old or new) and change.kind not in ("gone", "added") else ""
    )
    note = f" ({one_line(change.note)})" if change.note else ""
    out(_WORDS[change.kind].format(what=one_line(change.what)) + between + note)
    for row in change.packages[:_MOST]:
        out(f"  {one_line(row.name)} {one_line(row.old or 'not there')} -> {one_line(row.new or 'not there')}")
    if (more := len(change.packages) - _MOST) > 0:
        out(f"  and {counted(more, 'packages')} more; `--format json` lists all")
