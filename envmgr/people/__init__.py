"""Environments of users' own packages, on top of a published entry."""
