"""What the layouts of the backend are, and which installs each of them changed."""

from __future__ import annotations

PYTHON = "python"  # the package that brings `bin/python`; of PyPy, too, in conda-forge

# 1: the packages, compiled, read-only. 2: a Python has the mark of `system/pythons.py`; installs without one are as before.
MARKED = 2
