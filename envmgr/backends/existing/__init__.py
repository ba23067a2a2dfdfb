"""Installs that somebody else made: declared by their path, never changed, and not ours."""
