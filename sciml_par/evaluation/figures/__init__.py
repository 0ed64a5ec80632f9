"""Figures of predictions, errors, losses and accuracies, drawn from plain arrays."""
