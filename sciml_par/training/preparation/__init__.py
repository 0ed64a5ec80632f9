"""What `train` does before the first step."""
