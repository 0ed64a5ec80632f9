"""What runs between two chunks of steps: progress, callbacks, signals."""
