"""The text of modulefiles, and the questions that only Lmod can answer."""
