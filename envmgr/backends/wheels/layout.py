"""What the layouts of the backend are: what it makes of a lock."""

from __future__ import annotations

# 1: a prefix of links over the base's Python, wheels unpacked by installer 1.1, compiled, marked, read-only.
LAYOUT = 1
# How a wheel is built from its source: the environment of the build, its order, its time. Counts up when its bytes change.
# 2: at one path, on a host of one name, where mounts can be had.
MADE_AS = 2
