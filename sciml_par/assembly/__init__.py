"""Rows of least-squares problems from equations and functions that are linear in what is sought."""
