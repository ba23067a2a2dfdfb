"""Answers of nodes as they arrive: one copy for equal answers, so that memory follows diversity and not node count."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from envmgr.nodes.envelope import Reply
from envmgr.probe.model import Facts, Fleet, Group
from envmgr.probe.shell import read_lines, split_answer
from envmgr.wording import escaped


class Folding:
    """Takes replies as they come and keeps one copy of what several nodes said: memory follows diversity."""

    def __init__(self, nodes: Sequence[str]) -> None:
        self._order = {node: number for number, node in enumerate(nodes)}
        self._facts: dict[str, Facts] = {}
        self._nodes: dict[str, list[str]] = {}
        self._own: dict[str, Facts] = {}
        self._replies: dict[str, Reply] = {}

    def __call__(self, reply: Reply) -> None:
        self._replies[reply.node] = replace(reply, text="", reason=escaped(reply.reason, "\n")[:300])
        if reply.status != "answered":
            return
        own, text = split_answer(reply.text)
        self._own[reply.node] = read_lines(own)
        if text not in self._nodes:
            self._facts[text] = read_lines(text.split("\n"))
            self._nodes[text] = []
        self._nodes[text].append(reply.node)

    def counting(self, update: Callable[[int], None]) -> Callable[[Reply], None]:
        def take(reply: Reply) -> None:
            self(reply)
            update(len(self._replies))

        return take

    def forget(self, nodes: Iterable[str]) -> None:
        for node in nodes:
            self._replies.pop(node, None)
            for of_text in self._nodes.values():
                if node in of_text:
                    of_text.remove(node)

    def fleet(self) -> Fleet:
        groups = [
            Group(self._facts[text], tuple(sorted(nodes, key=self._order.__getitem__)))
            for text, nodes in self._nodes.items()
            if nodes
        ]
        groups.sort(key=lambda group: self._order[group.nodes[0]])
        missing = [r for r in self._replies.values() if r.status != "answered"]
        missing.sort(key=lambda r: self._order[r.node])
        return Fleet(tuple(groups), self._own, self._replies, tuple(missing))
