"""Comparisons of nodes with each other, and of a shell with the other shells of its node."""
