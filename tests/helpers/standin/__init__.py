"""A stand-in conda channel: a real interpreter and real wheels, packed as `.conda`, plus small made-up packages."""
