"""Processes, files, users, YAML."""
