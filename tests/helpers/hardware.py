"""What nodes tell of their CPU and GPUs, for tests of audits."""

from __future__ import annotations

from envmgr.catalog.fitness import level_flags

V2, V3, V4 = (
    " ".join(sorted((flags - {"sse3"}) | {"pni"})) for level, flags in level_flags().items() if level != "x86-64"
)
NODE = {
    "fitness.driver": "-",
    "fitness.library": "-",
    "fitness.glibc": "2.34",
    "fitness.arch": "x86_64",
    "fitness.flags": V3,
    "fitness.os": "rocky 9.4",
}
GTX = "nvidia 7.5 {} NVIDIA GeForce GTX 1650"


def driven(version: str, gpus: str = GTX) -> dict[str, str]:
    return NODE | {"fitness.driver": version, "fitness.library": version, "fitness.gpus": gpus.replace("{}", version)}
