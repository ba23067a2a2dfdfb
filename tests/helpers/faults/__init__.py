"""Faults at the calls that change files: shim.c lets them fail, shim.py says which, rounds.py judges what came of it."""
