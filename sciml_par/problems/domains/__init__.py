"""Domains: where equations hold, with their points and boundaries."""
