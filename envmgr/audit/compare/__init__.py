"""Node against node, and a shell against the others of its node."""
