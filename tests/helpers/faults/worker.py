"""`python -m tests.helpers.faults.worker FOLDER LOCAL MIRROR`: rounds in a process of its own, perhaps on a node of a cluster.

A line of JSON asks for the numbers of calls (`[VERB]`: fault -> those it can hit) or for a round (`[VERB, FAULT, AT]`); a line of
JSON answers. The sandbox is in FOLDER, what is not to meet the file system there in LOCAL.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from tests.helpers.faults.rounds import FAULTS, Outcome, Stage, calls_of, numbers_of, play


class Worker:
    """The other side of such a process."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    @classmethod
    def here(cls, folder: Path, mirror: str) -> Worker:
        argv = [*command(folder, folder.with_name(f"{folder.name}.local")), mirror]
        return cls(subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True))

    def numbers(self, verb: str) -> dict[str, list[int]]:
        found: dict[str, list[int]] = self._ask([verb])
        return found

    def play(self, verb: str, fault: str, at: int) -> Outcome:
        answer = self._ask([verb, fault, at])
        return Outcome(**{key: tuple(value) if isinstance(value, list) else value for key, value in answer.items()})

    def end(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()

    def _ask(self, question: Sequence[object]) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(question) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, f"the worker died over {question}"
        return json.loads(line)


def command(folder: Path, local: Path) -> list[str]:
    return [sys.executable, "-m", "tests.helpers.faults.worker", str(folder), str(local)]


def play_all(workers: Sequence[Worker], rounds: Iterable[tuple[str, str, int]]) -> Iterator[Outcome]:
    """Shared among the workers; as the rounds are given."""
    idle: SimpleQueue[Worker] = SimpleQueue()
    for worker in workers:
        idle.put(worker)

    def one(asked: tuple[str, str, int]) -> Outcome:
        worker = idle.get()
        try:
            return worker.play(*asked)
        finally:
            idle.put(worker)

    with ThreadPoolExecutor(len(workers)) as threads:
        yield from threads.map(one, rounds)


def main() -> None:
    folder, local, mirror = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
    stage = Stage(folder, mirror, local)
    try:
        for line in sys.stdin:
            verb, *rest = json.loads(line)
            if rest:
                answer: object = asdict(play(stage, verb, *rest))
            else:
                calls = calls_of(stage, verb)
                answer = {fault: numbers_of(stage, fault, calls) for fault in FAULTS}
            print(json.dumps(answer), flush=True)
    finally:
        stage.clear()


if __name__ == "__main__":
    main()
