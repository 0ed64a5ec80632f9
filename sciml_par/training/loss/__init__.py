"""The loss of a problem: its terms, gradients and Jacobian."""
