"""The command `sciml-par`."""
