"""A file that runs in the Python of a build from source."""
