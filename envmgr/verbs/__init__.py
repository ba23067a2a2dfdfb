"""Verbs, one file each: options, work, result and its text."""
