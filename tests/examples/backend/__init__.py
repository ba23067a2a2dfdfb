"""Scripts from a folder of the site, each an install of its own."""
