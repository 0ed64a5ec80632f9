"""What `train` does after the last step."""
