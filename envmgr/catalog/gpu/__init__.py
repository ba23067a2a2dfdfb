"""GPUs: what a node has, what an entry has code for, and what comes of the two."""
