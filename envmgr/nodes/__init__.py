"""Nodes: which there are, and one script run on many of them. Only this room imports ClusterShell.

ClusterShell is imported by the functions that need it.
"""
