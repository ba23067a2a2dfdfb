"""The prefix as paths; installs, their manifests, and who uses them."""
