"""Wheels of Python package indexes: resolved, fetched, unpacked. What every backend shares that installs them."""
