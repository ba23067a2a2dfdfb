"""Where things lie in a checkout: all tests find them from here."""

from __future__ import annotations

from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
ROOT = TESTS.parent
CACHE = TESTS / ".cache"
"""Kept between runs: the stand-in channel, downloaded wheels and sources."""
