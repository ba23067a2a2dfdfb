"""The prefix as paths; installs, their manifests, and the builds that use them."""
