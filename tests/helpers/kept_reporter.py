"""A reporter that keeps what is said to the person."""

from __future__ import annotations

from envmgr.report import SilentReporter


class Told(SilentReporter):
    """`said` has a text for each line."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def say(self, text: str) -> None:
        self.said.append(text)
