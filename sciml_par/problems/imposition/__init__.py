"""Conditions that the ansatz fulfils exactly."""
