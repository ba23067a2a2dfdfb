"""What the layouts of the backend are: what it makes of a lock."""

from __future__ import annotations

# 1: a prefix of links over the base's Python, wheels unpacked by installer 1.1, compiled, marked, read-only.
LAYOUT = 1
