"""The container backend: an image of a registry, by its digest, as one squashfs and programs on PATH that run in it."""
