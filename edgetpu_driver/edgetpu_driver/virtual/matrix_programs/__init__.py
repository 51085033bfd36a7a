"""Programs of a matrix, run from their bytes: their fields, the upload of parameters, and the product."""
