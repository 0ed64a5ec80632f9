"""Horovod's data service, which says what takes its place."""
