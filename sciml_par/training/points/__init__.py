"""Which points a training has, which of them are a rank's, and which of these a step uses."""
