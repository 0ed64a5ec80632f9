"""Derivatives by Taylor propagation through a network."""
