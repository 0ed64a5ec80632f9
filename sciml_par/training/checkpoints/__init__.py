"""Checkpoints: writing, reading, resuming."""
