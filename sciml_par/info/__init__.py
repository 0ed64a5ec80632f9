"""The command `sciml-par info`: what the ranks have, and whether collectives work there."""
