"""Parts of networks: activations, layers and their initial weights."""
