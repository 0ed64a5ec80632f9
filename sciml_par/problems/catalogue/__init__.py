"""Problems with known solutions, one file per family, and their list by name."""
