"""Programs of a matrix, run from their bytes: their fields, what the upload puts where, and the product."""
