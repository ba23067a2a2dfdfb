"""Declarations: entries, recipes, the site, and what an entry needs of a node."""
