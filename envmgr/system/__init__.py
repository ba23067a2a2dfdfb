"""Processes, files, users, YAML: the only effects."""
