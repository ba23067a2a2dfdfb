"""The command line: verbs, options, and the faces of results and progress."""
