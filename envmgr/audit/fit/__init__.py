"""What nodes have, and what of the published they can run."""
