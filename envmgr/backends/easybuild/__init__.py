"""EasyBuild as a backend: its locks, its private environment, one `eb` process per store item, flat modules."""
