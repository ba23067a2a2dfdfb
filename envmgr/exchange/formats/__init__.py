"""One module for each format of another tool's files."""
