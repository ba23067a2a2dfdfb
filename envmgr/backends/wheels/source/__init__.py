"""Packages that are built from their source: locked with the wheels that build them, built twice, without a network."""
