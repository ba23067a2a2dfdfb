"""conda environments: solve, lock, download, install, activation; the only users of rattler are here."""
