"""Pictures made for tests, and the results expected for them."""
