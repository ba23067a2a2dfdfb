"""An entry's own tests, through its staged module here or through the published one on nodes."""
