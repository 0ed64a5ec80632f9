"""The compiled loop over steps, and when it stops."""
