"""What of a lock of easyconfigs is judged: that all of it is needed, the CUDAs that its closure has, and what is made for which."""

from __future__ import annotations

import re

from envmgr.backends.easybuild.lock import EasyBuildLock
from envmgr.catalog.gpu_codes import short_cuda
from envmgr.catalog.lock_rules import LockFacts, closure_of, unneeded

_TOOLKITS = ("CUDA", "CUDAcore")
# EasyBuild's word in a version suffix: `8.9.2.26-CUDA-12.1.1`.
_FOR = re.compile(r"-CUDA-([0-9]{1,3})\.")
_MAJOR = re.compile(r"([0-9]{1,3})(\.|$)")


def lock_facts(lock: EasyBuildLock) -> LockFacts:
    majors: dict[str, list[str]] = {}
    for item in lock.items:
        own = _MAJOR.match(item.version) if item.name in _TOOLKITS else None
        for major in sorted({own[1]} if own else {*_FOR.findall(item.version)}):
            majors.setdefault(major, []).append(f"{item.name} {item.version}")
    toolkit = next((version for name in _TOOLKITS if (version := version_of(lock, name))), None)
    needs = {item.key: (*item.depends, *item.build_depends) for item in lock.items}
    needed = closure_of([lock.items[-1].key], needs.__getitem__)
    idle = unneeded(((item.key, f"{item.name} {item.version}") for item in lock.items), needed)
    return LockFacts(short_cuda(toolkit) or ("" if majors else None), majors, own=tuple(idle))


def version_of(lock: EasyBuildLock, name: str) -> str | None:
    return next((item.version for item in lock.items if item.name == name), None)
