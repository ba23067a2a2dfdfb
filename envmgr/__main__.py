"""`python -m envmgr`."""

from envmgr.cli.app import main

main()
