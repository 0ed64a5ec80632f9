"""How much each term of the loss, or each of its points, counts in a training."""
