"""Linear least squares of arrays; nothing here knows a problem or a network."""
