"""Where the batches of points of a step come from."""
