"""Programs for the chip that are written here, operation by operation."""
