"""The names of networks, without the import of TensorFlow that their classes need."""

NETWORK_NAMES = ("mlp", "siren", "fourier", "modified", "pirate")
"""What `network_named` and `train(network=...)` take."""
