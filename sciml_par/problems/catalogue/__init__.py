"""Problems with known solutions, a file for each family, and their list by name."""
