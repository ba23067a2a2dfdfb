"""Brings images to nodes: mounted from the share at once, copied behind that, from node to node where nodes may reach each
other.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from envmgr.catalog.site import Site
from envmgr.errors import EnvmgrError, Interrupted
from envmgr.images.node import BUSY, Act, NodeAnswer, NodeImage, WantedImage, node_script, read_answer
from envmgr.nodes.envelope import Reply
from envmgr.nodes.fanout import ask_nodes
from envmgr.nodes.sets import fold
from envmgr.probe.model import Way
from envmgr.report import Reporter, Stage
from envmgr.system.run import Runner

_ROUND = 15  # seconds that a node copies before it says how far it is
_HASHING = 900.0  # and that it may take to read the whole copy once more
_WHOLE = 24 * 3600.0


Key = tuple[str, str, str]
"""A node, the path of an install, and the sha256 of an image."""


@dataclass(slots=True)
class StagedImages:
    """The images of nodes, the nodes without an answer and why, and how copies were sent."""

    images: dict[Key, NodeImage] = field(default_factory=dict)
    faults: dict[str, str] = field(default_factory=dict)
    hosts: dict[str, str] = field(default_factory=dict)
    way: str = ""

    def of(self, node: str) -> list[NodeImage]:
        return [image for image in self.images.values() if image.node == node]


class Stager:
    """Asks nodes about images, and lets them copy."""

    def __init__(self, site: Site, runner: Runner, reporter: Reporter, via: Way) -> None:
        self._site, self._runner, self._reporter, self._via = site, runner, reporter, via
        self.found = StagedImages()

    def ask(
        self,
        nodes: Sequence[str],
        act: Act,
        wanted: Sequence[WantedImage] = (),
        *,
        rate: int = 0,
        sources: Mapping[str, str] | None = None,
        job: str | None = None,
        slices: bool = False,
        on_answer: Callable[[], None] = lambda: None,
    ) -> None:
        """Run the act on the nodes, and take their answers. With `slices` they copy what was sent to them."""
        settings = self._site.staging
        script = node_script(
            act,
            wanted,
            folder=settings.folder,
            seconds=_ROUND,
            quota=settings.quota,
            rate=rate,
            sources=sources,
            others="slices" if slices else "share",
        )

        busy: list[str] = []

        def on_reply(reply: Reply) -> None:
            answer = NodeAnswer("", (), reply.reason)
            if reply.status == "answered":
                answer = read_answer(reply.node, reply.text, wanted)
            if answer.fault == BUSY and time.monotonic() < until:
                busy.append(reply.node)
            elif answer.fault:
                self.found.faults[reply.node] = answer.fault
            else:
                self.found.hosts[reply.node] = answer.host
                self.found.images |= {image.key: image for image in answer.images}
            on_answer()

        limit = self._site.transport.node_timeout + (_ROUND + _HASHING if act == "copy" else 0)
        deadline = _WHOLE if act == "copy" else None
        until = time.monotonic() + _ROUND + _HASHING  # as long as the other run may take
        while nodes:
            ask_nodes(
                nodes,
                script,
                site=self._site,
                via=self._via,
                runner=self._runner,
                on_reply=on_reply,
                timeout=limit,
                deadline=deadline,
                job=job,
            )
            nodes, busy[:] = list(busy), []
            if nodes:
                self._reporter.say(f"{fold(nodes)}: waiting for another run that stages there")

    def stage(self, nodes: Sequence[str], wanted: Sequence[WantedImage]) -> StagedImages:
        """Mount the images on the nodes, then copy them, until all that can be done is done."""
        with self._reporter.stage("mount", total=len(nodes), unit="nodes") as stage:
            self.ask(
                nodes, "mount", wanted, on_answer=lambda: stage.update(len(self.found.hosts) + len(self.found.faults))
            )
        left = self._left(nodes)
        if not left or not self._site.staging.quota:  # without room for copies, the share is read
            return self.found
        total = sum(each.size for each in wanted) * len(nodes)
        with self._reporter.stage("copy", total=total, unit="bytes") as stage:
            way, why = "", ""
            if len(left) > 1 and self._via == "slurm":
                why = self._send(left, wanted, stage)
                way = "" if why else "by sbcast"
            elif len(left) > 1 and self._reach_each_other(left):
                way = "from node to node"
                self._tree(left, wanted, stage)
            elif len(left) > 1:
                way = "from this host, as nodes cannot reach each other by ssh as root"
                self._send(left, wanted, stage)
            more = self._left(left)
            self._rounds(more, wanted, stage)
        if way and not more:
            self.found.way = f"{way}: the share is read once"
        elif way or why:
            self.found.way = (
                f"{f'{way}, then ' if way else ''}from the share, {len(more)} times{f': {why}' if why else ''}"
            )
        return self.found

    def _send(self, nodes: list[str], wanted: Sequence[WantedImage], stage: Stage) -> str:
        """Send the images by sbcast, or by ssh. Return why that was not possible; empty if it was."""
        from envmgr.images.broadcast import broadcast, send_by_ssh

        for image in wanted:
            rows = {node: self.found.images[node, image.path, image.sha256] for node in nodes}
            had = {node: row.copied for node, row in rows.items() if row.mounted != "local"}
            if not (lacking := [node for node in self._left(nodes) if had.get(node, image.size) < image.size]):
                continue

            def take(on: Sequence[str], job: str | None = None, image: WantedImage = image) -> None:
                self.ask(on, "copy", [image], slices=True, job=job)
                stage.update(sum(each.copied for each in self.found.images.values()))

            start = min(had[node] for node in lacking)
            try:
                if self._via == "slurm":
                    by = partial(take, lacking)
                    broadcast(image, lacking, start, site=self._site, runner=self._runner, take=by)
                else:
                    send_by_ssh(image, lacking, start, site=self._site, runner=self._runner, take=take)
            except Interrupted:
                raise
            except EnvmgrError as error:
                return error.message
        return ""

    def _tree(self, left: list[str], wanted: Sequence[WantedImage], stage: Stage) -> None:
        """Copy to one node from the share, then from each node that has all to one more, until all have."""
        while left:  # each has one turn
            ready = [node for node in self.found.hosts if self._has_all(node, wanted)]
            pairs = dict(zip(left, ready or ["share"], strict=False))
            self._rounds([*pairs], wanted, stage, {self.found.hosts[node]: source for node, source in pairs.items()})
            left = left[len(pairs) :]

    def _rounds(
        self, nodes: list[str], wanted: Sequence[WantedImage], stage: Stage, sources: Mapping[str, str] | None = None
    ) -> None:
        """Let the nodes copy until each has all, or cannot go on."""
        bound = self._site.staging.bandwidth or 0
        while nodes:
            before = {key: image.copied for key, image in self.found.images.items()}

            def tick() -> None:
                stage.update(sum(image.copied for image in self.found.images.values()))

            # Only what comes from the share is bounded.
            of_share = max(1, sum(source == "share" for source in sources.values()) if sources else len(nodes))
            rate = max(1, bound // of_share) if bound else 0
            self.ask(nodes, "copy", wanted, rate=rate, sources=sources, on_answer=tick)
            stuck = {node for node in nodes if all(before.get(i.key) == i.copied for i in self.found.of(node))}
            nodes = [node for node in self._left(nodes) if node not in stuck]

    def _left(self, nodes: Sequence[str]) -> list[str]:
        """Return the nodes on which more can be done."""
        answered = (node for node in nodes if node not in self.found.faults)
        return [node for node in answered if not all(image.done for image in self.found.of(node))]

    def _has_all(self, node: str, wanted: Sequence[WantedImage]) -> bool:
        images = self.found.images
        keys = [(node, each.path, each.sha256) for each in wanted]
        return all(key in images and images[key].copied == images[key].size for key in keys)

    def _reach_each_other(self, nodes: Sequence[str]) -> bool:
        """Return whether the nodes may log in to the first one, as root and without a question."""
        said: list[str] = []
        script = f"ssh -n -o BatchMode=yes -o ConnectTimeout=5 {nodes[0]} true && echo yes"
        ask_nodes(
            nodes[1:],
            script,
            site=self._site,
            via="ssh",
            runner=self._runner,
            on_reply=lambda reply: said.append(reply.text.strip()),
        )
        return all(word == "yes" for word in said)


def folded(images: Sequence[NodeImage]) -> list[tuple[NodeImage, str]]:
    """Return equal images once, each with its nodes, folded; ages and counts of copied bytes do not make a difference."""
    nodes: dict[tuple[object, ...], list[NodeImage]] = {}
    for image in images:
        key = (image.path, image.sha256, image.mounted, image.source, image.copied == image.size, image.why)
        nodes.setdefault(key, []).append(image)
    return [(each[0], fold([image.node for image in each])) for each in nodes.values()]
