"""The hardware and software of nodes, and the published entries that they can run."""
