"""Programs for the chip that are generated here, operation by operation."""
