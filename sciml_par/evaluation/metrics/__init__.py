"""Numbers that say how good a prediction is, and how well a program scales."""
