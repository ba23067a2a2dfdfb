"""The documentation as a static site."""
