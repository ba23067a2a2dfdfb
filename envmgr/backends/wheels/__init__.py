"""Wheels of a Python package index, locked by uv, installed into a Python of the catalog."""
