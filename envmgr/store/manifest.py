"""The manifest: the content of an install, and its provenance. It is written last; an install without one does not
exist.
"""

from __future__ import annotations

FORMAT = 1
"""The number of a manifest's format; another one is refused."""
