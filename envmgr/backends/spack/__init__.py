"""Environments that a site's own Spack resolves and builds, from locked sources."""
