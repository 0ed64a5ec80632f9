"""Problems with known solutions, a file each, and their list by name."""
