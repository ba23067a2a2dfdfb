"""One script that looks at a node, cannot hang, and leaves nothing there; and the reading of its answers."""
