"""Conditions of a problem, one kind a file: on the boundary, at points, and of integrals."""
