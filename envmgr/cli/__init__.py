"""The command line: the table of verbs, and how results and progress look."""
