"""Generations: what is staged, recorded and made current, by publish and by rollback."""
