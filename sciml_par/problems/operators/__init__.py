"""Differential operators."""
