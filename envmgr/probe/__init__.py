"""One script that looks at a node, cannot hang, and leaves nothing there: its making, and the reading of its answers."""
