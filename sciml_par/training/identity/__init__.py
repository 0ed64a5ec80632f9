"""What makes two things the same: fingerprints, and descriptions of settings."""
