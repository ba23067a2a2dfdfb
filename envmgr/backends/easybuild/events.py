"""The events that envmgr's hooks in EasyBuild report during a build: the current step, for the bar and the log."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

# EasyBuild's steps, in its order, as our hooks name them.
STEPS = (
    "fetch",
    "unpack",
    "patch",
    "prepare",
    "configure",
    "build",
    "test",
    "install",
    "extensions",
    "finish",
    "sanity",
    "cleanup",
    "module",
)


class Events:
    """Follows the file that the hooks write.

    `done` counts steps, `detail` is the current activity, and `step` the last step that began. `log` is the place of
    EasyBuild's log while it runs, `failed` its message on a failure.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.total = len(STEPS)
        self.done = 0
        self.detail = ""
        self.step = ""
        self.failed = ""
        self.log = ""
        self._offset = 0

    def read(self) -> Iterator[str]:
        """Yield new events as readable lines."""
        try:
            with self.path.open("rb") as file:
                file.seek(self._offset)
                data = file.read()
        except OSError:
            return
        whole, newline, _ = data.rpartition(b"\n")
        self._offset += len(whole) + len(newline)
        for line in whole.splitlines():
            with suppress(ValueError, KeyError):
                yield self._take(json.loads(line))

    def _take(self, event: dict[str, str]) -> str:
        match event["event"]:
            case "step":
                self.detail = self.step = event["step"]
                if event["step"] in STEPS:
                    self.done = STEPS.index(event["step"])
                self.log = self.log or event["log"]
                return str(event["step"])
            case "extension":
                self.detail = f"extension {event['name']}"
                return self.detail
            case _:
                self.failed = event["message"]
                return f"failed: {event['message']}"
