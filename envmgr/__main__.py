"""`python -m envmgr`."""

from envmgr.cli import main

main()
