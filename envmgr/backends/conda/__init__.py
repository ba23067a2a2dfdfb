"""conda environments: solve, lock, download, install, activation."""
