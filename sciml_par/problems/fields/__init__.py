"""The unknown function u and its derivatives."""
